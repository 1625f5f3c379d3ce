"""One health word for a pipeline, its cause and the next step: pure decisions over what the ledger and the log say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.plan import Fault

Word = Literal["new", "ok", "behind", "loading", "held", "failed", "log_lost", "other_topic", "unknown"]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest live load of a pipeline."""

    load_id: int
    state: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """How a pipeline is, why, and what a person should do."""

    state: Word
    cause: str
    next_step: str


def judge(
    name: str, newest: Newest | None, faults: Sequence[Fault], lag: int | None, unreachable: str, other_topic: str
) -> Health:
    """Judge a pipeline; what needs a person comes first."""
    if newest and newest.state == "held":
        return Health(
            "held",
            f"load {newest.load_id}: {newest.cause}",
            f"penstock approve {newest.load_id} --why …, penstock discard {newest.load_id} --why …, "
            "or change the declaration",
        )
    if other_topic:
        return Health("other_topic", other_topic, "find out who changed the topic; nothing is loaded meanwhile")
    if faults:
        return Health(
            "log_lost", "; ".join(map(str, faults)), "find out what happened to the topic; nothing is loaded meanwhile"
        )
    if unreachable:
        return Health("unknown", unreachable, "check the brokers and the connection")
    return _judge_progress(name, newest, lag)


def _judge_progress(name: str, newest: Newest | None, lag: int | None) -> Health:
    run = f"penstock run {name}, or trigger its DAG"
    if newest is None:
        return Health("new", "nothing loaded yet", run)
    if newest.state == "failed":
        return Health("failed", f"load {newest.load_id}: {newest.cause}", f"mend the cause, then {run}")
    if newest.state in ("planned", "staging", "staged", "validated"):
        return Health("loading", f"load {newest.load_id} is {newest.state}", "wait, or look at its run")
    if lag:
        return Health("behind", f"{lag} offsets not loaded yet", f"the next scheduled run loads them, or {run}")
    return Health("ok", "everything is loaded", "nothing to do")
