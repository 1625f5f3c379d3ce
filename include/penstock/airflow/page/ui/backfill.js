// Loads of any range: a form with a preview before its button, and the progress of the backfills.
import { Box, Button, Flex, SimpleGrid, Stack, Text, h, useEffect, useRef, useState } from "./host.js";
import { DagButton, Field, WHY, useActions, useDeclared } from "./actions.js";
import { read, readResult, stopRun, useDocument } from "./api.js";
import { Muted, Time, count, duration, percent, plural, ranges } from "./format.js";
import { Cell, Empty, ErrorNotice, Link, Notice, Panel, Progress, Row, Rows, Sign } from "./parts.js";

const DAG = "penstock_backfill";
const WAYS = { offsets: "offsets", time: "time", gaps: "all gaps" };
export const NO_DRAFT = {
  what: "gaps",
  offsets: "",
  from_time: "",
  until_time: "",
  replace: false,
  records_per_load: "",
};
const STATES = {
  done: { palette: "green", sign: "✓" },
  running: { palette: "blue", sign: "▸" },
  stopped: { palette: "orange", sign: "‖" },
};
const MOST_LOADS = 5;

export function Backfill({ name, tick, draft, setDraft }) {
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/backfills`, {}, tick);
  const isDeclared = useDeclared();
  return h(
    Panel,
    { id: "backfill", title: "Backfill", hint: "load any range below the positions, or load it again", found },
    (document) => h(
      Stack,
      { gap: 4 },
      isDeclared
        ? h(Form, { name, draft, setDraft })
        : h(Empty, null, "The declaration has mistakes. Next: correct them, then choose a range here."),
      h(Backfills, { backfills: document.backfills }),
    ),
  );
}

const split = (text) => text.split(/[\s,;]+/).filter(Boolean);
const asUtc = (text) => (text ? new Date(text).toISOString() : undefined);
function isWhole(draft) {
  if (draft.what === "offsets") return split(draft.offsets).length > 0;
  return draft.what === "gaps" || Boolean(draft.from_time);
}

function asQuery(draft) {
  const chosen = {
    offsets: { ranges: split(draft.offsets).join(",") },
    gaps: { gaps: true },
    time: { from_time: asUtc(draft.from_time), until_time: asUtc(draft.until_time) },
  };
  return { ...chosen[draft.what], replace: draft.replace || undefined, records_per_load: draft.records_per_load };
}

function asConf(name, draft) {
  const chosen = {
    offsets: { offsets: split(draft.offsets) },
    gaps: {},
    time: { from_time: asUtc(draft.from_time), until_time: asUtc(draft.until_time) },
  };
  const size = draft.records_per_load ? { records_per_load: Number(draft.records_per_load) } : {};
  return { pipeline: name, what: WAYS[draft.what], ...chosen[draft.what], replace: draft.replace, ...size };
}

function Form({ name, draft, setDraft }) {
  const { start } = useActions();
  const box = useRef(null);
  const [preview, setPreview] = useState({ of: null, document: null, error: null });
  const [refusal, setRefusal] = useState(null);
  const change = (field) => (value) => setDraft({ ...draft, [field]: value });
  const key = JSON.stringify(draft);
  const isShown = preview.of === key && preview.document?.state === "preview";
  useEffect(() => {
    if (draft.shown) box.current.scrollIntoView({ behavior: "smooth", block: "center" });
  }, [draft.shown]);
  const look = async (event) => {
    event.preventDefault();
    const path = `pipelines/${encodeURIComponent(name)}/backfill/preview`;
    const found = await read(path, asQuery(draft)).then(
      (document) => ({ document, error: null }),
      (error) => ({ document: null, error }),
    );
    setPreview({ of: key, ...found });
  };
  const begin = async () => {
    try {
      await start(
        `${draft.replace ? "replay" : "backfill"} of ${plural(preview.document.offsets, "offset")}`,
        DAG,
        asConf(name, draft),
      );
      setDraft(NO_DRAFT);
      setRefusal(null);
    } catch (error) {
      setRefusal(error);
    }
  };
  const way = Object.keys(WAYS).map(
    (each) => ({ value: each, label: { gaps: "all gaps", offsets: "offsets", time: "a time" }[each] }),
  );
  return h(
    Box,
    { as: "form", onSubmit: look, ref: box, "aria-label": "backfill" },
    h(
      SimpleGrid,
      { gap: 3, templateColumns: "repeat(auto-fit, minmax(200px, 1fr))", alignItems: "start" },
      h(
        Field,
        { name: "what", label: "Load", kind: "choice", options: way, given: draft.what, onGiven: change("what") },
      ),
      draft.what === "offsets" && h(
        Field,
        {
          name: "offsets",
          label: "Offsets",
          kind: "long",
          help: "partition:from-until, one a line",
          given: draft.offsets,
          onGiven: change("offsets"),
        },
      ),
      draft.what === "time" && h(
        Field,
        {
          name: "from_time",
          label: "From",
          kind: "datetime-local",
          help: "in your time zone",
          given: draft.from_time,
          onGiven: change("from_time"),
        },
      ),
      draft.what === "time" && h(
        Field,
        {
          name: "until_time",
          label: "Until",
          kind: "datetime-local",
          help: "empty: up to the positions",
          given: draft.until_time,
          onGiven: change("until_time"),
        },
      ),
      h(
        Field,
        {
          name: "records_per_load",
          label: "Records per load",
          kind: "number",
          min: 1,
          help: "empty: the pipeline's cap",
          given: draft.records_per_load,
          onGiven: change("records_per_load"),
        },
      ),
      h(
        "label",
        { style: { display: "flex", gap: "0.5rem", alignItems: "center", paddingTop: "1.6rem", fontSize: "0.875rem" } },
        h(
          "input",
          {
            type: "checkbox",
            name: "replace",
            checked: draft.replace,
            onChange: (event) => change("replace")(event.target.checked),
          },
        ),
        "Replace what is loaded",
      ),
    ),
    h(
      Flex,
      { gap: 2, mt: 3, align: "center", wrap: "wrap" },
      h(Button, { size: "sm", variant: "outline", type: "submit", disabled: !isWhole(draft) }, "Preview"),
      h(
        DagButton,
        {
          dag: DAG,
          size: "sm",
          colorPalette: "brand",
          disabled: !isShown,
          onClick: begin,
          title: isShown ? undefined : "look at the preview first",
        },
        draft.replace ? "Start the replay" : "Start the backfill",
      ),
    ),
    h(Box, { mt: 3 }, preview.of === key && h(Preview, preview), refusal && h(ErrorNotice, { error: refusal })),
  );
}

function Preview({ document, error }) {
  if (error) return h(ErrorNotice, { error });
  if (document.state === "refused") return h(
    Notice,
    { status: "warning", title: document.error },
    document.next_step && `Next: ${document.next_step}`,
  );
  if (document.state === "empty") return h(
    Notice,
    { status: "info", title: "Nothing to load: no offset is chosen that is not loaded yet." },
    "Next: choose other offsets, or replace what is loaded.",
  );
  const time = document.seconds === null ? "" : `, about ${duration(document.seconds)}`;
  const title = `${plural(document.offsets, "offset")} in ${plural(document.load_count, "load")}${time}`;
  const replaced = document.replaced.reduce((sum, each) => sum + each.offsets, 0);
  const rest = document.load_count - MOST_LOADS;
  return h(
    Notice,
    { status: replaced ? "warning" : "info", title },
    document.loads.slice(0, MOST_LOADS).map(
      (load, index) => h(Text, { key: index, fontSize: "xs" }, `${index + 1}. ${ranges(load)}`),
    ),
    rest > 0 && h(Text, { fontSize: "xs" }, `and ${plural(rest, "more load")}`),
    replaced > 0 && h(
      Text,
      { fontSize: "xs", fontWeight: "semibold" },
      `replaces ${plural(replaced, "published offset")}: ${ranges(document.replaced.slice(0, MOST_LOADS))}`,
    ),
    document.gone.length > 0 && h(
      Text,
      { fontSize: "xs" },
      `not in the log any more: ${ranges(document.gone.slice(0, MOST_LOADS))}`,
    ),
    document.sampled_at && h(
      Muted,
      { fontSize: "xs" },
      "by the log as of ",
      h(Time, { at: document.sampled_at, since: true }),
    ),
  );
}

function Backfills({ backfills }) {
  if (backfills.length === 0) return h(Empty, null, "No backfill has run yet.");
  const columns = ["backfill", "state", "of", "progress", "loads", "by", "when", ""];
  return h(
    Rows,
    { columns, label: "backfills" },
    backfills.map((each) => h(BackfillRow, { key: each.backfill, backfill: each })),
  );
}

// The tasks of its run are stopped first; then a run discards its open loads.
function Cancel({ backfill }) {
  const { ask } = useActions();
  const run = backfill.run_link && decodeURIComponent(backfill.run_link.split("/").at(-1));
  const left = backfill.loads - backfill.loads_done - backfill.loads_stopped;
  const open = () =>
    ask({
      title: `Cancel backfill ${backfill.backfill}`,
      button: "Cancel the backfill",
      danger: true,
      before: run ? () => stopRun(DAG, run) : undefined,
      dag: "penstock_backfill_cancel",
      conf: { backfill: backfill.backfill },
      label: `cancel backfill ${backfill.backfill}`,
      after: (started) => readResult("penstock_backfill_cancel", started, "cancel"),
      fields: [WHY],
      body: h(Text, null, `Stops its tasks and discards ${plural(left, "open load")}. Published loads stay.`),
    });
  return h(
    DagButton,
    { dag: "penstock_backfill_cancel", size: "2xs", variant: "outline", ms: 2, onClick: open },
    "Cancel…",
  );
}

function BackfillRow({ backfill }) {
  const runs = backfill.state === "running";
  const left = runs && backfill.eta_seconds !== null ? `, ${duration(backfill.eta_seconds)} left` : "";
  const rate = runs && backfill.offsets_per_second ? `, ${count(Math.round(backfill.offsets_per_second))}/s` : "";
  return h(
    Row,
    null,
    h(Cell, null, backfill.backfill, backfill.replace && h(Muted, { fontSize: "xs" }, " replaces")),
    h(Cell, null, h(Sign, { word: backfill.state, of: STATES })),
    h(Cell, { maxW: "16rem", small: true }, backfill.asked),
    h(
      Cell,
      null,
      h(Progress, { done: backfill.offsets_done, of: backfill.offsets, label: `backfill ${backfill.backfill}` }),
      h(
        Muted,
        { fontSize: "xs" },
        `${percent(backfill.offsets_done / backfill.offsets)} of ${count(backfill.offsets)}${rate}${left}`,
      ),
    ),
    h(Cell, null, `${count(backfill.loads_done)} of ${count(backfill.loads)}`),
    h(Cell, null, backfill.actor),
    h(Cell, { whiteSpace: "nowrap" }, h(Time, { at: backfill.planned_at })),
    h(
      Cell,
      null,
      backfill.run_link && h(
        Link,
        { to: backfill.run_link },
        "run",
      ),
      runs && h(Cancel, { backfill }),
    ),
  );
}
