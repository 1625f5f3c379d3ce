// The head of a pipeline's page: its name and health, the cause, and the next step as buttons.
import { Button, Flex, Heading, HStack, Text, h } from "./host.js";
import { DagButton, MissingRights, WHY, useActions, useDeclared } from "./actions.js";
import { useWaitingRun } from "./api.js";
import { Muted, Time } from "./format.js";
import { Link, Notice, Prose, Sign } from "./parts.js";
import { HEALTH } from "./words.js";

const AFTER_DISCARD = {
  live: "The next run loads its offsets again.",
  redrive: "Its records stay in the quarantine.",
};
const STATUS = { green: "success", blue: "info", gray: "neutral", orange: "warning", red: "error" };

export function Head({ head, onBackfill }) {
  const { palette } = HEALTH[head.state] ?? HEALTH.unknown;
  const isDeclared = useDeclared();
  return h(
    "header",
    null,
    h(
      Flex,
      { gap: 3, align: "center", wrap: "wrap", mb: 3 },
      h(Heading, { as: "h1", size: "xl" }, head.name),
      h(Sign, { word: head.state, of: HEALTH, size: "lg" }),
      h(Origin, { head }),
      h(
        HStack,
        { ms: "auto" },
        h(LoadNow, { name: head.name }),
        isDeclared && h(Button, { size: "sm", variant: "outline", onClick: () => onBackfill({}) }, "Backfill…"),
        h(Verify, { name: head.name }),
      ),
    ),
    h(
      Notice,
      {
        status: STATUS[palette],
        title: h(
          "span",
          null,
          h(Cause, { text: head.cause }),
          head.since && h(
            Muted,
            null,
            " since ",
            h(Time, { at: head.since }),
            " (",
            h(Time, { at: head.since, since: true }),
            ")",
          ),
        ),
        actions: h(NextStep, { head, onBackfill }),
      },
      h(Text, null, h(Prose, { text: `Next: ${head.next_step}` })),
      head.sampled_at && h(
        Text,
        { fontSize: "xs", color: "fg.muted" },
        "Kafka as of ",
        h(Time, { at: head.sampled_at, since: true }),
      ),
    ),
    h(MissingRights, { name: head.name }),
  );
}

// The mistakes of a declaration are one a line, each with its file and its line.
function Cause({ text }) {
  const lines = text.split("\n");
  if (lines.length === 1) return text;
  return h("ul", null, lines.map((line, index) => h("li", { key: index }, line)));
}

function Origin({ head }) {
  const { generation } = head;
  const title = generation ? `cluster ${generation.cluster_id}, topic id ${generation.topic_id}` : undefined;
  const parts = [
    head.topic && h(
      "span",
      { key: "topic" },
      "topic ",
      h("b", null, head.topic),
      head.kafka && ` on ${head.kafka}`,
      " → table ",
      h("b", null, head.target),
    ),
    head.topic && h("span", { key: "schedule" }, head.schedule ? `runs ${head.schedule}` : "runs when it is triggered"),
    generation && h("span", { key: "generation", title }, `generation ${generation.generation}`),
    head.owner && h("span", { key: "owner" }, `owner ${head.owner}`),
    // Airflow has no DAG of a declaration that was never valid.
    (head.topic || generation) && h(Link, { key: "dag", to: `/dags/${head.name}` }, "its DAG"),
  ].filter(Boolean);
  return h(Muted, null, parts.flatMap((part, index) => (index ? [" · ", part] : [part])));
}

// The next step as a button, as the server knows it. For the other states the words name the command.
function NextStep({ head, onBackfill }) {
  const { action } = head;
  if (!action) return null;
  if (action.kind === "settle") return h(Settle, { load: action.load, kind: head.load?.kind ?? "live" });
  if (action.kind === "accept_loss") return h(AcceptLoss, { name: head.name });
  if (action.kind === "load") return h(LoadNow, { name: head.name, main: true });
  if (action.kind === "look") return h(Link, { to: `/dags/${action.dag_id}` }, action.label);
  const chosen = action.kind === "replace" ? { what: "offsets", replace: true } : { what: "gaps" };
  return h(Button, { size: "sm", colorPalette: "brand", onClick: () => onBackfill(chosen) }, `${action.label}…`);
}

export function LoadNow({ name, main = false }) {
  const { ask } = useActions();
  const open = () =>
    ask({
      title: `Load ${name} now`, button: "Load now", dag: name, conf: {}, label: `a load of ${name}`,
      body: h(Text, null, "Starts a run of the pipeline's DAG: it loads the records since the last published load."),
    });
  return h(DagButton, { dag: name, size: "sm", variant: main ? "solid" : "outline", onClick: open }, "Load now");
}

export function Verify({ name, offsets = [], label = "Verify…", size = "sm" }) {
  const { ask } = useActions();
  const open = () =>
    ask({
      title: `Verify ${name}`,
      button: "Verify",
      dag: "penstock_verify",
      conf: offsets.length ? { pipeline: name, offsets } : { pipeline: name },
      label: `a verification of ${name}`,
      body: h(
        Text,
        null,
        "Counts the rows again, compares their fingerprints, and reads a share of the log again. ",
        offsets.join(", "),
      ),
    });
  return h(DagButton, { dag: "penstock_verify", size, variant: "outline", onClick: open }, label);
}

// The page of Airflow on which a person answers the request; it lists the failed checks with their places.
const requestOf = (load) => `/dags/penstock_settle/runs/load_${load}/tasks/ask/required_actions`;

// A held load is settled by a run with the decision. A request that waits under Required Actions then ends by itself.
export function Settle({ load, kind, size = "sm" }) {
  const { ask } = useActions();
  const decide = (decision, button, body, danger) => () =>
    ask({
      title: `${button} load ${load}`, button, danger, dag: "penstock_settle", conf: { load_id: load, decision },
      label: `${decision} load ${load}`, fields: [WHY], body: h(Text, null, body),
    });
  const isAsked = useWaitingRun("penstock_settle", `load_${load}`);
  const after = AFTER_DISCARD[kind] ?? "A backfill can load its offsets again.";
  return h(
    HStack,
    null,
    h(
      DagButton,
      {
        dag: "penstock_settle",
        size,
        colorPalette: "brand",
        onClick: decide("approve", "Approve", "Publishes the rows as they are.", false),
      },
      "Approve…",
    ),
    h(
      DagButton,
      {
        dag: "penstock_settle",
        size,
        variant: "outline",
        onClick: decide("discard", "Discard", `Publishes nothing. ${after}`, true),
      },
      "Discard…",
    ),
    isAsked && h(Link, { to: requestOf(load) }, "its request"),
  );
}

export function AcceptLoss({ name }) {
  const { ask } = useActions();
  const open = () =>
    ask({
      title: `Accept the loss of ${name}`,
      button: "Accept",
      danger: true,
      dag: "penstock_accept_loss",
      conf: { pipeline: name },
      label: `accept the loss of ${name}`, fields: [WHY],
      body: h(
        Text,
        null,
        "Records the offsets that the log no longer has. The next run continues from the log's start.",
      ),
    });
  return h(
    DagButton,
    { dag: "penstock_accept_loss", size: "sm", colorPalette: "brand", onClick: open },
    "Accept the loss…",
  );
}
