// The trouble of a pipeline and the decisions on it: incidents, holds, losses, and who did what.
import { Box, Stack, Text, h, useState } from "./host.js";
import { useDocument } from "./api.js";
import { Muted, Time, count, plural, ranges } from "./format.js";
import { AcceptLoss } from "./head.js";
import { Cell, Empty, Notice, Pager, Panel, Prose, Row, Rows, Sign } from "./parts.js";
import { spaced } from "./words.js";

const INCIDENT = {
  open: { palette: "red", sign: "!" },
  muted: { palette: "yellow", sign: "~" },
  ended: { palette: "green", sign: "✓" },
};

export function Incidents({ name, tick }) {
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/incidents`, {}, tick);
  return h(Panel, { id: "incidents", title: "Incidents", found }, (document) =>
    document.incidents.length === 0
      ? h(Empty, null, "Nothing has gone wrong yet.")
      : h(
        Rows,
        { columns: ["since", "state", "what happened", "seen"] },
        document.incidents.map((each) => h(IncidentRow, { key: each.incident, incident: each })),
      ),
  );
}

const NOTICE = {
  sent: { palette: "green", sign: "✓" },
  waiting: { palette: "gray", sign: "…" },
  failing: { palette: "red", sign: "✕" },
};

// Who was told, who waits, and the error of the last attempt.
function Notices({ notices }) {
  return h(
    Stack,
    { gap: 0.5, mt: 1, as: "ul", "aria-label": "notices", listStyleType: "none" },
    notices.map((each, index) => h(
      "li",
      { key: index },
      h(Sign, { word: each.state, of: NOTICE, size: "xs" }),
      h(
        Muted,
        { fontSize: "xs" },
        ` notice ${each.kind} to ${each.route} `,
        !each.sent_at && "next at ",
        h(Time, { at: each.sent_at ?? each.next_attempt_at }),
        !each.sent_at && each.attempts > 0 && `, after ${plural(each.attempts, "attempt")}`,
        each.last_error && `: ${each.last_error}`,
      ),
    )),
  );
}

function IncidentRow({ incident }) {
  const muted = incident.state === "muted" && h(
    Muted,
    { fontSize: "xs" },
    " until ",
    h(Time, { at: incident.muted_until }),
    ` by ${incident.muted_by}: ${incident.muted_why}`,
  );
  return h(
    Row,
    { verticalAlign: "top" },
    h(Cell, { whiteSpace: "nowrap" }, h(Time, { at: incident.opened_at })),
    h(Cell, null, h(Sign, { word: incident.state, of: INCIDENT })),
    h(
      Cell,
      null,
      h("b", null, spaced(incident.kind)),
      incident.load !== null && ` of load ${incident.load}`,
      `: ${incident.message}`,
      muted,
      incident.ended_at
        ? h(
          Text,
          { fontSize: "xs", color: "fg.muted" },
          "ended ",
          h(Time, { at: incident.ended_at }),
          incident.ended_why && `: ${incident.ended_why}`,
        )
        : h(Text, { fontSize: "xs", color: "fg.muted" }, h(Prose, { text: `Next: ${incident.next_step}` })),
      incident.notices.length > 0 && h(Notices, { notices: incident.notices }),
    ),
    h(Cell, { number: true }, count(incident.times_seen)),
  );
}

export function Events({ name, tick }) {
  const [page, setPage] = useState(1);
  const found = useDocument(`pipelines/${encodeURIComponent(name)}/events`, { page }, tick);
  return h(Panel, { id: "events", title: "Events", hint: "who did what, and why", found }, (document) =>
    h(
      Stack,
      { gap: 3 },
      document.holds.filter((each) => !each.ended_at).map((each) => h(OpenHold, { key: each.hold, name, hold: each })),
      document.losses.length > 0 && h(Losses, { losses: document.losses }),
      document.events.length === 0
        ? h(Empty, null, "No person and no run has decided anything yet.")
        : h(
          Rows,
          { columns: ["when", "event", "load", "by", "why"] },
          document.events.map((each, index) => h(EventRow, { key: index, event: each })),
        ),
      h(Pager, { page: document.page, pages: document.pages, noun: "events", onPage: setPage }),
    ),
  );
}

function OpenHold({ name, hold }) {
  const actions = hold.kind === "log_lost" && h(AcceptLoss, { name });
  return h(
    Notice,
    { status: "warning", title: `${spaced(hold.kind)}: ${hold.cause}`, actions },
    hold.next_step && h(Prose, { text: `Next: ${hold.next_step}` }),
  );
}

function Losses({ losses }) {
  return h(
    Box,
    { fontSize: "sm" },
    h(
      Text,
      { fontWeight: "semibold", fontSize: "xs", color: "fg.muted" },
      "Losses: offsets that the log no longer had",
    ),
    losses.map((each, index) => h(
      Text,
      { key: index },
      h(Time, { at: each.found_at }),
      ` ${ranges([each])} (${spaced(each.reason)}), by ${each.actor}${each.why ? `: ${each.why}` : ""}`,
    )),
  );
}

function EventRow({ event }) {
  return h(
    Row,
    { verticalAlign: "top" },
    h(Cell, { whiteSpace: "nowrap" }, h(Time, { at: event.at })),
    h(Cell, null, spaced(event.what)),
    h(Cell, null, event.load ?? ""),
    h(Cell, null, event.actor),
    h(Cell, null, event.why ?? ""),
  );
}
