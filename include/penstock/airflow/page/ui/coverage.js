// The coverage map: a bar a partition from the start of its log to the end. A span of a bar can be selected.
import { Box, Button, Flex, Grid, HStack, Text, Wrap } from "./host.js";
import { Fragment, h, useId, useLayoutEffect, useRef, useState } from "./host.js";
import { useDeclared } from "./actions.js";
import { useDocument } from "./api.js";
import { Muted, Short, Time, count, local, plural } from "./format.js";
import { Verify } from "./head.js";
import { Empty, Pager, Panel, colour } from "./parts.js";
import { Block, Patterns, Swatch } from "./patterns.js";
import { COVERAGE } from "./words.js";

const HEIGHT = 20;
const NARROWEST = 2; // pixels: a cell of one quarantined record must be seen

export function CoverageMap({ name, tick, onBackfill }) {
  const [view, setView] = useState({ axis: "offset", page: 1 });
  const [spans, setSpans] = useState({});
  const [pointed, setPointed] = useState(null);
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/coverage`, view, tick);
  const isDeclared = useDeclared();
  const choose = (axis) => () => {
    setSpans({});
    setPointed(null);
    setView({ axis, page: 1 });
  };
  const controls = h(
    HStack,
    { role: "group", "aria-label": "axis", gap: 0 },
    ["offset", "time"].map((axis) => h(
      Button,
      {
        key: axis,
        size: "2xs",
        variant: view.axis === axis ? "solid" : "outline",
        "aria-pressed": view.axis === axis,
        onClick: choose(axis),
      },
      `by ${axis}`,
    )),
  );
  const hint = "drag over a bar, or use the arrow keys with Shift, to select a span";
  return h(Panel, { id: "coverage", title: "Coverage", hint, controls, found }, (map) =>
    map.partitions.length === 0
      ? h(
        Empty,
        null,
        "Nothing is known of the log yet.",
        isDeclared && " Next: Load now, or wait a minute for the first sample of Kafka.",
      )
      : h(
          Box,
          null,
          h(Bars, { map, spans, setSpans, setPointed }),
          h(Pointed, { map, pointed }),
          h(Legend, { map }),
          h(Selection, { name, spans, onClear: () => setSpans({}), onBackfill }),
          h(
            Pager,
            { page: map.page, pages: map.pages, noun: "partitions", onPage: (page) => setView({ ...view, page }) },
          ),
        ),
  );
}

function Bars({ map, spans, setSpans, setPointed }) {
  const [box, width] = useWidth();
  const cellStyle = { fontSize: "xs", fontVariantNumeric: "tabular-nums", whiteSpace: "nowrap" };
  return h(
    Grid,
    { templateColumns: "auto minmax(0, 1fr) auto auto", columnGap: 3, rowGap: 1, alignItems: "center" },
    map.partitions.map((row, index) =>
      h(
        Fragment,
        { key: row.partition },
        h(Text, cellStyle, row.partition),
        h(
          Box,
          { ref: index === 0 ? box : undefined, minW: 0 },
          h(Bar, {
            row, width, axis: map.axis, span: spans[row.partition], onPoint: setPointed,
            onSelect: (span) => setSpans(without(spans, row.partition, span)),
          }),
        ),
        h(
          Text,
          { ...cellStyle, textAlign: "end", title: `log from ${count(row.log_start)} to ${count(row.until)}` },
          count(row.position),
        ),
        h(Text, { ...cellStyle, color: "fg.muted" }, "lag ", h(Short, { number: row.lag })),
      ),
    ),
  );
}

// A span of null takes the selection of the partition away.
function without(spans, partition, span) {
  const { [partition]: _old, ...others } = spans;
  return span ? { ...others, [partition]: span } : others;
}

// The bars are drawn in pixels, so that patterns keep their form.
function useWidth() {
  const box = useRef(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(100, Math.floor(entry.contentRect.width))));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

// One partition. A slider for the keyboard: the arrow keys move over the cells, Shift selects, Escape clears.
function Bar({ row, width, axis, span, onSelect, onPoint }) {
  const prefix = useId();
  const [cursor, setCursor] = useState(0);
  const [anchor, setAnchor] = useState(null);
  const { cells } = row;
  const places = place(cells, width, axis);
  const current = Math.min(cursor, cells.length - 1);
  const select = (from, until) => {
    const [first, last] = from < until ? [from, until] : [until, from];
    onSelect({ from: cells[first].from, until: cells[last].until, first, last });
  };
  const point = (index) => {
    setCursor(index);
    onPoint({ partition: row.partition, index });
  };
  const indexAt = (event) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
    const found = places.findIndex((each) => x < each.x + each.width);
    return found < 0 ? cells.length - 1 : found;
  };
  const onPointerDown = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    const index = indexAt(event);
    setAnchor(index);
    point(index);
    select(index, index);
  };
  const onPointerMove = (event) => {
    const index = indexAt(event);
    if (index !== current) point(index);
    if (anchor !== null && event.buttons) select(anchor, index);
  };
  const onKeyDown = (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -cells.length, End: cells.length };
    if (event.key === "Escape") {
      setAnchor(null);
      onSelect(null);
    } else if (event.key in moves) {
      const next = Math.min(cells.length - 1, Math.max(0, current + moves[event.key]));
      const start = event.shiftKey ? (anchor ?? current) : null;
      setAnchor(start);
      point(next);
      if (start !== null) select(start, next);
    } else if (event.key === " " || event.key === "Enter") {
      setAnchor(current);
      select(current, current);
    } else {
      return;
    }
    event.preventDefault();
  };
  if (cells.length === 0) return h(Muted, { fontSize: "xs" }, "the log is empty");
  return h(
    "svg",
    {
      width,
      height: HEIGHT,
      tabIndex: 0,
      role: "slider",
      "aria-label": `partition ${row.partition}`,
      "aria-valuemin": 0,
      "aria-valuemax": cells.length - 1, "aria-valuenow": current, "aria-valuetext": describe(cells[current]),
      style: { display: "block", cursor: "crosshair", touchAction: "none", borderRadius: 3 },
      "data-partition": row.partition,
      onPointerDown, onPointerMove, onPointerUp: () => setAnchor(null), onKeyDown, onFocus: () => point(current),
    },
    h(Patterns, { prefix }),
    cells.map(
      (cell, index) => h(Block, { key: index, kind: cell.kind, prefix, ...places[index], y: 0, height: HEIGHT }),
    ),
    span && h(Mark, { from: places[span.first], until: places[span.last] }),
  );
}

function Mark({ from, until }) {
  if (!from || !until) return null;
  const width = Math.max(1, until.x + until.width - from.x - 2);
  return h(
    "rect",
    {
      x: from.x + 1,
      y: 1,
      width,
      height: HEIGHT - 2,
      fill: colour("fg", "muted"),
      fillOpacity: 0.25,
      stroke: "var(--chakra-colors-fg)",
      strokeWidth: 2,
    },
  );
}

// The place of each cell in pixels. A narrow cell is widened, and the wide ones give it their room.
function place(cells, width, axis) {
  const sizes = cells.map(
    (cell) => (axis === "time" ? Date.parse(cell.until_time) - Date.parse(cell.from_time) : cell.until - cell.from),
  );
  const total = sizes.reduce((sum, each) => sum + each, 0) || 1;
  const raised = sizes.map((each) => Math.max(NARROWEST, (each / total) * width));
  const factor = width / raised.reduce((sum, each) => sum + each, 0);
  let x = 0;
  return raised.map((each) => {
    const found = { x, width: each * factor };
    x += found.width;
    return found;
  });
}

function describe(cell) {
  const period = cell.from_time ? `, ${local(cell.from_time)} to ${local(cell.until_time)}` : "";
  return `offsets ${count(cell.from)} to ${count(cell.until)}${period}: ${cell.detail}`;
}

// The cell under the pointer or the cursor, in words; screen readers read it too.
function Pointed({ map, pointed }) {
  const row = pointed && map.partitions.find((each) => each.partition === pointed.partition);
  const cell = row?.cells[pointed.index];
  const hint = "Point at a cell to see what it holds.";
  const text = cell ? `Partition ${row.partition}, ${describe(cell)}` : hint;
  return h(Text, { role: "status", fontSize: "xs", color: "fg.muted", my: 2, minH: "1.5em" }, text);
}

function Legend({ map }) {
  const shown = map.legend.filter((each) => each.offsets > 0);
  return h(
    Wrap,
    { gap: 4, fontSize: "xs", "data-legend": true },
    Object.keys(COVERAGE)
      .map((kind) => shown.find((each) => each.kind === kind))
      .filter(Boolean)
      .map(({ kind, offsets }) => h(
        HStack,
        { key: kind, gap: 1 },
        h(Swatch, { kind }),
        h("span", null, `${COVERAGE[kind].words} `, h("b", null, count(offsets))),
      )),
    h(
      Muted,
      { fontSize: "xs", title: "The sum of the kinds equals until - from of the partitions shown." },
      `sum ${count(map.total)} offsets`,
    ),
    map.sampled_at && h(Muted, { fontSize: "xs" }, "Kafka as of ", h(Time, { at: map.sampled_at, since: true })),
  );
}

// The actions on the selected spans.
function Selection({ name, spans, onClear, onBackfill }) {
  const isDeclared = useDeclared();
  const chosen = Object.entries(spans).map(([partition, span]) => ({ partition: Number(partition), ...span }));
  if (chosen.length === 0) return null;
  const offsets = chosen.map((each) => `${each.partition}:${each.from}-${each.until}`);
  const total = chosen.reduce((sum, each) => sum + each.until - each.from, 0);
  const load = (replace) => () => {
    onBackfill({ what: "offsets", offsets: offsets.join("\n"), replace });
    onClear();
  };
  return h(
    Flex,
    {
      gap: 2,
      mt: 3,
      p: 2,
      borderWidth: 1,
      borderRadius: "md",
      bg: "bg.muted",
      align: "center",
      wrap: "wrap",
      role: "group",
      "aria-label": "selection",
    },
    h(
      Text,
      { fontSize: "sm" },
      "Selected ",
      h("b", null, plural(total, "offset")),
      `: ${offsets.slice(0, 5).join(", ")}${offsets.length > 5 ? ` and ${offsets.length - 5} more` : ""}`,
    ),
    h(
      HStack,
      { ms: "auto" },
      isDeclared && h(Button, { size: "xs", colorPalette: "brand", onClick: load(false) }, "Load this range…"),
      isDeclared && h(Button, { size: "xs", variant: "outline", onClick: load(true) }, "Replay…"),
      h(Verify, { name, offsets, label: "Verify this…", size: "xs" }),
      h(Button, { size: "xs", variant: "ghost", onClick: onClear }, "Clear"),
    ),
  );
}
