// The quarantine: groups by reason, then records. Contents are hidden, and each look at them is recorded.
import { Box, Button, Code, HStack, Stack, Text, h, useState } from "./host.js";
import { ContentsButton, DagButton, WHY, useActions } from "./actions.js";
import { read, readResult, useDocument } from "./api.js";
import { Muted, Time, count, plural } from "./format.js";
import { Cell, Empty, ErrorNotice, Filled, Pager, Panel, Row, Rows } from "./parts.js";
import { spaced } from "./words.js";

// The contents of records need the right of somebody who may see the password of the database.
const CONTENTS = "GET on the connection penstock_db";
const DRY_RUN = "Applies today's declaration to the records, and counts those that pass. Nothing is published.";
const REDRIVE = "Publishes the records that pass today's declaration. The others stay in the quarantine.";
const label = ({ reason, rule }) => (rule ? `rule ${rule}` : spaced(reason));
const placeOf = (record) => `${record.partition}:${record.offset}`;

export function Quarantine({ name, tick }) {
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/quarantine`, {}, tick);
  const [opened, setOpened] = useState(null);
  return h(Panel, {
    id: "quarantine",
    title: "Quarantine",
    hint: "records that could not become rows",
    found,
  }, (document) =>
    document.groups.length === 0
      ? h(Empty, null, "No record is in the quarantine.")
      : h(
        Stack,
        { gap: 3 },
        h(Groups, { name, groups: document.groups, opened, onOpen: setOpened }),
        opened && h(Records, { key: label(opened), name, group: opened, tick }),
      ),
  );
}

function Groups({ name, groups, opened, onOpen }) {
  return h(
    Rows,
    { columns: ["reason", "records", "first and last", "places", ""], ends: ["records"], label: "groups" },
    groups.map((group) => h(
      GroupRow,
      { key: label(group), name, group, isOpen: opened !== null && label(opened) === label(group), onOpen },
    )),
  );
}

function GroupRow({ name, group, isOpen, onOpen }) {
  const kept = group.records - group.dropped;
  const dropped = group.dropped > 0 && h(Muted, { fontSize: "xs" }, ` (${count(group.dropped)} dropped)`);
  return h(
    Row,
    { isChosen: isOpen },
    h(
      Cell,
      null,
      h(
        Button,
        { size: "2xs", variant: "ghost", "aria-expanded": isOpen, onClick: () => onOpen(isOpen ? null : group) },
        `${isOpen ? "▾" : "▸"} ${label(group)}`,
      ),
    ),
    h(Cell, { number: true }, count(group.records), dropped),
    h(
      Cell,
      { small: true, whiteSpace: "nowrap" },
      h(Time, { at: group.first_at }),
      " … ",
      h(Time, { at: group.last_at }),
    ),
    h(Cell, { small: true }, group.first.join(", "), group.records > group.first.length && " …"),
    h(
      Cell,
      null,
      kept > 0 && h(
        Decide,
        { name, selection: selectionOf(group), what: `${plural(kept, "record")} (${label(group)})` },
      ),
    ),
  );
}

const selectionOf = ({ reason, rule }) => (rule ? { reason, rule } : { reason });

// A redrive begins with a dry run, which counts the records that would pass.
function Decide({ name, selection, what }) {
  const { ask } = useActions();
  const conf = { pipeline: name, ...selection };
  const redrive = (dry) => () =>
    ask({
      title: dry ? `Try ${what} again` : `Redrive ${what}`,
      button: dry ? "Count those that pass" : "Redrive",
      dag: "penstock_redrive",
      conf: { ...conf, dry_run: dry, ...(dry ? { why: "a dry run" } : {}) },
      fields: dry ? [] : [WHY],
      label: `${dry ? "dry run: redrive" : "redrive"} ${what}`,
      after: (run) => readResult("penstock_redrive", run, "redrive"),
      body: h(
        Text,
        null,
        dry ? DRY_RUN : REDRIVE,
      ),
    });
  const drop = () =>
    ask({
      title: `Drop ${what}`,
      button: "Drop",
      danger: true,
      dag: "penstock_quarantine_drop",
      conf,
      fields: [WHY],
      label: `drop ${what}`,
      body: h(
        Text,
        null,
        "Deletes the contents of the records for good. Their offsets and reasons stay in the ledger.",
      ),
    });
  return h(
    HStack,
    { gap: 1 },
    h(DagButton, { dag: "penstock_redrive", size: "2xs", variant: "outline", onClick: redrive(true) }, "Dry run…"),
    h(DagButton, { dag: "penstock_redrive", size: "2xs", variant: "outline", onClick: redrive(false) }, "Redrive…"),
    h(DagButton, { dag: "penstock_quarantine_drop", size: "2xs", variant: "outline", onClick: drop }, "Drop…"),
  );
}

function Records({ name, group, tick }) {
  const [page, setPage] = useState(1);
  const [chosen, setChosen] = useState(null);
  const query = { reason: group.reason, rule: group.rule, page };
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/quarantine/records`, query, tick);
  return h(Filled, { found }, (document) =>
    h(
      Box,
      { borderWidth: 1, borderRadius: "md", p: 3 },
      h(
        HStack,
        { mb: 2 },
        h(Text, { fontWeight: "semibold", fontSize: "sm" }, `Records: ${label(group)}`),
        chosen && h(
          HStack,
          { ms: "auto" },
          h(Muted, null, `selected ${chosen}`),
          h(Decide, { name, selection: { at: chosen }, what: `the record ${chosen}` }),
        ),
      ),
      h(RecordTable, { name, records: document.records, chosen, onChoose: setChosen }),
      h(Pager, { page: document.page, pages: document.pages, total: document.total, noun: "records", onPage: setPage }),
    ),
  );
}

