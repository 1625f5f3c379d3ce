// The loads of a pipeline: a table with a filter and pages. A row opens to the whole load. An address with `?load=`
// opens that load: each task of a load has a link to it.
import { Box, Button, HStack, h, useSearchParams, useState } from "./host.js";
import { useDeclared } from "./actions.js";
import { useDocument } from "./api.js";
import { Muted, Short, Time, count, duration } from "./format.js";
import { LoadDetail } from "./load.js";
import { Cell, Choice, Empty, Link, Pager, Panel, Row, Rows, Sign } from "./parts.js";
import { LOAD } from "./words.js";

const KINDS = ["live", "backfill", "replay", "redrive"];
const COLUMNS = ["load", "kind", "state", "rows", "quarantined", "holes", "phases", "when", "who", ""];
const NUMBERS = ["rows", "quarantined", "holes"];

export function Loads({ name, tick }) {
  const [search] = useSearchParams();
  const linked = Number(search.get("load")) || null;
  const [filter, setFilter] = useState({ kind: "", state: "", page: 1 });
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/loads`, filter, tick);
  const nothing = useDeclared() ? "Nothing is loaded yet. Next: Load now." : "Nothing is loaded yet.";
  const choose = (field) => (event) => setFilter({ ...filter, [field]: event.target.value, page: 1 });
  const controls = h(
    HStack,
    null,
    h(Choice, { label: "kind", all: "all kinds", options: KINDS, value: filter.kind, onChange: choose("kind") }),
    h(
      Choice,
      { label: "state", all: "all states", options: Object.keys(LOAD), value: filter.state, onChange: choose("state") },
    ),
  );
  return h(Panel, { id: "loads", title: "Loads", controls, found }, (page) =>
    h(
      Box,
      null,
      // An older load is on a later page of the table.
      linked !== null && !page.loads.some((each) => each.load === linked) && h(
        Box,
        { mb: 4 },
        h("b", null, `load ${linked}`),
        h(LoadDetail, { name, load: linked, tick }),
      ),
      page.loads.length === 0
        ? h(
          Empty,
          null,
          filter.kind || filter.state ? "No load is of this kind and state." : nothing,
        )
        : h(LoadTable, { name, loads: page.loads, linked, tick }),
      h(
        Pager,
        {
          page: page.page,
          pages: page.pages,
          total: page.total,
          noun: "loads",
          onPage: (to) => setFilter({ ...filter, page: to }),
        },
      ),
    ),
  );
}

function LoadTable({ name, loads, linked, tick }) {
  const [opened, setOpened] = useState(linked);
  return h(
    Rows,
    { columns: COLUMNS, ends: NUMBERS, label: "loads" },
    loads.flatMap((load) => [
      h(
        LoadRow,
        {
          key: load.load,
          load,
          isOpen: opened === load.load,
          onToggle: () => setOpened(opened === load.load ? null : load.load),
        },
      ),
      opened === load.load && h(
        Row,
        { key: "open", isChosen: true },
        h(Cell, { colSpan: COLUMNS.length }, h(LoadDetail, { name, load: load.load, tick })),
      ),
    ]),
  );
}

function LoadRow({ load, isOpen, onToggle }) {
  return h(
    Row,
    null,
    h(
      Cell,
      null,
      h(
        Button,
        {
          size: "2xs",
          variant: "ghost",
          onClick: onToggle,
          "aria-expanded": isOpen,
          "aria-label": `load ${load.load}`,
        },
        h("span", { "aria-hidden": true }, isOpen ? "▾" : "▸"),
        ` ${load.load}`,
      ),
    ),
    h(Cell, null, load.kind),
    h(Cell, null, h(Sign, { word: load.state, of: LOAD, title: load.cause ?? undefined })),
    h(Cell, { number: true }, h(Short, { number: load.rows })),
    h(Cell, { number: true }, load.quarantined ? h("b", null, count(load.quarantined)) : count(load.quarantined)),
    h(Cell, { number: true }, h(Short, { number: load.holes })),
    h(Cell, null, h(Phases, { phases: load.phases })),
    h(Cell, { whiteSpace: "nowrap" }, h(Time, { at: load.published_at ?? load.planned_at })),
    h(Cell, null, load.who),
    h(Cell, null, load.run_link && h(Link, { to: load.run_link }, "run")),
  );
}

function Phases({ phases }) {
  return h(
    Muted,
    { fontSize: "xs", whiteSpace: "nowrap" },
    phases.map((each) => `${each.phase} ${duration(each.seconds)}${each.ended ? "" : " …"}`).join(" · "),
  );
}
