// All pipelines that a person may see: one row each, with search, filters and an order.
import { Box, Flex, Heading, HStack, Input, Text, h, useState } from "./host.js";
import { useDocument, useTick } from "./api.js";
import { Muted, Short, Time, count, duration } from "./format.js";
import { Cell, Choice, Empty, Filled, Link, Pager, Row, Rows, Sign, Square } from "./parts.js";
import { Trend } from "./tiles.js";
import { HEALTH, LOAD, OPEN_LOADS, spaced } from "./words.js";

const ORDERS = {
  trouble: (a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name),
  name: (a, b) => a.name.localeCompare(b.name),
  lag: (a, b) => (b.lag ?? -1) - (a.lag ?? -1),
  headroom: (a, b) => (a.headroom_hours ?? Infinity) - (b.headroom_hours ?? Infinity),
  quarantined: (a, b) => b.quarantined - a.quarantined,
};
const ROWS = 50; // of a page: a browser draws 500 rows in 1.3 to 2 s
const rank = (pipeline) => (HEALTH[pipeline.state] ?? HEALTH.unknown).rank;
const values = (pipelines, field) => [...new Set(pipelines.flatMap((each) => each[field] ?? []))].sort();

export function Pipelines() {
  const [busy, setBusy] = useState(false);
  const [tick] = useTick(busy);
  const found = useDocument("pipelines", {}, tick);
  const runs = found.document?.pipelines.some((each) => OPEN_LOADS.includes(each.load?.state)) ?? false;
  if (runs !== busy) setBusy(runs);
  return h(
    Box,
    { p: 4, maxW: "1400px", mx: "auto", overflow: "auto" },
    h(Heading, { as: "h1", size: "xl", mb: 3 }, "Pipelines"),
    h(Filled, { found }, (document) => h(Overview, { document })),
  );
}

function Overview({ document }) {
  const [filter, setFilter] = useState({ search: "", state: "", owner: "", tag: "", order: "trouble" });
  const [page, setPage] = useState(1);
  const choose = (field) => (event) => setFilter({ ...filter, [field]: event.target.value });
  const all = document.pipelines;
  if (all.length === 0) return h(
    Empty,
    null,
    "No pipeline is declared, or you may see none. Next: declare one in a YAML file.",
  );
  const shown = all.filter((each) => fits(each, filter)).sort(ORDERS[filter.order]);
  const pages = Math.ceil(shown.length / ROWS);
  const current = Math.min(page, Math.max(1, pages));
  return h(
    Box,
    null,
    h(
      Flex,
      { gap: 2, mb: 3, wrap: "wrap", align: "center" },
      h(
        Input,
        {
          size: "xs",
          maxW: "16rem",
          type: "search",
          placeholder: "search name, topic, table",
          "aria-label": "search",
          value: filter.search,
          onChange: choose("search"),
        },
      ),
      h(
        Choice,
        {
          label: "state",
          all: "all states",
          options: values(all, "state"),
          value: filter.state,
          onChange: choose("state"),
        },
      ),
      h(
        Choice,
        {
          label: "owner",
          all: "all owners",
          options: values(all, "owner"),
          value: filter.owner,
          onChange: choose("owner"),
        },
      ),
      h(
        Choice,
        { label: "tag", all: "all tags", options: values(all, "tags"), value: filter.tag, onChange: choose("tag") },
      ),
      h(
        Choice,
        {
          label: "order",
          all: "by trouble",
          options: Object.keys(ORDERS).slice(1),
          value: filter.order === "trouble" ? "" : filter.order,
          onChange: (event) => setFilter({ ...filter, order: event.target.value || "trouble" }),
        },
      ),
      h(
        Muted,
        { ms: "auto" },
        `${count(shown.length)} of ${count(all.length)}`,
        document.sampled_at && h("span", null, ", Kafka as of ", h(Time, { at: document.sampled_at, since: true })),
      ),
    ),
    shown.length === 0
      ? h(Empty, null, "No pipeline fits the search and the filters.")
      : h(
        Box,
        null,
        h(PipelineTable, { pipelines: shown.slice((current - 1) * ROWS, current * ROWS) }),
        h(Pager, { page: current, pages, noun: "pipelines", onPage: setPage }),
      ),
  );
}

