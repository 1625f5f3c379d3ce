"""Plan a backfill: read the ledger, query the log, choose ranges under the lock, and record them as loads."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock import advice
from penstock.backfill.choice import Choice, Known, choose_gaps, choose_spans, choose_spans_of_time, find_refusals
from penstock.backfill.request import AllGaps, ByOffsets, ByTime
from penstock.errors import FencedError, WrongUseError, name_few, name_ranges
from penstock.kafka.admin import find_first_offsets_at, read_log
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger.backfill import (
    create_backfill,
    find_backfill_of_run,
    read_backfill_loads,
    read_durations,
    read_planned,
)
from penstock.ledger.connection import open_ledger
from penstock.ledger.coverage import read_covered, read_dropped, read_gaps
from penstock.ledger.decision import OutdatedAnswersError, decide_with_kafka
from penstock.ledger.generation import read_newest_generation, read_positions
from penstock.ledger.load import create_load
from penstock.ledger.pipeline import register_pipeline
from penstock.load.log_check import make_log_error, read_settled_log
from penstock.model.plan import find_faults
from penstock.model.ranges import LoadRange, Range, cut_loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.backfill.request import Request, Span
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.generation import Generation
    from penstock.model.log import Identity, TopicLog


@dataclass(frozen=True, slots=True)
class Draft:
    """The ranges that a backfill would load, and the expected time."""

    pipeline: str
    generation_id: int
    choice: Choice
    loads: tuple[tuple[Range, ...], ...]
    seconds: float | None

    @property
    def offsets(self) -> int:
        """The number of offsets, which is also the largest possible number of records."""
        return sum(map(len, self.choice.ranges))


@dataclass(frozen=True, slots=True)
class Backfill:
    """A recorded backfill; `backfill_id` is None if there is nothing to load."""

    backfill_id: int | None
    load_ids: tuple[int, ...]
    message: str


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The pipeline in the ledger: its generation, positions, covered and planned ranges, and gaps."""

    generation_id: int
    identity: Identity
    positions: Mapping[int, int]
    covered: tuple[LoadRange, ...]
    planned: tuple[LoadRange, ...]
    gaps: tuple[Range, ...]
    origins: Mapping[int, int]
    dropped: tuple[LoadRange, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """Kafka's answers for a state of the ledger; `starts` and `ends` are the offsets of the requested times."""

    ledger: LedgerState
    log: TopicLog
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def known(self) -> Known:
        """The log and the ledger together."""
        state = self.ledger
        ranges = (state.covered, state.planned, state.gaps)
        return Known(self.log.partitions, state.positions, *ranges, state.origins, state.dropped)


def preview_backfill(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, request: Request) -> Draft:
    """Draft a backfill. Nothing is written."""
    with closing(open_ledger(uri)) as connection:

        def draft(answers: Answers | None) -> Draft:
            return _draft(connection, pipeline, register_pipeline(connection, pipeline), request, answers)

        return decide_with_kafka(connection, pipeline.name, partial(_query_kafka, kafka, pipeline, request), draft)


def plan_backfill(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, request: Request, run_id: str) -> Backfill:
    """Record the loads of a backfill, or find the backfill that this run has planned before."""
    with open_ledger(uri) as connection:
        return decide_with_kafka(
            connection,
            pipeline.name,
            partial(_query_kafka, kafka, pipeline, request),
            lambda answers: plan_backfill_in(connection, pipeline, request, run_id, answers),
        )


def plan_backfill_in(
    connection: Connection, pipeline: Pipeline, request: Request, run_id: str, answers: Answers | None
) -> Backfill:
    """Plan in the caller's transaction, which holds the pipeline's row from its first statement to its end."""
    pipeline_id = register_pipeline(connection, pipeline)
    found = find_backfill_of_run(connection, pipeline_id, run_id)
    if found is not None:
        return _describe_planned_before(connection, pipeline, found)
    drafted = _draft(connection, pipeline, pipeline_id, request, answers)
    if not drafted.loads:
        _refuse_planned(pipeline, drafted)
        return Backfill(None, (), f"{pipeline.name}: {describe_nothing(drafted)}")
    return _write(connection, pipeline, pipeline_id, request, run_id, drafted)


@dataclass(frozen=True, slots=True)
class PastLoad:
    """A published load: its number of offsets, and the seconds from its first attempt to its publish."""

    offsets: int
    seconds: float


def estimate_seconds(past: Sequence[PastLoad], loads: Sequence[int]) -> float | None:
    """Estimate the time of loads with these numbers of offsets, one after the other; None without a published load.

    The quickest load shows the fixed cost of any load. The rest of the time is shared out to the offsets.
    """
    if not past:
        return None
    fixed = min(load.seconds for load in past)
    rest = sum(load.seconds - fixed for load in past)
    return len(loads) * fixed + sum(loads) * rest / max(1, sum(load.offsets for load in past))


def describe_draft(drafted: Draft) -> list[str]:
    """Describe a draft, line by line."""
    time = "no earlier load to estimate the time from" if drafted.seconds is None else f"about {drafted.seconds:.0f} s"
    loads = _count_loads(drafted)
    summed = f"{loads}, at most {drafted.offsets:,} records, {time}"
    return [
        *name_few([f"would load {range_}" for range_ in drafted.choice.ranges]),
        *name_few([f"would replace {each.range}, published by load {each.load}" for each in drafted.choice.replaced]),
        *name_few([f"another backfill is about to load {_describe_planned(each)}" for each in drafted.choice.planned]),
        *name_few([f"the log no longer holds {range_}" for range_ in drafted.choice.deleted]),
        f"{drafted.pipeline}: {summed if drafted.loads else 'nothing to load'}; nothing was written.",
    ]


def describe_nothing(drafted: Draft) -> str:
    """Describe the reason why there is nothing to load."""
    deleted = name_ranges(drafted.choice.deleted)
    return f"nothing to load: the log no longer holds {deleted}." if deleted else "nothing to load."


def _refuse_planned(pipeline: Pipeline, drafted: Draft) -> None:
    """Refuse a backfill if other backfills have planned all gaps: until they run, the gaps stay."""
    planned = drafted.choice.planned
    if planned:
        raise FencedError(
            "unfinished backfills are about to load all gaps: " + name_ranges(list(map(_describe_planned, planned))),
            pipeline=pipeline.name,
            next_step=_resume(pipeline.name, planned),
        )


def _describe_planned(planned: LoadRange) -> str:
    return f"{planned.range} by load {planned.load} of backfill {planned.backfill}"


def _resume(pipeline: str, planned: Sequence[LoadRange]) -> str:
    backfills = {each.backfill for each in planned if each.backfill is not None}
    return advice.resume_backfills(pipeline, name_few(sorted(backfills)))


def _describe_planned_before(connection: Connection, pipeline: Pipeline, backfill_id: int) -> Backfill:
    loads = tuple(read_backfill_loads(connection, backfill_id))
    return Backfill(backfill_id, loads, f"{pipeline.name}: this run has planned backfill {backfill_id} before.")


def _query_kafka(kafka: Mapping[str, str], pipeline: Pipeline, request: Request, ledger: LedgerState) -> Answers:
    """Read the bounds of the log, and the offsets of the requested times."""
    log = read_log(kafka, pipeline.topic, pipeline.isolation)
    if log.identity != ledger.identity:
        return Answers(ledger, log, {}, {})
    log = read_settled_log(kafka, pipeline, ledger.positions, log)
    if not isinstance(request.selection, ByTime):
        return Answers(ledger, log, {}, {})
    starts = find_first_offsets_at(kafka, log, request.selection.since, pipeline.isolation)
    until = request.selection.until
    ends = find_first_offsets_at(kafka, log, until, pipeline.isolation) if until else {}
    return Answers(ledger, log, starts, ends)


def _draft(
    connection: Connection, pipeline: Pipeline, pipeline_id: int, request: Request, answers: Answers | None
) -> Draft:
    ledger = _read_ledger_state(connection, pipeline, pipeline_id)
    if answers is None or answers.ledger != ledger:
        raise OutdatedAnswersError(ledger)
    refuse_other_identity(pipeline, ledger.identity.cluster_id, ledger.identity.topic_id, answers.log)
    _refuse_truncated(pipeline, answers.known)
    choice = _choose(pipeline, request, answers)
    _refuse_too_many(pipeline, request, choice)
    loads = tuple(cut_loads(list(choice.ranges), _offsets_per_load(pipeline, request)))
    past = [PastLoad(each.offsets, each.seconds) for each in read_durations(connection, pipeline_id)]
    seconds = estimate_seconds(past, [sum(map(len, ranges)) for ranges in loads])
    return Draft(pipeline.name, ledger.generation_id, choice, loads, seconds)


def _refuse_truncated(pipeline: Pipeline, known: Known) -> None:
    """A truncated log may hold other records now, also below the positions."""
    truncated = [fault for fault in find_faults(known.positions, known.log) if fault.kind != "log_start_passed"]
    if truncated:
        raise make_log_error(pipeline, truncated)


def _refuse_too_many(pipeline: Pipeline, request: Request, choice: Choice) -> None:
    offsets = sum(map(len, choice.ranges))
    loads = -(-offsets // _offsets_per_load(pipeline, request))
    if request.most_loads is not None and loads > request.most_loads:
        raise WrongUseError(
            f"the backfill would be {loads:,} loads, and Airflow maps at most {request.most_loads:,} tasks "
            "(its setting core.max_map_length); nothing is started.",
            pipeline=pipeline.name,
            next_step=advice.raise_records_per_load(-(-offsets // request.most_loads)),
        )


def _offsets_per_load(pipeline: Pipeline, request: Request) -> int:
    return request.offsets_per_load or pipeline.max_records_per_partition


def require_generation(connection: Connection, pipeline: Pipeline, pipeline_id: int | None) -> Generation:
    """Read the generation that is loaded now; a pipeline without a load has nothing to load again."""
    generation = None if pipeline_id is None else read_newest_generation(connection, pipeline_id)
    if generation is None:
        raise WrongUseError(
            "the pipeline has loaded nothing yet: a backfill loads offsets below the positions.",
            pipeline=pipeline.name,
            next_step=advice.run_pipeline(pipeline.name),
        )
    return generation


def _read_ledger_state(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> LedgerState:
    generation = require_generation(connection, pipeline, pipeline_id)
    generation_id = generation.generation_id
    positions = read_positions(connection, generation_id)
    return LedgerState(
        generation_id,
        generation.identity,
        positions={each.partition: each.position for each in positions},
        covered=tuple(read_covered(connection, pipeline_id, generation_id)),
        planned=tuple(read_planned(connection, pipeline_id, generation_id)),
        gaps=tuple(read_gaps(connection, pipeline.name, generation_id)),
        origins={each.partition: each.origin for each in positions},
        dropped=tuple(read_dropped(connection, pipeline_id, generation_id)),
    )


def _choose(pipeline: Pipeline, request: Request, answers: Answers) -> Choice:
    known = answers.known
    if isinstance(request.selection, AllGaps):
        return choose_gaps(known)
    spans: Sequence[Span]
    if isinstance(request.selection, ByOffsets):
        spans = request.selection.spans
    else:
        spans = choose_spans_of_time(answers.starts, answers.ends, known)
    return choose_allowed(pipeline, spans, known, replacing=request.replace)


def choose_allowed(pipeline: Pipeline, spans: Sequence[Span], known: Known, *, replacing: bool) -> Choice:
    """Choose spans; a WrongUseError names all reasons to refuse them."""
    refusals = find_refusals(spans, known, replace=replacing)
    if refusals:
        raise WrongUseError(
            f"refused, and nothing is started: {name_ranges(refusals)}.",
            pipeline=pipeline.name,
            next_step=advice.CHOOSE_OTHER_OFFSETS,
        )
    return choose_spans(spans, known, replace=replacing)


def _write(
    connection: Connection, pipeline: Pipeline, pipeline_id: int, request: Request, run_id: str, drafted: Draft
) -> Backfill:
    backfill_id = create_backfill(
        connection,
        pipeline_id,
        run_id,
        asked=str(request.selection),
        replace=request.replace,
        offsets_per_load=_offsets_per_load(pipeline, request),
        actor=request.actor,
    )
    load_ids = tuple(
        create_load(
            connection,
            pipeline_id,
            drafted.generation_id,
            pipeline,
            f"{run_id}/{number}",
            ranges,
            kind="replay" if request.replace else "backfill",
            backfill_id=backfill_id,
        ).load_id
        for number, ranges in enumerate(drafted.loads, start=1)
    )
    message = f"{pipeline.name}: backfill {backfill_id} planned, {_count_loads(drafted)}, {drafted.offsets} offsets."
    return Backfill(backfill_id, load_ids, message)


def _count_loads(draft: Draft) -> str:
    return "1 load" if len(draft.loads) == 1 else f"{len(draft.loads)} loads"
