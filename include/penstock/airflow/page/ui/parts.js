// The parts that all sections are made of.
import { Alert, Badge, Box, Button, Code, Flex, Heading, HStack, Popover, Portal, RouterLink } from "./host.js";
import { NativeSelect, Skeleton, Table, Text, h, useId, useRef, useState } from "./host.js";
import { count } from "./format.js";
import { spaced } from "./words.js";

export const colour = (palette, shade = "solid") => `var(--chakra-colors-${palette}-${shade})`;

// A section of the page: its heading, its controls, and what its document shows. `found` comes from useDocument.
export function Panel({ id, title, hint, controls, found, children }) {
  const heading = useId();
  return h(
    Box,
    { as: "section", id, "aria-labelledby": heading, borderWidth: 1, borderRadius: "lg", bg: "bg", minW: 0 },
    h(
      Flex,
      { align: "center", gap: 2, px: 4, py: 2, borderBottomWidth: 1, wrap: "wrap" },
      h(Heading, { id: heading, as: "h2", size: "sm" }, title),
      hint && h(Text, { color: "fg.muted", fontSize: "xs" }, hint),
      h(HStack, { ms: "auto", gap: 2 }, controls, found?.document?.sql && h(CopySql, { sql: found.document.sql })),
    ),
    h(
      Box,
      { px: 4, py: 3, opacity: found?.isOld ? 0.6 : 1, "aria-busy": Boolean(found?.isOld) },
      h(Filled, { found }, children),
    ),
  );
}

// A document, or its error, or a place for it until it is there.
export function Filled({ found, children }) {
  if (!found) return children;
  if (found.error) return h(
    Box,
    null,
    h(ErrorNotice, { error: found.error, onRetry: found.retry }),
    // The newest document that was read stays below its error.
    found.document && h(Box, { mt: 3, opacity: 0.6 }, children(found.document)),
  );
  return found.document ? children(found.document) : h(Skeleton, { height: "4rem", "aria-label": "loading" });
}

export function ErrorNotice({ error, onRetry }) {
  const actions = onRetry && h(Button, { size: "xs", variant: "outline", onClick: onRetry }, "Try again");
  return h(
    Notice,
    { status: "error", title: error.message, actions },
    error.nextStep && h(Prose, { text: `Next: ${error.nextStep}` }),
  );
}

export function Notice({ status, title, children, actions }) {
  return h(
    Alert.Root,
    {
      status,
      variant: "outline",
      alignItems: "center",
      bg: "bg",
      borderStartWidth: 4,
      borderStartColor: "colorPalette.solid",
      borderRadius: "lg",
    },
    h(Alert.Indicator),
    h(Alert.Content, null, h(Alert.Title, null, title), children && h(Alert.Description, { as: "div" }, children)),
    actions,
  );
}

// A text of the ledger: its commands stand between backticks.
export const Prose = ({ text }) =>
  text.split("`").map((part, index) => (index % 2 ? h(Code, { key: index, fontSize: "xs" }, part) : part));

// An empty section says why it is empty.
export const Empty = ({ children }) => h(Text, { color: "fg.muted", py: 2 }, children);

// A word with its colour and its sign.
export function Sign({ word, of, label = word, ...more }) {
  const { palette, sign } = of[word] ?? { palette: "gray", sign: "?" };
  return h(
    Badge,
    { colorPalette: palette, variant: "subtle", whiteSpace: "nowrap", ...more },
    h("span", { "aria-hidden": true }, sign),
    spaced(label),
  );
}

// One of several, or all.
export function Choice({ label, all, options, value, onChange }) {
  return h(
    NativeSelect.Root,
    { size: "xs", width: "auto" },
    h(
      NativeSelect.Field,
      { "aria-label": label, value, onChange },
      h("option", { value: "" }, all),
      options.map((each) => h("option", { key: each, value: each }, spaced(each))),
    ),
    h(NativeSelect.Indicator),
  );
}

// A small square with a sign; its meaning is its title.
export function Square({ palette, sign, title, dot = false, shade = "solid", ...more }) {
  return h(
    Box,
    {
      as: "span",
      role: "img",
      title,
      "aria-label": title,
      colorPalette: palette,
      display: "inline-flex",
      boxSize: "18px",
      alignItems: "center",
      justifyContent: "center",
      borderRadius: "sm",
      fontSize: "11px",
      fontWeight: "bold",
      flexShrink: 0,
      bg: `colorPalette.${shade}`, color: shade === "solid" ? "colorPalette.contrast" : "colorPalette.fg", ...more,
      outline: dot ? "2px solid" : undefined, outlineColor: dot ? "yellow.solid" : undefined, outlineOffset: "-2px",
    },
    sign,
  );
}

