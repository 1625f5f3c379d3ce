// One load, whole: its plan and progress, its checks, events and attempts, and the actions on it.
import { Box, HStack, SimpleGrid, Stack, Text, h } from "./host.js";
import { DagButton, WHY, useActions } from "./actions.js";
import { useDocument } from "./api.js";
import { Muted, Time, count, duration, percent, plural, ranges } from "./format.js";
import { Settle } from "./head.js";
import { Empty, Filled, Progress } from "./parts.js";
import { OPEN_LOADS, spaced } from "./words.js";

const MOST_PARTITIONS = 20;

export function LoadDetail({ name, load, tick }) {
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/loads/${load}`, {}, tick);
  return h(Filled, { found }, (document) =>
    h(
      Stack,
      { gap: 3, py: 1, as: "article", "aria-label": `load ${load}` },
      document.cause && h(Text, { fontSize: "sm" }, h("b", null, "Cause: "), document.cause),
      h(Facts, { load: document }),
      h(ActionsOf, { name, load: document }),
      h(
        SimpleGrid,
        { gap: 4, templateColumns: "repeat(auto-fit, minmax(320px, 1fr))" },
        h(Part, { title: OPEN_LOADS.includes(document.state) ? "Progress" : "Plan" }, h(Plan, { load: document })),
        h(Part, { title: "Checks" }, h(Checks, { checks: document.checks })),
        h(Part, { title: "Events" }, h(Events, { events: document.events })),
        document.declaration_changes.length > 0 &&
          h(
            Part,
            { title: "Changes of the declaration since the load before" },
            h(Changes, { changes: document.declaration_changes }),
          ),
      ),
    ),
  );
}

function Facts({ load }) {
  const facts = [
    ["planned", h(Time, { at: load.planned_at })],
    load.published_at && ["published", h(Time, { at: load.published_at })],
    ["attempts", count(load.attempts)],
    ["partitions", count(load.partitions)],
    load.backfill && ["backfill", load.backfill],
    load.superseded_by && ["replaced by load", load.superseded_by],
    load.application_id && ["Spark application", load.application_id],
  ].filter(Boolean);
  return h(
    HStack,
    { gap: 4, wrap: "wrap", fontSize: "xs" },
    facts.map(([name, value]) => h("span", { key: name }, h(Muted, { fontSize: "xs" }, `${name} `), value)),
  );
}

function Part({ title, children }) {
  return h(
    Box,
    { minW: 0 },
    h(Text, { fontWeight: "semibold", fontSize: "xs", color: "fg.muted", mb: 1 }, title),
    children,
  );
}

function Plan({ load }) {
  const isOpen = OPEN_LOADS.includes(load.state);
  if (!isOpen || load.progress.length === 0) {
    const shown = load.ranges.slice(0, MOST_PARTITIONS);
    const rest = load.ranges.length - shown.length;
    return h(
      Text,
      { fontSize: "sm" },
      ranges(shown),
      rest > 0 && ` and ${load.more_ranges ? "over " : ""}${count(rest)} more`,
      h(Muted, null, ` (${plural(load.offsets, "offset")})`),
    );
  }
  const done = load.progress.reduce((sum, each) => sum + each.done, 0);
  const planned = load.progress.reduce((sum, each) => sum + each.planned, 0);
  const rate = load.progress.reduce((sum, each) => sum + (each.rows_per_second ?? 0), 0);
  const left = Math.max(...load.progress.map((each) => each.eta_seconds ?? 0));
  return h(
    Stack,
    { gap: 1, fontSize: "sm" },
    h(Text, null, `${percent(done / planned)}, ${count(rate)} records/s, ${duration(left)} left`),
    load.progress.slice(0, MOST_PARTITIONS).map((each) =>
      h(
        HStack,
        { key: each.partition },
        h(Muted, { w: "6rem" }, `partition ${each.partition}`),
        h(Progress, { done: each.done, of: each.planned, label: `partition ${each.partition}` }),
        h(Muted, { fontSize: "xs" }, `${count(each.done)} of ${count(each.planned)}`),
      ),
    ),
  );
}

function Checks({ checks }) {
  if (checks.length === 0) return h(Empty, null, "No check has run yet.");
  const failed = checks.filter((each) => !each.success);
  if (failed.length === 0) return h(Text, { fontSize: "sm" }, `✓ all ${count(checks.length)} results passed`);
  return h(
    Stack,
    { gap: 1, fontSize: "sm" },
    h(Text, null, `✕ ${count(failed.length)} of ${count(checks.length)} results failed`),
    failed.slice(0, MOST_PARTITIONS).map((each, index) =>
      h(
        Box,
        { key: index },
        h("b", null, each.expectation),
        each.column && ` of ${each.column}`,
        each.partition !== null && `, partition ${each.partition}`,
        h(Muted, null, ` ${each.severity}; ${each.figures}`),
      ),
    ),
  );
}

function Events({ events }) {
  if (events.length === 0) return h(Empty, null, "Nothing but its own steps.");
  return h(
    Stack,
    { gap: 1, fontSize: "sm" },
    events.map((each, index) =>
      h(
        Box,
        { key: index },
        h(Muted, null, h(Time, { at: each.at }), " "),
        h("b", null, spaced(each.what)),
        each.actor && ` by ${each.actor}`,
        each.why && `: ${each.why}`,
      ),
    ),
  );
}

function Changes({ changes }) {
  return h(
    Stack,
    { gap: 0, fontSize: "sm" },
    changes.map((each, index) => h(
      Text,
      { key: index },
      h("b", null, each.field),
      `: ${each.before ?? "nothing"} → ${each.after ?? "nothing"}`,
    )),
  );
}

// The ledger says which actions a load allows now.
function ActionsOf({ name, load }) {
  const { ask } = useActions();
  const can = (action) => load.actions.includes(action);
  const rollback = (undo) => () =>
    ask({
      title: undo ? `Bring load ${load.load} back` : `Roll load ${load.load} back`,
      button: undo ? "Bring back" : "Roll back",
      danger: !undo,
      dag: "penstock_rollback",
      conf: { load_id: load.load, ...(undo ? { undo: true } : {}) },
      label: `${undo ? "undo the rollback of" : "roll back"} load ${load.load}`,
      fields: [WHY],
      body: h(
        Text,
        null,
        undo ? "Puts its rows back into the table." : "Takes its rows out of the table; its offsets become gaps.",
      ),
    });
  const replay = () =>
    ask({
      title: `Replay load ${load.load}`, button: "Replay", dag: "penstock_backfill", label: `replay load ${load.load}`,
      conf: {
        pipeline: name,
        what: "offsets",
        offsets: load.ranges.map((each) => `${each.partition}:${each.from}-${each.until}`),
        replace: true,
      },
      body: h(Text, null, `Loads ${plural(load.offsets, "offset")} again. One transaction replaces the rows.`),
    });
  const buttons = [
    can("approve") && h(Settle, { key: "settle", load: load.load, kind: load.kind, size: "xs" }),
    can("rollback") && h(
      DagButton,
      { key: "rollback", dag: "penstock_rollback", size: "xs", variant: "outline", onClick: rollback(false) },
      "Roll back…",
    ),
    can("undo") && h(
      DagButton,
      { key: "undo", dag: "penstock_rollback", size: "xs", variant: "outline", onClick: rollback(true) },
      "Bring back…",
    ),
    can("replay") && h(
      DagButton,
      {
        key: "replay", dag: "penstock_backfill", size: "xs", variant: "outline", onClick: replay,
        // A replay names each range, and these are not all.
        disabled: load.more_ranges,
        title: load.more_ranges
          ? `The load has over ${count(load.ranges.length)} ranges. Replay it by penstock backfill … --replace.`
          : undefined,
      },
      "Replay…",
    ),
  ].filter(Boolean);
  return buttons.length > 0 && h(HStack, null, buttons);
}
