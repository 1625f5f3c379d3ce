// The tables that are derived from the rows: what they hold, the load they stand at, rebuilds and verifications.
import { Box, Text, h, useState } from "./host.js";
import { DagButton, useActions } from "./actions.js";
import { readResult, useDocument, useTick } from "./api.js";
import { Muted, Short, Time, count, percent } from "./format.js";
import { Cell, Empty, Panel, Progress, Prose, Row, Rows, Sign } from "./parts.js";
import { DERIVED } from "./words.js";

const DAG = "penstock_rebuild";
const COLUMNS = ["table", "state", "rows", "stands at", "last verification", ""];

export function Results({ name, tick }) {
  const [busy, setBusy] = useState(false);
  const [own] = useTick(busy);
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/results`, {}, `${tick} ${own}`);
  const builds = found.document?.results.some((each) => each.state === "building") ?? false;
  if (builds !== busy) setBusy(builds);
  return h(
    Panel,
    { id: "results", title: "Results", hint: "tables that change with the rows, in the same transaction", found },
    (document) => document.results.length === 0
      ? h(
        Empty,
        null,
        "No table is derived from the rows. Next: declare one under ",
        h("code", null, "results"),
        ": one row a key (upsert), or totals (sql).",
      )
      : h(
        Rows,
        { columns: COLUMNS, ends: ["rows"], label: "results" },
        document.results.map((each) => h(ResultRow, { key: each.table, name, result: each })),
      ),
  );
}

function ResultRow({ name, result }) {
  return h(
    Row,
    { verticalAlign: "top" },
    h(
      Cell,
      null,
      h(Text, { fontWeight: "semibold" }, result.table),
      h(Muted, { fontSize: "xs" }, `${result.mode} · one row for each ${result.key.join(", ")}`),
    ),
    h(Cell, { maxW: "22rem" }, h(State, { result })),
    h(
      Cell,
      { number: true, title: "the estimate of PostgreSQL: nothing is counted" },
      result.rows !== null && "≈ ",
      h(Short, { number: result.rows }),
    ),
    h(Cell, { whiteSpace: "nowrap" }, h(Standing, { result })),
    h(Cell, { maxW: "20rem" }, h(Verification, { result })),
    h(Cell, null, result.state !== "declared" && h(Rebuild, { name, result })),
  );
}

function State({ result }) {
  const { rebuild } = result;
  const earlier = result.changes_with_loads && result.state !== "current";
  return h(
    Box,
    null,
    h(Sign, { word: result.state, of: DERIVED }),
    earlier && h(Muted, { fontSize: "xs" }, " the table follows its earlier definition"),
    rebuild && h(
      Box,
      { mt: 1 },
      h(Progress, { done: rebuild.rows, of: rebuild.rows_to_read, label: `rebuild of ${result.table}` }),
      h(
        Muted,
        { fontSize: "xs" },
        `${percent(rebuild.rows_to_read ? rebuild.rows / rebuild.rows_to_read : 1)} of about `
          + `${count(rebuild.rows_to_read)} rows, load ${count(rebuild.load)} of ${count(rebuild.until_load)}`,
      ),
    ),
    result.next_step && h(
      Text,
      { fontSize: "xs", color: "fg.muted" },
      h(Prose, { text: `Next: ${result.next_step}` }),
    ),
  );
}

const Standing = ({ result }) =>
  result.current_since ? h(
    Box,
    null,
    result.load === null ? "no load" : `load ${result.load}`,
    h(Text, { fontSize: "xs", color: "fg.muted" }, "current since ", h(Time, { at: result.current_since })),
  ) : "–";

function Verification({ result }) {
  const found = result.verification;
  if (!result.provable) {
    return h(Muted, { fontSize: "xs" }, "nothing can compare it: it has no check query, or old rows were dropped");
  }
  if (!found) return h(Muted, { fontSize: "xs" }, "none yet");
  const share = found.share < 1 ? ` of ${percent(found.share)} of its keys` : "";
  return h(
    Box,
    null,
    h(Sign, { word: found.fault ? "faulty" : "proven", of: PROOF }),
    h(Muted, { fontSize: "xs" }, " ", h(Time, { at: found.at, since: true }), share),
    found.fault && h(Text, { fontSize: "xs" }, found.fault),
  );
}

const PROOF = { proven: { palette: "green", sign: "✓" }, faulty: { palette: "red", sign: "!" } };

// A rebuild makes a waiting result current, continues an interrupted one, and corrects a table.
function Rebuild({ name, result }) {
  const { ask } = useActions();
  const button = result.state === "building" ? "Continue" : "Rebuild";
  const open = () =>
    ask({
      title: `${button === "Continue" ? "Continue the rebuild of" : "Rebuild"} ${result.table}`,
      button,
      dag: DAG,
      conf: { pipeline: name, table: result.table },
      label: `rebuild of ${result.table}`,
      after: (run) => readResult(DAG, run, "rebuild"),
      body: h(
        Text,
        null,
        "Computes the table again from the rows of the target, beside the loads. Readers never wait.",
      ),
    });
  const variant = result.state === "waiting" || result.verification?.fault ? "solid" : "outline";
  return h(
    DagButton,
    { dag: DAG, size: "xs", variant, colorPalette: variant === "solid" ? "brand" : "gray", onClick: open },
    `${button}…`,
  );
}