function RecordTable({ name, records, chosen, onChoose }) {
  const [shown, setShown] = useState(null);
  return h(
    Rows,
    { columns: ["", "place", "load", "time", "detail", "key", ""], label: "records" },
    records.flatMap((record) => {
      const place = placeOf(record);
      const isShown = shown === place;
      const show = h(
        Button,
        {
          size: "2xs",
          variant: "ghost",
          "aria-expanded": isShown,
          "aria-label": `show ${place}`,
          onClick: () => setShown(isShown ? null : place),
        },
        isShown ? "hide" : "show",
      );
      return [
        h(
          Row,
          { key: place },
          h(
            Cell,
            null,
            h(
              "input",
              {
                type: "radio",
                name: "record",
                "aria-label": `select ${place}`,
                checked: chosen === place,
                disabled: Boolean(record.dropped_at),
                onChange: () => onChoose(place),
              },
            ),
          ),
          h(Cell, null, place),
          h(Cell, null, record.load),
          h(Cell, { whiteSpace: "nowrap" }, h(Time, { at: record.timestamp })),
          h(
            Cell,
            { small: true },
            record.detail ?? h(Muted, { fontSize: "xs" }, "hidden: it could quote the record"),
            record.first && h(Muted, { fontSize: "xs" }, ` first at ${record.first}`),
          ),
          h(
            Cell,
            { small: true, fontFamily: "mono", title: "equal keys have equal hashes" },
            record.key_hash?.slice(0, 8) ?? "–",
          ),
          h(Cell, null, record.dropped_at ? h(Muted, { fontSize: "xs" }, "dropped") : show),
        ),
        isShown && h(Row, { key: `contents of ${place}` }, h(Cell, { colSpan: 7 }, h(Payload, { name, record }))),
      ];
    }),
  );
}

// The contents of one record, after a click that says what happens: the ledger keeps who looked.
function Payload({ name, record }) {
  const [found, setFound] = useState({ document: null, error: null });
  const [asked, setAsked] = useState(false);
  const look = () => {
    setAsked(true);
    const path = `pipelines/${encodeURIComponent(name)}/quarantine/payload`;
    read(path, { partition: record.partition, offset: record.offset }, CONTENTS).then(
      (document) => setFound({ document, error: null }),
      (error) => setFound({ document: null, error }),
    );
  };
  if (found.error) return h(ErrorNotice, { error: found.error });
  if (!asked) return h(
    HStack,
    null,
    h(Text, { fontSize: "sm" }, "The contents may hold personal data. The ledger records that you looked."),
    h(ContentsButton, { size: "2xs", onClick: look }, "Show the contents"),
  );
  return h(Filled, { found }, (payload) =>
    h(
      Stack,
      { gap: 1 },
      ["key", "value"].map((field) => h(Content, { key: field, field, payload })),
      payload.headers.length > 0 && h(Text, { fontSize: "xs" }, `headers: ${JSON.stringify(payload.headers)}`),
    ),
  );
}

function Content({ field, payload }) {
  const encoded = payload[`${field}_base64`];
  const text = payload[field] ?? encoded;
  return h(
    Box,
    null,
    h(Muted, { fontSize: "xs" }, encoded ? `${field}, in base64` : field),
    h(
      Code,
      {
        display: "block",
        whiteSpace: "pre-wrap",
        wordBreak: "break-all",
        fontSize: "xs",
        p: 2,
        maxH: "12rem",
        overflow: "auto",
      },
      text ?? "null",
    ),
  );
}
