// The checks of the last loads: a grid of one row a check and one square a load, and the course of its figure.
import { Box, HStack, Text, h, useState } from "./host.js";
import { useDocument } from "./api.js";
import { Muted, count } from "./format.js";
import { Cell, Choice, Empty, Filled, Panel, Row, Rows, Sparkline, Square } from "./parts.js";
import { RESULT, spaced } from "./words.js";

const MOST_PLACES = 5;
const MOST_FAILURES = 20;
const LAST = ["10", "100"];

export function Quality({ name, tick }) {
  const [last, setLast] = useState("");
  const [chosen, setChosen] = useState("");
  const query = { last: last || 30 };
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/quality`, query, tick);
  const controls = h(
    Choice,
    {
      label: "loads",
      all: "last 30 loads",
      options: LAST,
      value: last,
      onChange: (event) => setLast(event.target.value),
    },
  );
  return h(Panel, {
    id: "quality",
    title: "Quality",
    hint: "one square a load, the newest at the right",
    controls,
    found,
  }, (history) =>
    history.checks.length === 0
      ? h(Empty, null, "No load was checked yet.")
      : h(
        Box,
        null,
        h(CheckGrid, { history, chosen, onChoose: setChosen }),
        chosen && h(Failures, { name, query, chosen, tick }),
      ),
  );
}

function CheckGrid({ history, chosen, onChoose }) {
  const keyOf = (check) => [check.expectation, check.column, check.suite, check.check_id].join();
  return h(
    Rows,
    { columns: ["check", "loads", "figure", "failed"], label: "checks" },
    history.checks.map((check) => h(
      CheckRow,
      { key: keyOf(check), check, loads: history.loads, isChosen: chosen === check.expectation, onChoose },
    )),
  );
}

function CheckRow({ check, loads, isChosen, onChoose }) {
  const byLoad = new Map(check.results.map((each) => [each.load, each]));
  const figures = loads.map((load) => byLoad.get(load)?.figure ?? null);
  const pick = () => onChoose(isChosen ? "" : check.expectation);
  return h(
    Row,
    { isChosen },
    h(
      Cell,
      null,
      h(
        "button",
        { type: "button", onClick: pick, "aria-pressed": isChosen, style: { textAlign: "start" } },
        h(Text, { as: "span", fontSize: "sm" }, check.expectation),
        h(
          Muted,
          { fontSize: "xs" },
          ` ${[check.column, check.suite && `suite ${check.suite}`, check.severity].filter(Boolean).join(" · ")}`,
        ),
      ),
    ),
    h(
      Cell,
      null,
      h(
        HStack,
        { gap: "1px" },
        loads.map((load) => h(Result, { key: load, load, result: byLoad.get(load), severity: check.severity })),
      ),
    ),
    h(Cell, { minW: "8rem" }, h(Sparkline, { figures, label: check.expectation })),
    h(
      Cell,
      { whiteSpace: "nowrap", fontVariantNumeric: "tabular-nums" },
      check.failed ? h(
        "b",
        null,
        `${count(check.failed)} of ${count(check.results.length)}`,
      ) : `0 of ${count(check.results.length)}`,
    ),
  );
}

function Result({ load, result, severity }) {
  if (!result) return h(Square, { palette: "gray", shade: "subtle", sign: "–", title: `load ${load}: not checked` });
  const { words, palette, sign } = RESULT[result.success ? "passed" : severity] ?? RESULT.error;
  const where = result.partitions_failed > 0 ? ` in ${count(result.partitions_failed)} partitions` : "";
  const figure = result.figure === null ? "" : `, figure ${result.figure}`;
  return h(
    Square,
    {
      palette,
      sign,
      shade: result.success ? "muted" : "solid",
      title: `load ${load} (${result.load_kind}, ${spaced(result.state)}): ${words}${where}${figure}`,
    },
  );
}

// Where the chosen expectation failed: partitions, counts and offsets. No value of a row is shown.
function Failures({ name, query, chosen, tick }) {
  const path = `pipelines/${encodeURIComponent(name)}/quality`;
  const found = useDocument(path, { ...query, expectation: chosen }, tick);
  return h(Filled, { found }, ({ failures }) => {
    if (failures.length === 0) return h(Empty, null, `${chosen} has not failed on these loads.`);
    const rest = failures.length - MOST_FAILURES;
    return h(
      Box,
      { mt: 2, fontSize: "sm" },
      h(Text, { fontWeight: "semibold" }, `Failures of ${chosen}`),
      failures.slice(0, MOST_FAILURES).map((each, index) => h(Text, { key: index }, writeFailure(each))),
      rest > 0 && h(Muted, null, `and ${count(rest)} more`),
    );
  });
}

function writeFailure({ load, partition, observed }) {
  return `load ${load}${partition === null ? "" : `, partition ${partition}`}: ${write(observed)}`;
}

const writePlace = (place) => (Array.isArray(place) ? place.join(":") : place);

function write(observed) {
  const parts = Object.entries(observed ?? {}).filter(([, value]) => value !== null && typeof value !== "boolean");
  const text = (value) => (Array.isArray(value) ? value.slice(0, MOST_PLACES).map(writePlace).join(", ") : value);
  return parts.map(([name, value]) => `${spaced(name)} ${text(value)}`).join("; ");
}
