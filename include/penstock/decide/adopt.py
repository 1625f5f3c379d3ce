"""Adopt a log that differs from the log loaded so far: another topic, another cluster, or a truncated log.

Loaded rows stay as they are, in their generation. The loads continue in a new generation.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock import advice
from penstock.decide.accept_loss import lock_generation
from penstock.decide.find_truncation import Search, find_truncation
from penstock.errors import FencedError, WrongUseError
from penstock.kafka.admin import read_log
from penstock.ledger import generation as ledger_generation
from penstock.ledger.connection import open_ledger
from penstock.ledger.coverage import read_gaps
from penstock.ledger.decision import OutdatedAnswersError, autocommitting, decide_with_kafka
from penstock.ledger.event import record_pipeline_event, require_reason
from penstock.ledger.generation import find_generation, summarize_generation
from penstock.ledger.hold import end_hold
from penstock.ledger.load import end_open_loads
from penstock.load.log_check import find_rewritten, read_positions_with_epochs, read_settled_log
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
    """An earlier generation: the position and the number of covered offsets of each partition, and the gaps."""

    generation_id: int
    identity: Identity
    epoch: int
    positions: Mapping[int, int]
    covered: Mapping[int, int]
    gaps: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Adoption:
    """The consequences of an adoption. `known` is the generation of this topic, if the topic was loaded before."""

    pipeline: Pipeline
    pipeline_id: int
    old: Generation
    log: TopicLog
    known: Generation | None
    truncations: Mapping[int, int]
    positions: Mapping[int, int]

    @property
    def agreement(self) -> tuple[Identity, bool]:
        """The facts that a person agrees to: the identity of the topic, and whether it was loaded before."""
        return self.log.identity, self.known is not None

    @property
    def epoch(self) -> int:
        """The number of generations of this topic, with the new one."""
        return self.known.epoch + 1 if self.known else 1

    def origin(self, partition: int) -> int:
        """The offset from which gaps count. Offsets below it belong to the earlier generation."""
        if self.known and partition in self.known.positions:
            return self.positions[partition]
        return self.log.partitions[partition].start


@dataclass(frozen=True, slots=True)
class Adopted:
    """The new generation."""

    generation_id: int
    positions: Mapping[int, int]
    message: str


def preview_adoption(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, start: From | None) -> Adoption:
    """Find the consequences of an adoption. Nothing is changed."""
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
    """Open a new generation. It is refused if the topic differs from the topic in `shown`."""
    require_reason(who, why, pipeline=pipeline.name)
    with open_ledger(uri) as connection:

        def adopt_drafted(drafted: Adoption | None) -> Adopted:
            if drafted is None or not _is_current(connection, drafted):
                raise OutdatedAnswersError
            if shown and shown.agreement != drafted.agreement:
                raise FencedError(
                    "the log has changed since the preview; nothing is adopted.",
                    pipeline=pipeline.name,
                    next_step=advice.look_at_adoption_again(pipeline.name),
                )
            return _write(connection, drafted, who, why)

        return decide_with_kafka(
            connection, pipeline.name, lambda _: _draft(connection, kafka, pipeline, start), adopt_drafted
        )


def _draft(connection: Connection, kafka: Mapping[str, str], pipeline: Pipeline, start: From | None) -> Adoption:
    """Find the consequences of an adoption. The search for a truncation queries the table and Kafka in turns."""
    with autocommitting(connection):
        pipeline_id, newest = lock_generation(connection, pipeline)
        old = _read_generation(connection, pipeline, newest)
        log = read_log(kafka, pipeline.topic, pipeline.isolation)
        known = _find_known(connection, pipeline, pipeline_id, old, log.identity)
        if known is None:
            first = {n: part.end if start == "latest" else part.start for n, part in log.partitions.items()}
            return Adoption(pipeline, pipeline_id, old, log, None, {}, first)
        _refuse_start(pipeline, start)
        truncations = _find_truncations(connection, kafka, pipeline, known, same=known == old)
    positions = continue_from(known.positions, log.partitions, truncations)
    return Adoption(pipeline, pipeline_id, old, log, known, truncations, positions)


def _is_current(connection: Connection, drafted: Adoption) -> bool:
    """Whether the ledger, read under the lock, is in the state for which the adoption was drafted."""
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


def _find_truncations(
    connection: Connection, kafka: Mapping[str, str], pipeline: Pipeline, known: Generation, *, same: bool
) -> dict[int, int]:
    """Find where partitions were truncated: those that end below their position, and those that have grown past it.

    The log is read up to its last record, because an open transaction that holds the last stable offset back is not a
    truncation.
    """
    log = read_log(kafka, pipeline.topic, "read_uncommitted")
    log = read_settled_log(kafka, pipeline, known.positions, log, "read_uncommitted")
    shorter = [fault for fault in find_faults(known.positions, log.partitions) if fault.kind != "log_start_passed"]
    rewritten = find_rewritten(kafka, read_positions_with_epochs(connection, known.generation_id), log)
    if same and not shorter and not rewritten:
        raise WrongUseError(
            "there is nothing to adopt: the pipeline loads this topic already, and its log was not truncated.",
            pipeline=pipeline.name,
            next_step=advice.SEE_STATUS_OR_WAIT_FOR_TRANSACTION,
        )
    searched = {
        fault.partition: find_truncation(
            connection, kafka, Search(pipeline, known.generation_id, fault.partition, fault.log)
        )
        for fault in shorter
        if fault.log
    }  # fmt: skip
    return searched | {fault.partition: fault.truncated_at for fault in rewritten if fault.truncated_at is not None}


def _refuse_start(pipeline: Pipeline, start: From | None) -> None:
    if start is not None:
        raise WrongUseError(
            f"this topic was loaded before; its loads continue from their positions, not from the {start}.",
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
    end_hold(connection, drafted.pipeline_id, f"{who} adopted the log: {why}", who)
    message = f"{name}: generation {generation_id} is loaded from now on; the next run starts it."
    return Adopted(generation_id, drafted.positions, message)
