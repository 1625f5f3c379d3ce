// Actions of a person: each starts a run of a DAG, and the page follows the run until it ends.
import { Box, Button, Dialog, HStack, Input, NativeSelect, Portal, Stack, Text, Textarea } from "./host.js";
import { createContext, h, useCallback, useContext, useState } from "./host.js";
import { startRun, useRun, useWhile } from "./api.js";
import { ErrorNotice, Link, Sign } from "./parts.js";
import { RUN } from "./words.js";

// The DAGs of the buttons, beside the pipeline's own.
const DAGS = [
  "penstock_accept_loss",
  "penstock_backfill",
  "penstock_backfill_cancel",
  "penstock_quarantine_drop",
  "penstock_rebuild",
  "penstock_redrive",
  "penstock_rollback",
  "penstock_settle",
  "penstock_verify",
];

const Actions = createContext(null);
const Rights = createContext(null);
const Declared = createContext(true);
export const RIGHTS_NOTICE = "rights";
// These act on what the ledger holds. The DAGs of the other buttons need a declaration without mistakes.
const WITHOUT_DECLARATION = ["penstock_backfill_cancel", "penstock_rollback", "penstock_settle"];

// Gives `useActions` to the sections below it, and shows the open dialog and the runs that this page has started.
export function ActionsProvider({ onChange, children }) {
  const [dialog, setDialog] = useState(null);
  const [runs, setRuns] = useState([]);
  const start = useCallback(
    async (label, dag, conf, after) => {
      const { dag_run_id: run } = await startRun(dag, conf);
      setRuns((before) => [...before, { label, dag, run, after }]);
      onChange();
    },
    [onChange],
  );
  const forget = (run) => setRuns((before) => before.filter((each) => each.run !== run));
  return h(
    Actions.Provider,
    { value: { start, ask: setDialog } },
    runs.length > 0 && h(
      Stack,
      { gap: 1, role: "status" },
      runs.map((each) => h(StartedRun, { key: each.run, ...each, onChange, forget })),
    ),
    children,
    dialog && h(ActionDialog, { key: dialog.title, ...dialog, start, onClose: () => setDialog(null) }),
  );
}

// `ask` opens a dialog, `start` starts a run without one.
export const useActions = () => useContext(Actions);

// Gives `DagButton` the rights of the person at the browser; null before they are known.
export const RightsProvider = Rights.Provider;

// Whether the declaration of the pipeline is valid. A run of a pipeline without a valid one could only fail.
export const DeclaredProvider = Declared.Provider;
export const useDeclared = () => useContext(Declared);

// A button that starts a run of a DAG. It is off for a person who may not: a notice on the page says why.
export function DagButton({ dag, disabled = false, title, ...more }) {
  const rights = useContext(Rights);
  const isDeclared = useDeclared();
  if (!isDeclared && !WITHOUT_DECLARATION.includes(dag)) return null;
  const refused = rights !== null && !rights.may_start.includes(dag);
  return h(
    Button,
    {
      ...more,
      disabled: disabled || refused,
      title: refused ? `You may not start a run of the DAG ${dag}.` : title,
      "aria-describedby": refused ? RIGHTS_NOTICE : undefined,
    },
  );
}

// A button that shows the contents of a record.
export function ContentsButton(more) {
  const rights = useContext(Rights);
  const refused = rights !== null && !rights.may_see_contents;
  const title = refused ? "You may not see the contents of records." : undefined;
  return h(Button, { ...more, disabled: refused, title, "aria-describedby": refused ? RIGHTS_NOTICE : undefined });
}

// The rights that are missing for the buttons that are off.
export function MissingRights({ name }) {
  const rights = useContext(Rights);
  if (rights === null) return null;
  const missing = [name, ...DAGS].filter((dag) => !rights.may_start.includes(dag));
  const wanted = [
    missing.length > 0 && `POST on the runs of ${missing.length > 1 ? "the DAGs" : "the DAG"} ${missing.join(", ")}`,
    !rights.may_see_contents && "GET on the connection penstock_db (to see the contents of records)",
  ].filter(Boolean);
  return wanted.length > 0 && h(
    Text,
    { id: RIGHTS_NOTICE, fontSize: "xs", color: "fg.muted", mt: 2 },
    missing.length === DAGS.length + 1 ? "You may only look. " : "Some buttons are off for you. ",
    `To use the buttons that are off, ask an administrator of Airflow for: ${wanted.join("; ")}.`,
  );
}

