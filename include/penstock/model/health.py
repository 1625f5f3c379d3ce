"""The health of a pipeline: a word, its cause and the next step. Pure decisions over facts of ledger and log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock import advice
from penstock.errors import name_few, name_ranges
from penstock.model.load import OPEN_STATES, LoadState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.errors import DeclarationError, HoldKind
    from penstock.model.plan import Fault, OnLoss

Word = Literal[
    "new",
    "ok",
    "behind",
    "loading",
    "stalled",
    "held",
    "failed",
    "log_lost",
    "other_topic",
    "faulty",
    "bad_target",
    "broken",
    "unknown",
]


# No process works on a load between two of its steps, while Airflow schedules the next task or waits for a retry.
PATIENCE_SECONDS = 15 * 60


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest live load of a pipeline."""

    load_id: int
    state: LoadState
    cause: str | None
    has_worker: bool = True
    since: datetime | None = None  # in its state; while it is staged, since the last task that ended
    idle_seconds: float = 0.0
    failure: str | None = None  # of its last run, or of its hold, with the next step
    failure_step: str | None = None


@dataclass(frozen=True, slots=True)
class OpenHold:
    """The open hold of a pipeline, as the last run that met it described it."""

    kind: HoldKind
    cause: str
    began_at: datetime


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets below the positions that the table does not hold: gaps and losses; and unfinished backfills."""

    gaps: int = 0
    backfills: tuple[int, ...] = ()
    lost: int = 0


@dataclass(frozen=True, slots=True)
class OpenFaults:
    """Faults that verifications found, and that no later verification has removed."""

    verification_id: int
    faults: int
    first: str


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a pipeline, its cause, and the next step for a person."""

    state: Word
    cause: str
    next_step: str


def judge(
    name: str,
    newest: Newest | None,
    faults: Sequence[Fault],
    lag: int | None,
    unreachable: str,
    other_topic: str,
    *,
    hold: OpenHold | None = None,
    on_loss: OnLoss = "stop",
    missing: Missing = Missing(),
    found: OpenFaults | None = None,
) -> Health:
    """Judge a pipeline. Causes that need a person come first."""
    if newest and newest.state == LoadState.HELD:
        return Health(
            "held",
            f"load {newest.load_id}: {newest.cause}",
            newest.failure_step or advice.settle_held(newest.load_id),
        )
    if other_topic:
        return Health("other_topic", other_topic + _since(hold), advice.resolve_hold("other_topic", name))
    if faults:
        return _judge_faults(name, faults, hold, on_loss)
    if unreachable:
        return _judge_unreachable(name, unreachable, hold)
    if hold and hold.kind == "log_cut":
        # A truncated log that has grown again looks whole by its offsets. Only a plan checks the epochs.
        return Health("log_lost", hold.cause + _since(hold), advice.resolve_hold(hold.kind, name))
    return _judge_found(name, found) if found else _judge_progress(name, newest, lag, missing)


def judge_broken(name: str, mistakes: str) -> Health:
    """Judge a pipeline whose declaration cannot be read: it is not loaded, and its topic and target are unknown."""
    return Health("broken", mistakes, advice.correct_declaration(name))


def judge_bad_target(error: DeclarationError) -> Health:
    """Judge a pipeline whose target does not fit the declaration: it takes no load, for any state of the log."""
    return Health("bad_target", error.what, error.next_step)


def name_held_redrives(health: Health, held: Sequence[int]) -> Health:
    """Add redrives that wait for a person to the cause. Live loads go on, so the state of the pipeline stays."""
    if not held:
        return health
    what = f"{health.cause}; held redrives: load {', '.join(name_few(held))} (`penstock incidents`)"
    next_step = advice.settle_redrive(held[0]) if health.next_step == advice.NOTHING else health.next_step
    return Health(health.state, what, next_step)


def name_waiting_results(health: Health, name: str, waiting: Sequence[str]) -> Health:
    """Add results that wait for a rebuild to the cause. Their tables follow the rows by their earlier declaration."""
    if not waiting:
        return health
    what = f"{health.cause}; results that wait for a rebuild: {', '.join(name_few(waiting))}"
    next_step = advice.rebuild_waiting(name, waiting[0]) if health.next_step == advice.NOTHING else health.next_step
    return Health(health.state, what, next_step)


