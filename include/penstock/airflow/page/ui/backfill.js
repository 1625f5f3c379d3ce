// Loads of any range: the progress of the backfills.
import { h } from "./host.js";
import { useDocument } from "./api.js";
import { Muted, Time, count, duration, percent } from "./format.js";
import { Cell, Empty, Link, Panel, Progress, Row, Rows, Sign } from "./parts.js";

const STATES = {
  done: { palette: "green", sign: "✓" },
  running: { palette: "blue", sign: "▸" },
  stopped: { palette: "orange", sign: "‖" },
};

export function Backfill({ name, tick }) {
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/backfills`, {}, tick);
  return h(
    Panel,
    { id: "backfill", title: "Backfills", hint: "loads of chosen offsets", found },
    (document) => h(Backfills, { backfills: document.backfills }),
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
        backfill.state === "running" ? "run (to cancel it)" : "run",
      ),
    ),
  );
}