// The query on Penstock's views that gives the rows of a section.
export function CopySql({ sql }) {
  const code = useRef(null);
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    // A page that is not served by TLS has no clipboard: the text is selected for the person to copy.
    globalThis.getSelection().selectAllChildren(code.current);
    await navigator.clipboard?.writeText(sql);
    setCopied(Boolean(navigator.clipboard));
  };
  return h(
    Popover.Root,
    { positioning: { placement: "bottom-end" }, onOpenChange: () => setCopied(false), lazyMount: true },
    h(Popover.Trigger, { asChild: true }, h(Button, { size: "2xs", variant: "ghost" }, "copy SQL")),
    h(
      Portal,
      null,
      h(
        Popover.Positioner,
        null,
        h(
          Popover.Content,
          { width: "auto", maxW: "40rem" },
          h(
            Popover.Body,
            null,
            h(Code, { ref: code, display: "block", whiteSpace: "pre-wrap", p: 2, mb: 2, fontSize: "xs" }, sql),
            h(Button, { size: "xs", onClick: copy }, copied ? "copied" : "copy"),
          ),
        ),
      ),
    ),
  );
}

// A course of figures as a line; the last one is marked.
export function Sparkline({ figures, label, palette = "blue", width = 120, height = 22 }) {
  const known = figures.filter((each) => each !== null);
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  if (known.length < 2 || span === 0) return null;
  const step = width / (figures.length - 1);
  const place = (figure, index) => [index * step, height - 2 - ((figure - low) / span) * (height - 4)];
  const points = figures.map(
    (figure, index) => (figure === null ? null : place(figure, index).join(",")),
  ).filter(Boolean);
  const title = `${label}: from ${count(low)} to ${count(low + span)}, now ${count(known.at(-1))}`;
  return h(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width: "100%",
      height,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": title,
    },
    h("title", null, title),
    h("polyline", {
      points: points.join(" "),
      fill: "none",
      stroke: colour(palette, "500"),
      strokeWidth: 1.5,
      vectorEffect: "non-scaling-stroke",
    }),
  );
}

export function Progress({ done, of, label }) {
  const share = of ? Math.min(1, done / of) : 0;
  return h(
    Box,
    {
      role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": of, "aria-valuenow": done,
      bg: "bg.emphasized", borderRadius: "full", height: "8px", minW: "6rem", overflow: "hidden",
    },
    h(Box, { bg: "blue.solid", height: "100%", width: `${share * 100}%`, transition: "width 0.5s" }),
  );
}

// A table with its headings; `ends` names the headings of columns of numbers.
export function Rows({ columns, ends = [], label, children }) {
  const heading = (each, index) =>
    h(
      Table.ColumnHeader,
      {
        key: index,
        py: 1,
        fontSize: "xs",
        color: "fg.muted",
        fontWeight: "medium",
        textAlign: ends.includes(each) ? "end" : "start",
      },
      each,
    );
  return h(
    Table.ScrollArea,
    { maxH: "40rem" },
    h(
      Table.Root,
      { size: "sm", "aria-label": label, fontSize: "sm" },
      h(Table.Header, null, h(Table.Row, { bg: "transparent" }, columns.map(heading))),
      h(Table.Body, null, children),
    ),
  );
}

export const Row = ({ isChosen = false, ...more }) => h(
  Table.Row,
  { bg: isChosen ? "bg.muted" : "transparent", ...more },
);

// A cell; `number` aligns figures, `small` is for texts that explain.
export const Cell = ({ number = false, small = false, ...more }) =>
  h(
    Table.Cell,
    {
      py: 1.5,
      textAlign: number ? "end" : "start",
      fontVariantNumeric: "tabular-nums",
      fontSize: small ? "xs" : "sm",
      ...more
    },
  );

// Steps between the pages of a long list.
export function Pager({ page, pages, total, noun, onPage }) {
  if (pages <= 1) return total === undefined ? null : h(
    Text,
    { fontSize: "xs", color: "fg.muted", mt: 2 },
    `${count(total)} ${noun}`,
  );
  const step = (label, target) =>
    h(
      Button,
      { size: "2xs", variant: "outline", disabled: target < 1 || target > pages, onClick: () => onPage(target) },
      label,
    );
  return h(
    HStack,
    { as: "nav", "aria-label": `pages of ${noun}`, mt: 2, gap: 2, fontSize: "xs", color: "fg.muted" },
    step("‹ previous", page - 1),
    h(Text, null, `page ${count(page)} of ${count(pages)}${total === undefined ? "" : `, ${count(total)} ${noun}`}`),
    step("next ›", page + 1),
  );
}

// A link within Airflow, in the colour of its links.
export const Link = ({ to, children, ...more }) =>
  h(
    RouterLink,
    { to, style: { color: colour("blue", "fg"), textDecoration: "underline", textUnderlineOffset: "2px" }, ...more },
    children,
  );
