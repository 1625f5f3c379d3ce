"""Planning a backfill: read the ledger, ask the log, choose behind the lock, cut into loads, and write them down."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock import advice
from penstock.backfill.choice import Choice, Known, choose_gaps, choose_spans, find_refusals, spans_of_time
from penstock.backfill.estimate import Past, estimate_seconds
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
from penstock.ledger.coverage import read_covered, read_gaps
from penstock.ledger.decision import UnansweredError, ask_first
from penstock.ledger.generation import read_newest_generation, read_positions
from penstock.ledger.load import create_load
from penstock.ledger.pipeline import register_pipeline
from penstock.load.log_fit import describe_faults, read_settled_log
from penstock.model.plan import find_faults
from penstock.model.ranges import Held, Range, cut_loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.backfill.request import Asked, Span
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.log import Identity, TopicLog


@dataclass(frozen=True, slots=True)
class Draft:
    """What a backfill would load, and how long that may take."""

    pipeline: str
    generation_id: int
    choice: Choice
    loads: tuple[tuple[Range, ...], ...]
    seconds: float | None

    @property
    def offsets(self) -> int:
        """How many offsets; as many records at most."""
        return sum(map(len, self.choice.ranges))


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill that is written down; `backfill_id` is None if there is nothing to load."""

    backfill_id: int | None
    load_ids: tuple[int, ...]
    told: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The ledger's side of a backfill: the pipeline whose gaps or rows are asked for."""

    generation_id: int
    identity: Identity
    positions: Mapping[int, int]
    covered: tuple[Held, ...]
    planned: tuple[Held, ...]
    gaps: tuple[Range, ...]
    origins: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Answers:
    """Kafka's answers about a standing; `starts` and `ends` are offsets of the times that were asked for."""

    standing: Standing
    log: TopicLog
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def known(self) -> Known:
        """The log and the ledger together."""
        at = self.standing
        return Known(self.log.partitions, at.positions, at.covered, at.planned, at.gaps, at.origins)


def preview_backfill(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, asked: Asked) -> Draft:
    """Say what a backfill would load. Nothing is written."""
    with closing(open_ledger(uri)) as connection:

        def draft(answers: Answers | None) -> Draft:
            return _draft(connection, pipeline, register_pipeline(connection, pipeline), asked, answers)

        return ask_first(connection, pipeline.name, partial(_ask, kafka, pipeline, asked), draft)


def plan_backfill(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, asked: Asked, run_id: str) -> Backfill:
    """Write down the loads of a backfill, or find those that this run has planned before."""
    with open_ledger(uri) as connection:
        return ask_first(
            connection,
            pipeline.name,
            partial(_ask, kafka, pipeline, asked),
            lambda answers: plan_backfill_in(connection, pipeline, asked, run_id, answers),
        )


def plan_backfill_in(
    connection: Connection, pipeline: Pipeline, asked: Asked, run_id: str, answers: Answers | None
) -> Backfill:
    """Plan in the caller's transaction, which holds the pipeline's row from its first statement to its end."""
    pipeline_id = register_pipeline(connection, pipeline)
    found = find_backfill_of_run(connection, pipeline_id, run_id)
    if found is not None:
        return _find_again(connection, pipeline, found)
    drafted = _draft(connection, pipeline, pipeline_id, asked, answers)
    if not drafted.loads:
        _refuse_planned(pipeline, drafted)
        return Backfill(None, (), f"{pipeline.name}: {describe_nothing(drafted)}")
    return _write(connection, pipeline, pipeline_id, asked, run_id, drafted)


def describe_draft(drafted: Draft) -> list[str]:
    """Say what would be loaded, line by line."""
    time = "no load before it tells how long" if drafted.seconds is None else f"about {drafted.seconds:.0f} s"
    loads = "1 load" if len(drafted.loads) == 1 else f"{len(drafted.loads)} loads"
    summed = f"{loads}, at most {drafted.offsets:,} records, {time}"
    return [
        *name_few([f"would load {range_}" for range_ in drafted.choice.ranges]),
        *name_few([f"would replace {held.range}, which load {held.load} brought" for held in drafted.choice.replaced]),
        *name_few([f"another backfill is about to load {_describe_planned(held)}" for held in drafted.choice.planned]),
        *name_few([f"the log no longer holds {gone}" for gone in drafted.choice.gone]),
        f"{drafted.pipeline}: {summed if drafted.loads else 'nothing to load'}; nothing was written.",
    ]


def describe_nothing(drafted: Draft) -> str:
    """Say why there is nothing to load."""
    gone = name_ranges(drafted.choice.gone)
    return f"nothing to load: the log no longer holds {gone}." if gone else "nothing to load."


def _refuse_planned(pipeline: Pipeline, drafted: Draft) -> None:
    """All that is left belongs to other backfills: if nobody runs them, they would keep it from being loaded."""
    planned = drafted.choice.planned
    if planned:
        raise FencedError(
            "unfinished backfills are about to load all that is left: "
            + name_ranges(list(map(_describe_planned, planned))),
            pipeline=pipeline.name,
            next_step=_resume(pipeline.name, planned),
        )


