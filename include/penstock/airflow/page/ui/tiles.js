// Figures of a pipeline: lag, age, headroom, transactions, quarantine, gaps and losses, the last verification.
import { Box, SimpleGrid, Text, h } from "./host.js";
import { Short, Time, count, duration, percent, plural } from "./format.js";
import { Sparkline } from "./parts.js";

// Below a day of headroom a pipeline that stops for one night loses records.
const FEW_HOURS = 24;
const NOT_SAMPLED = "not sampled yet";
const NOT_LOADED = "nothing is loaded yet";
const NOT_VERIFIED = "a verification proves what the table holds";

export function Tiles({ head }) {
  const { tiles } = head;
  const list = [Lag, Oldest, Headroom, Transaction, Quarantined, Missing, Verified];
  return h(
    SimpleGrid,
    { as: "section", "aria-label": "figures", gap: 3, templateColumns: "repeat(auto-fit, minmax(140px, 1fr))" },
    list.map((tile) => h(tile, { key: tile.name, tiles, head })),
  );
}

function Tile({ title, palette, figure, children, hover }) {
  return h(
    Box,
    { borderWidth: 1, borderRadius: "lg", bg: "bg", px: 3, py: 2, title: hover },
    h(Text, { fontSize: "xs", color: "fg.muted" }, title),
    h(
      Text,
      {
        fontSize: "xl",
        fontWeight: "semibold",
        color: palette ? `${palette}.fg` : undefined,
        fontVariantNumeric: "tabular-nums",
      },
      figure,
    ),
    h(Box, { fontSize: "xs", color: "fg.muted" }, children),
  );
}

// The direction in the last hours: an arrow and a word.
export function Trend({ trend }) {
  const words = { rising: "↗ rising", falling: "↘ falling", steady: "→ steady" };
  return words[trend] ?? null;
}

function Lag({ tiles, head }) {
  const lags = tiles.trend.map((each) => each.lag);
  return h(
    Tile,
    { title: "Lag", figure: h(Short, { number: tiles.lag }) },
    "records not loaded ",
    h(Trend, { trend: head.trend }),
    h(Sparkline, { figures: lags, label: "lag in the last 24 hours", palette: "blue" }),
  );
}

function Oldest({ tiles }) {
  const { eta } = tiles;
  return h(
    Tile,
    {
      title: "Oldest record not loaded",
      figure: tiles.lag === 0 ? "none" : duration(tiles.oldest_seconds),
      hover: eta?.formula,
    },
    eta?.at ? h("span", null, "caught up about ", h(Time, { at: eta.at })) : (eta?.formula ?? ""),
  );
}

function Headroom({ tiles }) {
  const { headroom } = tiles;
  const known = headroom.hours !== null;
  const palette = !known ? null : headroom.hours <= 0 ? "red" : headroom.hours < FEW_HOURS ? "orange" : "green";
  return h(
    Tile,
    { title: "Retention headroom", palette, figure: known ? duration(headroom.hours * 3600) : "–" },
    known ? `before Kafka deletes records of partition ${headroom.partition} that wait` : headroom.told,
  );
}

function Transaction({ tiles, head }) {
  if (!head.sampled_at) return h(Tile, { title: "Open transaction", figure: "–" }, NOT_SAMPLED);
  const open = tiles.open_transaction;
  return h(
    Tile,
    { title: "Open transaction", palette: open ? "orange" : null, figure: open ? duration(open.seconds) : "none" },
    open
      ? `holds back ${plural(open.held_back, "offset")} of partition ${open.partition}`
      : "nothing holds records back",
  );
}

function Quarantined({ tiles, head }) {
  if (!head.generation) return h(Tile, { title: "Quarantined", figure: "–" }, NOT_LOADED);
  const found = tiles.quarantined;
  const more = found.new ? `, ${count(found.new)} new` : "";
  return h(
    Tile,
    { title: "Quarantined", palette: found.records ? "yellow" : null, figure: h(Short, { number: found.records }) },
    found.records ? `in ${plural(found.loads, "load")}${more}` : "every record became a row",
  );
}

function Missing({ tiles, head }) {
  if (!head.generation) return h(Tile, { title: "Gaps, losses", figure: "–" }, NOT_LOADED);
  const palette = tiles.lost ? "red" : tiles.gaps ? "orange" : "green";
  return h(
    Tile,
    { title: "Gaps, losses", palette, figure: `${count(tiles.gaps)} / ${count(tiles.lost)}` },
    tiles.gaps || tiles.lost ? "offsets below the positions" : "every offset is accounted for",
  );
}

function Verified({ tiles }) {
  const found = tiles.verification;
  if (!found) return h(Tile, { title: "Last verification", figure: "never" }, NOT_VERIFIED);
  return h(
    Tile,
    {
      title: "Last verification",
      palette: found.faults ? "red" : "green",
      figure: found.state === "running" ? "running" : found.faults ? plural(found.faults, "fault") : "no fault",
    },
    h(Time, { at: found.at }), `, all rows, ${percent(found.share)} of the log`,
  );
}