function fits(pipeline, { search, state, owner, tag }) {
  const text = [pipeline.name, pipeline.topic, pipeline.target].join(" ").toLowerCase();
  const chosen = (!state || pipeline.state === state) && (!owner || pipeline.owner === owner);
  return chosen && (!tag || (pipeline.tags ?? []).includes(tag)) && text.includes(search.trim().toLowerCase());
}

function PipelineTable({ pipelines }) {
  const columns = ["pipeline", "state", "lag", "last load", "last 10 loads", "quarantined", "headroom", "schedule"];
  return h(
    Box,
    { borderWidth: 1, borderRadius: "lg", p: 2 },
    h(
      Rows,
      { columns, ends: ["quarantined"], label: "pipelines" },
      pipelines.map((each) => h(PipelineRow, { key: each.name, pipeline: each })),
    ),
  );
}

function PipelineRow({ pipeline }) {
  return h(
    Row,
    { verticalAlign: "top" },
    h(
      Cell,
      null,
      h(
        Text,
        { fontWeight: "semibold" },
        h(Link, { to: `/plugin/penstock?pipeline=${encodeURIComponent(pipeline.name)}` }, pipeline.name),
      ),
      pipeline.topic && h(Muted, { fontSize: "xs" }, `${pipeline.topic} → ${pipeline.target}`),
    ),
    h(
      Cell,
      { maxW: "24rem" },
      h(Sign, { word: pipeline.state, of: HEALTH }),
      h(Text, { fontSize: "xs", color: "fg.muted", lineClamp: 2, title: pipeline.next_step }, pipeline.cause),
    ),
    h(
      Cell,
      { whiteSpace: "nowrap" },
      h(Short, { number: pipeline.lag }),
      " ",
      h(Muted, { fontSize: "xs" }, h(Trend, { trend: pipeline.trend })),
      pipeline.lag > 0 && h(Text, { fontSize: "xs", color: "fg.muted" }, `oldest ${duration(pipeline.oldest_seconds)}`),
    ),
    h(Cell, { whiteSpace: "nowrap" }, h(LastLoad, { load: pipeline.load })),
    h(Cell, null, h(Recent, { loads: pipeline.recent })),
    h(Cell, { number: true }, count(pipeline.quarantined)),
    h(
      Cell,
      { whiteSpace: "nowrap" },
      pipeline.headroom_hours === null ? "–" : duration(pipeline.headroom_hours * 3600),
    ),
    h(
      Cell,
      null,
      pipeline.schedule ?? "by hand",
      pipeline.owner && h(Text, { fontSize: "xs", color: "fg.muted" }, pipeline.owner),
    ),
  );
}

const LastLoad = ({ load }) =>
  load ? h(
    Box,
    null,
    `${load.load} `,
    h(Sign, { word: load.state, of: LOAD, size: "xs" }),
    h(Text, { fontSize: "xs", color: "fg.muted" }, h(Time, { at: load.published_at, since: true })),
  ) : "none";

// One square a load, the oldest first; a yellow edge shows quarantined records.
export function Recent({ loads }) {
  const squares = [...loads].reverse().map((each) => {
    const { palette, sign } = LOAD[each.state] ?? { palette: "gray", sign: "?" };
    const title = `load ${each.load}, ${each.kind}: ${spaced(each.state)}, ${count(each.quarantined)} quarantined`;
    return h(
      Square,
      {
        key: each.load,
        palette,
        sign,
        title,
        dot: each.quarantined > 0,
        shade: each.state === "published" ? "muted" : "solid",
      },
    );
  });
  return h(HStack, { gap: "2px" }, squares);
}