def _describe_planned(held: Held) -> str:
    return f"{held.range} by load {held.load} of backfill {held.backfill}"


def _resume(pipeline: str, planned: Sequence[Held]) -> str:
    backfills = {held.backfill for held in planned if held.backfill is not None}
    return advice.resume_backfills(pipeline, name_few(sorted(backfills)))


def _find_again(connection: Connection, pipeline: Pipeline, backfill_id: int) -> Backfill:
    loads = tuple(read_backfill_loads(connection, backfill_id))
    return Backfill(backfill_id, loads, f"{pipeline.name}: this run has planned backfill {backfill_id} before.")


def _ask(kafka: Mapping[str, str], pipeline: Pipeline, asked: Asked, standing: Standing) -> Answers:
    """Ask what the log holds, and where the times lie in it."""
    log = read_log(kafka, pipeline.topic, pipeline.isolation)
    if log.identity != standing.identity:
        return Answers(standing, log, {}, {})
    log = read_settled_log(kafka, pipeline, standing.positions, log)
    if not isinstance(asked.what, ByTime):
        return Answers(standing, log, {}, {})
    starts = find_first_offsets_at(kafka, log, asked.what.since, pipeline.isolation)
    until = asked.what.until
    ends = find_first_offsets_at(kafka, log, until, pipeline.isolation) if until else {}
    return Answers(standing, log, starts, ends)


def _draft(
    connection: Connection, pipeline: Pipeline, pipeline_id: int, asked: Asked, answers: Answers | None
) -> Draft:
    standing = _read_standing(connection, pipeline, pipeline_id)
    if answers is None or answers.standing != standing:
        raise UnansweredError(standing)
    refuse_other_identity(pipeline, standing.identity.cluster_id, standing.identity.topic_id, answers.log)
    _refuse_cut(pipeline, answers.known)
    choice = _choose(pipeline, asked, answers)
    loads = tuple(cut_loads(list(choice.ranges), _offsets_per_load(pipeline, asked)))
    past = [Past(each.offsets, each.seconds) for each in read_durations(connection, pipeline_id)]
    seconds = estimate_seconds(past, [sum(map(len, ranges)) for ranges in loads])
    return Draft(pipeline.name, standing.generation_id, choice, loads, seconds)


def _refuse_cut(pipeline: Pipeline, known: Known) -> None:
    """A log that was cut may hold other records now, below the positions too."""
    cut = [fault for fault in find_faults(known.positions, known.log) if fault.kind != "log_start_passed"]
    if cut:
        raise describe_faults(pipeline, cut)


def _offsets_per_load(pipeline: Pipeline, asked: Asked) -> int:
    return asked.offsets_per_load or pipeline.max_records_per_partition


def _read_standing(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> Standing:
    generation = read_newest_generation(connection, pipeline_id)
    if generation is None:
        raise WrongUseError(
            "the pipeline has loaded nothing yet: a backfill is for what lies below its positions.",
            pipeline=pipeline.name,
            next_step=advice.run_pipeline(pipeline.name),
        )
    generation_id = generation.generation_id
    positions = read_positions(connection, generation_id)
    return Standing(
        generation_id,
        generation.identity,
        positions={each.partition: each.position for each in positions},
        covered=tuple(read_covered(connection, pipeline_id, generation_id)),
        planned=tuple(read_planned(connection, pipeline_id, generation_id)),
        gaps=tuple(read_gaps(connection, pipeline.name, generation_id)),
        origins={each.partition: each.origin for each in positions},
    )


def _choose(pipeline: Pipeline, asked: Asked, answers: Answers) -> Choice:
    known = answers.known
    if isinstance(asked.what, AllGaps):
        return choose_gaps(known)
    spans: Sequence[Span]
    if isinstance(asked.what, ByOffsets):
        spans = asked.what.spans
    else:
        spans = spans_of_time(answers.starts, answers.ends, known)
    refusals = find_refusals(spans, known, replace=asked.replace)
    if refusals:
        raise WrongUseError(
            f"refused, and nothing is started: {name_ranges(refusals)}.",
            pipeline=pipeline.name,
            next_step=advice.CHOOSE_OTHER_OFFSETS,
        )
    return choose_spans(spans, known, replace=asked.replace)


def _write(
    connection: Connection, pipeline: Pipeline, pipeline_id: int, asked: Asked, run_id: str, drafted: Draft
) -> Backfill:
    backfill_id = create_backfill(
        connection,
        pipeline_id,
        run_id,
        asked=str(asked.what),
        replace=asked.replace,
        offsets_per_load=_offsets_per_load(pipeline, asked),
        actor=asked.actor,
    )
    load_ids = tuple(
        create_load(
            connection,
            pipeline_id,
            drafted.generation_id,
            pipeline,
            f"{run_id}/{number}",
            ranges,
            kind="replay" if asked.replace else "backfill",
            backfill_id=backfill_id,
        ).load_id
        for number, ranges in enumerate(drafted.loads, start=1)
    )
    told = f"{pipeline.name}: backfill {backfill_id} planned, {len(load_ids)} loads, {drafted.offsets} offsets."
    return Backfill(backfill_id, load_ids, told)