def _judge_found(name: str, found: OpenFaults) -> Health:
    """Judge a pipeline whose table differs from the published rows, however far it is loaded."""
    return Health(
        "faulty",
        f"verification {found.verification_id} left {found.faults} faults; the first: {found.first}",
        advice.replace_faulty_range(name),
    )


def _judge_faults(name: str, faults: Sequence[Fault], hold: OpenHold | None, on_loss: OnLoss) -> Health:
    cause = name_ranges(faults) + _since(hold)
    if any(fault.kind != "log_start_passed" for fault in faults):
        return Health("log_lost", cause, advice.resolve_hold("log_cut", name))
    if on_loss == "record":
        return Health("log_lost", cause, advice.NEXT_RUN_RECORDS_LOSS)
    return Health("log_lost", cause, advice.resolve_hold("log_lost", name))


def _judge_unreachable(name: str, unreachable: str, hold: OpenHold | None) -> Health:
    """Judge a pipeline while Kafka does not answer: only an open hold is known."""
    if hold is None:
        return Health("unknown", unreachable, advice.CHECK_BROKERS)
    word: Word = "other_topic" if hold.kind == "other_topic" else "log_lost"
    return Health(word, f"{hold.cause}{_since(hold)}; now {unreachable}", advice.resolve_hold(hold.kind, name))


def _since(hold: OpenHold | None) -> str:
    return f" (held since {hold.began_at.isoformat(timespec='seconds')})" if hold else ""


def _judge_progress(name: str, newest: Newest | None, lag: int | None, missing: Missing) -> Health:
    if newest is None:
        return Health("new", "nothing loaded yet", advice.run_pipeline_or_dag(name))
    if newest.state == LoadState.FAILED:
        return Health("failed", f"load {newest.load_id}: {newest.cause}", advice.fix_then_run(name))
    if newest.state in OPEN_STATES:
        return _judge_unfinished(name, newest)
    if lag:
        return Health("behind", f"{lag} offsets not loaded yet", advice.await_schedule_or_run(name))
    return _judge_past(name, missing)


def _judge_unfinished(name: str, newest: Newest) -> Health:
    if newest.failure and not newest.has_worker:
        cause = f"load {newest.load_id} is {newest.state}: {newest.failure}"
        return Health("failed", cause, newest.failure_step or advice.fix_then_run(name))
    if is_stalled(newest):
        return _judge_stalled(name, newest)
    return Health("loading", f"load {newest.load_id} is {newest.state}", advice.WAIT_FOR_LOAD)


def is_stalled(newest: Newest) -> bool:
    """Whether no process works on an unfinished load.

    A load that is being staged always has a process. Between the steps Airflow may need time to start the next one.
    """
    return not newest.has_worker and (newest.state == LoadState.STAGING or newest.idle_seconds > PATIENCE_SECONDS)


def _judge_stalled(name: str, newest: Newest) -> Health:
    since = f" since {newest.since.isoformat(timespec='seconds')}" if newest.since else ""
    return Health(
        "stalled",
        f"load {newest.load_id} is {newest.state}{since}, and no process works on it",
        advice.resume_stalled(name),
    )


def _judge_past(name: str, missing: Missing) -> Health:
    """Judge a pipeline that is loaded up to the end. A person may have left gaps below on purpose."""
    if missing.backfills:
        named = name_few(missing.backfills)
        return Health("behind", f"backfill {', '.join(named)} has not ended", advice.resume_backfills(name, named))
    if missing.gaps or missing.lost:
        parts = [(missing.gaps, "are gaps"), (missing.lost, "are lost (penstock.losses)")]
        below = "; ".join(f"{count} offsets below it {what}" for count, what in parts if count)
        cause = f"everything up to the end is loaded; {below}"
        return Health("ok", cause, advice.fill_gaps(name) if missing.gaps else advice.NOTHING)
    return Health("ok", "everything is loaded", advice.NOTHING)
