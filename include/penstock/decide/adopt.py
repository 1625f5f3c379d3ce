"""Adopting a log that is not the one that was loaded so far: another topic, another cluster, or a log that was cut.

What was loaded stays as it is, under the generation that it was loaded in. The loads go on in a new one.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock import advice
from penstock.decide.accept_loss import lock_generation
from penstock.decide.find_truncation import Search, find_cut
from penstock.errors import FencedError, WrongUseError
from penstock.kafka.admin import read_log
from penstock.ledger import generation as ledger_generation
from penstock.ledger.connection import open_ledger
from penstock.ledger.coverage import read_gaps
from penstock.ledger.decision import UnansweredError, ask_first, reading_alone
from penstock.ledger.event import record_pipeline_event, require_reason
from penstock.ledger.generation import find_generation, summarize_generation
from penstock.ledger.hold import end_hold
from penstock.ledger.load import end_open_loads
from penstock.load.log_fit import find_rewritten, read_positions_with_epochs, read_settled_log
from penstock.load.plan import write_positions
from penstock.model.plan import continue_from, find_faults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.log import Identity, TopicLog
    from penstock.model.ranges import Range

From = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class Generation:
    """What was loaded before: where each partition stands, how many of its offsets are covered, and what is missing."""

    generation_id: int
    identity: Identity
    epoch: int
    positions: Mapping[int, int]
    covered: Mapping[int, int]
    gaps: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Adoption:
    """What an adoption means. `known` is set if this very topic was loaded before; then the loads go on in it."""

    pipeline: Pipeline
    pipeline_id: int
    old: Generation
    log: TopicLog
    known: Generation | None
    cuts: Mapping[int, int]
    positions: Mapping[int, int]

    @property
    def what(self) -> tuple[Identity, bool]:
        """What a person agrees to: which topic it is, and whether it is gone on with."""
        return self.log.identity, self.known is not None

    @property
    def epoch(self) -> int:
        """How often this very topic will have been adopted."""
        return self.known.epoch + 1 if self.known else 1

    def origin(self, partition: int) -> int:
        """From where gaps count: what lies below was loaded, or missed, in the generation before."""
        if self.known and partition in self.known.positions:
            return self.positions[partition]
        return self.log.partitions[partition].start


@dataclass(frozen=True, slots=True)
class Adopted:
    """The generation that is loaded from now on."""

    generation_id: int
    positions: Mapping[int, int]
    told: str


def preview_adoption(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, start: From | None) -> Adoption:
    """Say what an adoption would mean. Nothing is changed."""
    with closing(open_ledger(uri)) as connection:
        return _draft(connection, kafka, pipeline, start)


def adopt(
    uri: str,
    kafka: Mapping[str, str],
    pipeline: Pipeline,
    start: From | None,
    who: str,
    why: str,
    shown: Adoption | None = None,
) -> Adopted:
    """Open a new generation; one that is not what was shown is refused."""
    require_reason(who, why, pipeline=pipeline.name)
    with open_ledger(uri) as connection:

        def adopt_drafted(drafted: Adoption | None) -> Adopted:
            if drafted is None or not _still_stands(connection, drafted):
                raise UnansweredError
            if shown and shown.what != drafted.what:
                raise FencedError(
                    "the log has changed since it was shown; nothing is adopted.",
                    pipeline=pipeline.name,
                    next_step=advice.look_at_adoption_again(pipeline.name),
                )
            return _write(connection, drafted, who, why)

        return ask_first(connection, pipeline.name, lambda _: _draft(connection, kafka, pipeline, start), adopt_drafted)


def _draft(connection: Connection, kafka: Mapping[str, str], pipeline: Pipeline, start: From | None) -> Adoption:
    """Find out what an adoption would mean. The search for a cut asks the table and Kafka by turns."""
    with reading_alone(connection):
        pipeline_id, newest = lock_generation(connection, pipeline)
        old = _read_generation(connection, pipeline, newest)
        log = read_log(kafka, pipeline.topic, pipeline.isolation)
        known = _find_known(connection, pipeline, pipeline_id, old, log.identity)
        if known is None:
            first = {n: part.end if start == "latest" else part.start for n, part in log.partitions.items()}
            return Adoption(pipeline, pipeline_id, old, log, None, {}, first)
        _refuse_start(pipeline, start)
        cuts = _find_cuts(connection, kafka, pipeline, known, same=known == old)
    return Adoption(pipeline, pipeline_id, old, log, known, cuts, continue_from(known.positions, log.partitions, cuts))


def _still_stands(connection: Connection, drafted: Adoption) -> bool:
    """Whether the ledger says, behind the lock, what it said when the adoption was drafted."""
    pipeline = drafted.pipeline
    pipeline_id, newest = lock_generation(connection, pipeline)
    old = _read_generation(connection, pipeline, newest)
    known = _find_known(connection, pipeline, pipeline_id, old, drafted.log.identity)
    return (pipeline_id, old, known) == (drafted.pipeline_id, drafted.old, drafted.known)


def _find_known(
    connection: Connection, pipeline: Pipeline, pipeline_id: int, old: Generation, identity: Identity
) -> Generation | None:
    found = find_generation(connection, pipeline_id, identity)
    if found is None:
        return None
    return old if found.generation_id == old.generation_id else _read_generation(connection, pipeline, found)


def _find_cuts(
    connection: Connection, kafka: Mapping[str, str], pipeline: Pipeline, known: Generation, *, same: bool
) -> dict[int, int]:
    """Where partitions were cut that end below their position, or that have grown past it since.

    Asked for the end of all records: an open transaction that holds the last stable offset back has cut nothing.
    """
    log = read_log(kafka, pipeline.topic, "read_uncommitted")
    log = read_settled_log(kafka, pipeline, known.positions, log, "read_uncommitted")
    cut = [fault for fault in find_faults(known.positions, log.partitions) if fault.kind != "log_start_passed"]
    rewritten = find_rewritten(kafka, read_positions_with_epochs(connection, known.generation_id), log)
    if same and not cut and not rewritten:
        raise WrongUseError(
            "there is nothing to adopt: the topic is the one that is loaded, and its log was not cut.",
            pipeline=pipeline.name,
            next_step=advice.SEE_STATUS_OR_WAIT_FOR_TRANSACTION,
        )
    searched = {
        fault.partition: find_cut(
            connection, kafka, Search(pipeline, known.generation_id, fault.partition, fault.log)
        )
        for fault in cut
        if fault.log
    }  # fmt: skip
    return searched | {fault.partition: fault.truncated_at for fault in rewritten if fault.truncated_at is not None}


def _refuse_start(pipeline: Pipeline, start: From | None) -> None:
    if start is not None:
        raise WrongUseError(
            f"this very topic was loaded before, and is gone on with from there, not from the {start}.",
            pipeline=pipeline.name,
            next_step=advice.ADOPT_WITHOUT_FROM,
        )


def _read_generation(connection: Connection, pipeline: Pipeline, found: ledger_generation.Generation) -> Generation:
    partitions = summarize_generation(connection, found.generation_id)
    return Generation(
        found.generation_id,
        found.identity,
        found.epoch,
        {each.partition: each.position for each in partitions},
        {each.partition: each.covered for each in partitions},
        tuple(read_gaps(connection, pipeline.name, found.generation_id)),
    )


def _write(connection: Connection, drafted: Adoption, who: str, why: str) -> Adopted:
    name = drafted.pipeline.name
    end_open_loads(connection, drafted.pipeline_id, who, f"{who} adopted another log: {why}")
    generation_id = ledger_generation.open_generation(
        connection, drafted.pipeline_id, drafted.log.identity, drafted.epoch
    )
    origins = {partition: drafted.origin(partition) for partition in drafted.positions}
    write_positions(connection, generation_id, drafted.log, drafted.positions, origins)
    record_pipeline_event(connection, who, drafted.pipeline_id, f"adopted generation {generation_id}", why)
    end_hold(connection, drafted.pipeline_id, f"{who} adopted the log: {why}")
    told = f"{name}: generation {generation_id} is loaded from now on; the next run starts it."
    return Adopted(generation_id, drafted.positions, told)