function StartedRun({ label, dag, run, after, onChange, forget }) {
  const [result, setResult] = useState(null);
  const state = useRun(dag, run, onChange);
  const ended = state === "success" || state === "failed";
  // Not all that a run does makes its pipeline busy: a rebuild does not.
  useWhile(!ended, onChange);
  if (state === "success" && after && result === null) {
    setResult("");
    after(run).then(setResult, (error) => setResult(error.message));
  }
  return h(
    HStack,
    { borderWidth: 1, borderRadius: "md", px: 3, py: 1, gap: 3, fontSize: "sm" },
    h(Sign, { word: state, of: RUN, label: state === "success" ? "done" : state }),
    h(Text, null, label),
    result && h(Text, { fontWeight: "medium" }, result),
    h(
      Link,
      { to: `/dags/${dag}/runs/${encodeURIComponent(run)}` },
      state === "failed" ? "read the log of its run" : "its run",
    ),
    ended && h(
      Button,
      { size: "2xs", variant: "ghost", ms: "auto", "aria-label": `hide: ${label}`, onClick: () => forget(run) },
      "hide",
    ),
  );
}

// A question with the fields of a form. `fields` are {name, label, kind, required, help, options, value}.
// `before` is done first, and an error of it starts nothing.
function ActionDialog({ start, onClose, ...asked }) {
  const { title, body, fields = [], button, danger = false, before, dag, conf, label, after } = asked;
  const [values, setValues] = useState(Object.fromEntries(fields.map((each) => [each.name, each.value ?? ""])));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const missing = fields.some((each) => each.required && String(values[each.name]).trim() === "");
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await before?.();
      await start(label ?? title, dag, { ...conf, ...clean(fields, values) }, after);
      onClose();
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  };
  return h(
    Dialog.Root,
    { open: true, size: "md", onOpenChange: (event) => !event.open && onClose() },
    h(
      Portal,
      null,
      h(Dialog.Backdrop),
      h(
        Dialog.Positioner,
        null,
        h(
          Dialog.Content,
          { as: "form", onSubmit: submit },
          h(Dialog.Header, null, h(Dialog.Title, null, title)),
          h(
            Dialog.Body,
            null,
            h(
              Stack,
              { gap: 3 },
              body && h(Box, null, body),
              fields.map((each) => h(
                Field,
                {
                  key: each.name,
                  ...each,
                  given: values[each.name],
                  onGiven: (given) => setValues({ ...values, [each.name]: given }),
                },
              )),
              error && h(ErrorNotice, { error }),
            ),
          ),
          h(
            Dialog.Footer,
            null,
            h(Button, { variant: "outline", onClick: onClose }, "Close"),
            h(
              Button,
              { type: "submit", colorPalette: danger ? "red" : "brand", disabled: missing || busy, loading: busy },
              button,
            ),
          ),
        ),
      ),
    ),
  );
}

// A field that is left empty is not part of the form that a DAG gets.
function clean(fields, values) {
  const given = fields.filter((each) => String(values[each.name]).trim() !== "");
  return Object.fromEntries(
    given.map((each) => [each.name, each.kind === "number" ? Number(values[each.name]) : values[each.name]]),
  );
}

export function Field({ name, label, kind = "text", required = false, help, options, given, onGiven, ...more }) {
  const change = (event) => onGiven(event.target.value);
  const input =
    kind === "choice"
      ? h(
        NativeSelect.Root,
        { size: "sm" },
        h(
          NativeSelect.Field,
          { name, value: given, onChange: change },
          options.map(
            (each) => h("option", { key: each.value ?? each, value: each.value ?? each }, each.label ?? each),
          ),
        ),
        h(NativeSelect.Indicator),
      )
      : h(
        kind === "long" ? Textarea : Input,
        {
          size: "sm",
          name,
          value: given,
          onChange: change,
          required,
          type: kind === "long" ? undefined : kind,
          rows: kind === "long" ? 2 : undefined,
          ...more
        },
      );
  return h(
    "label",
    { style: { display: "block" } },
    h(
      Text,
      { as: "span", fontSize: "sm", fontWeight: "medium" },
      label,
      required && h(Text, { as: "span", color: "fg.error", "aria-hidden": true }, " *"),
    ),
    input,
    help && h(Text, { as: "span", fontSize: "xs", color: "fg.muted" }, help),
  );
}

export const WHY = {
  name: "why",
  label: "Why",
  kind: "long",
  required: true,
  help: "The ledger keeps your name and your reason.",
};
