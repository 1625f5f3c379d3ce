// The looks of the kinds of the coverage map: a colour, and a pattern for those who cannot tell colours apart.
import { h, useId } from "./host.js";
import { colour } from "./parts.js";
import { COVERAGE } from "./words.js";

const SIZE = 6;
const STRIPES = {
  stripes: "M0,6 L6,0",
  back: "M0,0 L6,6",
  bars: "M1.5,0 V6 M4.5,0 V6",
  crosses: "M0,0 L6,6 M0,6 L6,0",
  lines: "M0,3 H6",
};
const DARK = ["bars", "lines"]; // on light grays
const SHADES = {
  published: "400",
  expired: "muted",
  hole: "emphasized",
  gap: "subtle",
  pending: "500",
  quarantined: "400",
};

export const fillOf = (kind) => {
  const { palette } = COVERAGE[kind];
  return palette ? colour(palette, SHADES[kind] ?? "solid") : colour("bg", "emphasized");
};

// The patterns as definitions of an SVG; `prefix` keeps the ids of several SVGs of one page apart.
export function Patterns({ prefix }) {
  const line = { fill: "none", stroke: "var(--chakra-colors-bg)", strokeOpacity: 0.75, strokeWidth: 1.5 };
  const thin = { ...line, stroke: colour("gray", "fg"), strokeWidth: 0.8 };
  const frame = { patternUnits: "userSpaceOnUse", width: SIZE, height: SIZE };
  return h(
    "defs",
    null,
    Object.entries(STRIPES).map(([name, d]) => h(
      "pattern",
      { key: name, id: `${prefix}-${name}`, ...frame },
      h("path", { d, ...(DARK.includes(name) ? thin : line) }),
    )),
    h(
      "pattern",
      { key: "dots", id: `${prefix}-dots`, ...frame },
      h("circle", { cx: 3, cy: 3, r: 1.4, fill: "var(--chakra-colors-bg)" }),
    ),
  );
}

// A rectangle in the look of a kind.
export function Block({ kind, prefix, ...place }) {
  const { pattern } = COVERAGE[kind];
  const frame = pattern === "frame" ? {
    stroke: colour(kind === "gap" ? "orange" : "border"),
    strokeDasharray: "3 2",
    strokeWidth: 1,
  } : {};
  return h(
    "g",
    null,
    // Edges between two pixels would be drawn as lines between equal cells.
    h("rect", { ...place, fill: fillOf(kind), shapeRendering: place.rx ? undefined : "crispEdges", ...frame }),
    pattern && pattern !== "frame" && h("rect", { ...place, fill: `url(#${prefix}-${pattern})` }),
  );
}

export function Swatch({ kind }) {
  const prefix = useId();
  return h(
    "svg",
    { width: 16, height: 12, "aria-hidden": true, style: { flexShrink: 0 } },
    h(Patterns, { prefix }),
    h(Block, { kind, prefix, x: 0.5, y: 0.5, width: 15, height: 11, rx: 2 }),
  );
}
