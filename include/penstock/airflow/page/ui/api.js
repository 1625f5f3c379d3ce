// Requests: reads from Penstock's routes, and runs of DAGs through Airflow's own API. Airflow checks every permission.
import { useCallback, useEffect, useRef, useState } from "./host.js";

// Airflow may be served below a path, so addresses are relative to this module.
const READS = new URL("../api/", import.meta.url);
const AIRFLOW = new URL("../../api/v2/", import.meta.url);
const POLL_MS = 5000;
const RUN_POLL_MS = 2000;
const ENDED = ["success", "failed"];
const READ_LOG = "reload this page; if this happens again, read the log of Airflow's API server.";
const NEXT_STEPS = {
  404: "check the name; Airflow reads a new file of a DAG within a minute.",
  409: "reload this page.",
};

// A message for a person: what happened, and the next step.
export class Refusal extends Error {
  constructor(what, nextStep) {
    super(what);
    this.nextStep = nextStep;
  }
}

// Read a document. The browser keeps it with its ETag, and `no-cache` makes it ask whether the document has changed.
export async function read(path, query = {}, permission = "GET on the DAG of the pipeline") {
  const address = new URL(path, READS);
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) {
      if (each !== null && each !== undefined && each !== "") address.searchParams.append(name, each);
    }
  }
  const reply = await request(address, { cache: "no-cache" });
  if (reply.ok) return reply.json();
  throw await explain(reply, "read this", permission);
}

// Start a run of a DAG in the name of the person at the browser. The DAG checks the form again.
export async function startRun(dag, conf) {
  const body = JSON.stringify({ logical_date: null, conf });
  const headers = { "content-type": "application/json" };
  const reply = await request(new URL(`dags/${dag}/dagRuns`, AIRFLOW), { method: "POST", headers, body });
  if (reply.ok) return reply.json();
  throw await explain(reply, `start a run of the DAG ${dag}`, `POST on the runs of the DAG ${dag}`);
}

// Stop the tasks of a run.
export async function stopRun(dag, run) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ state: "failed" });
  const address = new URL(`dags/${dag}/dagRuns/${encodeURIComponent(run)}`, AIRFLOW);
  const reply = await request(address, { method: "PATCH", headers, body });
  if (!reply.ok) throw await explain(reply, `stop runs of the DAG ${dag}`, `PUT on the runs of the DAG ${dag}`);
}

export async function readRun(dag, run) {
  const reply = await request(new URL(`dags/${dag}/dagRuns/${encodeURIComponent(run)}`, AIRFLOW), {});
  if (reply.ok) return reply.json();
  throw await explain(reply, `see runs of the DAG ${dag}`, `GET on the runs of the DAG ${dag}`);
}

async function request(address, options) {
  try {
    return await fetch(address, { credentials: "same-origin", ...options });
  } catch {
    throw new Refusal("Airflow's API server does not answer.", "check your network, then reload this page.");
  }
}

async function explain(reply, deed, permission) {
  if (reply.status === 401) return new Refusal("You are not signed in any more.", "reload this page, and sign in.");
  if (reply.status === 403) {
    return new Refusal(`You may not ${deed}.`, `ask an administrator of Airflow for this permission: ${permission}.`);
  }
  const { what, next_step } = describe(await reply.json().catch(() => null));
  return new Refusal(what ?? `Airflow answered ${reply.status}.`, next_step ?? NEXT_STEPS[reply.status] ?? READ_LOG);
}

// FastAPI puts its messages under `detail`: a text, a list of mistakes in the form, or Penstock's own error.
function describe(document) {
  const detail = document?.detail;
  if (Array.isArray(detail)) return { what: detail.map((each) => each.msg).join("; "), next_step: "correct the form." };
  if (typeof detail === "string") return { what: detail, next_step: undefined };
  const mistake = detail ?? document ?? {};
  return { what: mistake.error, next_step: mistake.next_step };
}

// A document of a route. It is read again when its path, its query or `tick` changes, and by `retry`; meanwhile, and
// after an error, the old one stays.
export function useDocument(path, query, tick = 0) {
  const key = path === null ? null : JSON.stringify([path, query]);
  const [state, setState] = useState({ key, document: null, error: null });
  const [turn, setTurn] = useState(0);
  const newest = useRef(key);
  newest.current = key;
  useEffect(() => {
    if (key === null) return;
    const accept = (found) => newest.current === key && setState((before) => ({
      key, document: before.key === key ? before.document : null, error: null, ...found,
    }));
    read(path, query).then((document) => accept({ document }), (error) => accept({ error }));
  }, [key, tick, turn]);
  const retry = () => setTurn(turn + 1);
  return { document: state.document, error: state.error, isOld: state.key !== key, retry };
}

// A number that rises while something runs, and when a person comes back to the page. Documents are read again by it.
export function useTick(busy) {
  const [tick, setTick] = useState(0);
  const advance = useCallback(() => {
    if (document.visibilityState === "visible") setTick((each) => each + 1);
  }, []);
  useEffect(() => {
    document.addEventListener("visibilitychange", advance);
    return () => document.removeEventListener("visibilitychange", advance);
  }, [advance]);
  useWhile(busy, advance);
  return [tick, advance];
}

// Call `act` every few seconds while something runs.
export function useWhile(runs, act, every = POLL_MS) {
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(act, every);
    return () => clearInterval(timer);
  }, [runs, act, every]);
}

// The state of a run until it ends; `onChange` is called at each new state.
export function useRun(dag, run, onChange) {
  const [state, setState] = useState("queued");
  const look = useCallback(
    () => readRun(dag, run).then((found) => setState(found.state), () => setState("unknown")),
    [dag, run],
  );
  useWhile(!ENDED.includes(state), look, RUN_POLL_MS);
  useEffect(onChange, [state]);
  return state;
}

// Whether a run waits for a person. A load that no run of Airflow held has no such run until the pipeline runs again.
export function useWaitingRun(dag, run) {
  const [waits, setWaits] = useState(false);
  useEffect(() => {
    readRun(dag, run).then((found) => setWaits(!ENDED.includes(found.state)), () => setWaits(false));
  }, [dag, run]);
  return waits;
}

// The text that a task of a run returned.
export async function readResult(dag, run, task) {
  const address = new URL(
    `dags/${dag}/dagRuns/${encodeURIComponent(run)}/taskInstances/${task}/xcomEntries/return_value`,
    AIRFLOW,
  );
  const reply = await request(address, {});
  if (reply.ok) return String((await reply.json()).value);
  throw await explain(reply, `see results of the DAG ${dag}`, `GET on the XCom entries of the DAG ${dag}`);
}
