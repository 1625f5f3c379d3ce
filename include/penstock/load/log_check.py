"""Compare the log of a pipeline with its positions, date the losses that are found, and record them.

The functions here query Kafka while no transaction is open; `ledger/decision.py` explains why. `plan.py` decides from
the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError, LogLostError, LogTruncatedError, name_ranges
from penstock.kafka.admin import describe_held_back, find_offsets_at, read_log
from penstock.kafka.first_records import read_first_timestamps
from penstock.kafka.leader_epochs import find_truncations
from penstock.ledger.generation import find_last_load, read_newest_generation, read_positions
from penstock.ledger.loss import LostRange, move_positions_over_losses, read_last_timestamp, record_lost_ranges
from penstock.model.plan import Fault, Plan, find_faults, find_new_leaders, open_positions, plan_ranges
from penstock.target.postgres.table import read_columns, target_identifier
from penstock.waiting import attempts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.log import Identity, Isolation, TopicLog
    from penstock.model.ranges import Range

# For some seconds a broker that has just become leader may report an earlier end.
SETTLE_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class LedgerState:
    """A pipeline in the ledger: the generation that it loads, and each position with the epoch of its leader."""

    generation_id: int | None
    identity: Identity | None
    positions: Mapping[int, tuple[int, int | None]]

    @property
    def offsets(self) -> dict[int, int]:
        """The positions without the epochs."""
        return {partition: position for partition, (position, _) in self.positions.items()}


@dataclass(frozen=True, slots=True)
class Answers:
    """Kafka's answers for a state of the ledger. If the topic is another one, only its log is read."""

    ledger: LedgerState
    log: TopicLog
    opened: Mapping[int, int] = field(default_factory=dict)  # first positions of partitions without a position
    plan: Plan = field(default=Plan((), ()))
    faults: tuple[Fault, ...] = ()
    first_times: Mapping[int, int] = field(default_factory=dict)  # ms, of the first records after a loss
    held_back: str = ""
    asked_at: datetime | None = None  # before the log was read

    def find_loaded(self) -> list[int]:
        """The partitions whose log ends where the plan ends: the log had no other record when Kafka was asked."""
        planned = {range_.partition: range_.until_offset for range_ in self.plan.ranges}
        until = {**self.ledger.offsets, **self.opened, **planned}
        return [
            number
            for number, log in self.log.partitions.items()
            if until.get(number) == log.end and log.high is not None and log.high <= log.end
        ]


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost offsets; `after` and `before` are the times of the last record published and of the first one left."""

    fault: Fault
    after: datetime | None
    before: datetime | None

    @property
    def range(self) -> Range:
        """The lost offsets."""
        return self.fault.lost

    def __str__(self) -> str:
        known = [
            f"{word} {moment.isoformat(timespec='milliseconds')} ({record})"
            for word, moment, record in (
                ("after", self.after, "the last record published"),
                ("before", self.before, "the first record left"),
            )
            if moment
        ]
        return f"{self.fault}{'; they are from ' * bool(known)}{' and '.join(known)}"


def read_ledger_state(connection: Connection, pipeline_id: int) -> LedgerState:
    """Read the newest generation and its positions."""
    newest = read_newest_generation(connection, pipeline_id)
    if newest is None:
        return LedgerState(None, None, {})
    positions = read_positions_with_epochs(connection, newest.generation_id)
    return LedgerState(newest.generation_id, newest.identity, positions)


def read_positions_with_epochs(connection: Connection, generation_id: int) -> dict[int, tuple[int, int | None]]:
    """The positions of a generation, each with the epoch of the leader that reported the end of the log."""
    positions = read_positions(connection, generation_id)
    return {each.partition: (each.position, each.leader_epoch) for each in positions}


def query_for_plan(kafka: Mapping[str, str], pipeline: Pipeline, ledger: LedgerState) -> Answers:
    """Query Kafka for everything that a plan needs."""
    asked_at = datetime.now(UTC)
    log = read_log(kafka, pipeline.topic, pipeline.isolation)
    if ledger.identity not in (None, log.identity):
        return Answers(ledger, log)
    known = ledger.offsets
    opened = open_positions(known, log.partitions, {} if known else find_first_positions(kafka, pipeline, log))
    positions = known | opened
    log = read_settled_log(kafka, pipeline, positions, log)
    plan = plan_ranges(positions, log.partitions, pipeline.max_records_per_partition, pipeline.on_loss)
    faults = plan.faults or find_rewritten(kafka, ledger.positions, log)
    return Answers(
        ledger,
        log,
        opened,
        plan,
        faults,
        read_first_times(kafka, pipeline, faults or plan.losses),
        "" if plan.ranges or faults else describe_held_back(kafka, log, pipeline.isolation),
        asked_at,
    )


def query_for_losses(kafka: Mapping[str, str], pipeline: Pipeline, ledger: LedgerState) -> Answers:
    """Query Kafka for the offsets that the log has lost; the pipeline's `on_loss` does not matter here."""
    log = read_log(kafka, pipeline.topic, pipeline.isolation)
    if ledger.identity != log.identity:
        return Answers(ledger, log)
    log = read_settled_log(kafka, pipeline, ledger.offsets, log)
    faults = find_faults(ledger.offsets, log.partitions)
    return Answers(ledger, log, faults=faults, first_times=read_first_times(kafka, pipeline, faults))


def find_first_positions(kafka: Mapping[str, str], pipeline: Pipeline, log: TopicLog) -> dict[int, int]:
    """The first positions of a pipeline that has loaded nothing yet, by its `start`."""
    if pipeline.start == "earliest":
        return {number: partition.start for number, partition in log.partitions.items()}
    if pipeline.start == "latest":
        return {number: partition.end for number, partition in log.partitions.items()}
    return find_offsets_at(kafka, log, pipeline.start, pipeline.isolation)


def read_settled_log(
    kafka: Mapping[str, str],
    pipeline: Pipeline,
    positions: Mapping[int, int],
    log: TopicLog,
    isolation: Isolation | None = None,
) -> TopicLog:
    """Read the log again, after growing pauses, while an end is below its position."""
    for attempt in attempts(seconds=SETTLE_SECONDS, every=0.1, growth=2):
        if attempt > 0:
            log = read_log(kafka, pipeline.topic, isolation or pipeline.isolation)
        if not any(fault.kind == "beyond_end" for fault in find_faults(positions, log.partitions)):
            break
    return log


def find_rewritten(
    kafka: Mapping[str, str], positions: Mapping[int, tuple[int, int | None]], log: TopicLog
) -> tuple[Fault, ...]:
    """Find the partitions whose log was truncated below the position and has grown past the position again."""
    truncations = find_truncations(kafka, log.topic, find_new_leaders(positions, log.partitions))
    return tuple(
        Fault("rewritten", number, positions[number][0], log.partitions[number], offset)
        for number, offset in sorted(truncations.items())
    )


def read_first_times(kafka: Mapping[str, str], pipeline: Pipeline, faults: Sequence[Fault]) -> dict[int, int]:
    """Read the time (ms) of the first record of each partition whose log start passed the position."""
    starts = {fault.partition: fault.lost.until_offset for fault in faults if fault.kind == "log_start_passed"}
    return read_first_timestamps(kafka, pipeline.topic, starts, pipeline.isolation)


def date_losses(
    connection: Connection,
    pipeline: Pipeline,
    generation_id: int,
    faults: Sequence[Fault],
    first_times: Mapping[int, int],
) -> list[Loss]:
    """Add to each loss the times between which its records were written; `first_times` is of `read_first_times`."""
    return [
        Loss(
            fault,
            _read_last_published(connection, pipeline, generation_id, fault.partition),
            _read_time(first_times, fault),
        )
        for fault in faults
        if fault.kind == "log_start_passed"
    ]


def _read_last_published(
    connection: Connection, pipeline: Pipeline, generation_id: int, partition: int
) -> datetime | None:
    """The time of the last record before a position, if a load published one and the table still holds it."""
    load_id = find_last_load(connection, generation_id, partition)
    if load_id is None or "_timestamp" not in read_columns(connection, pipeline.target):
        return None
    return read_last_timestamp(connection, target_identifier(pipeline.target), load_id, partition)


def _read_time(first_times: Mapping[int, int], fault: Fault) -> datetime | None:
    milliseconds = first_times.get(fault.partition)
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def record_losses(
    connection: Connection, pipeline_id: int, generation_id: int, losses: Sequence[Loss], actor: str, why: str
) -> None:
    """Move the positions from the start of each loss to its end, and record the losses."""
    moved = move_positions_over_losses(connection, generation_id, [loss.range for loss in losses])
    for loss in losses:
        if loss.range not in moved:
            raise FencedError(
                "the position moved while a loss was being recorded; nothing is recorded.",
                ranges=[loss.range],
                next_step=advice.SEE_STATUS_THEN_RETRY,
            )
    lost = [LostRange(loss.range, str(loss)) for loss in losses]
    record_lost_ranges(connection, pipeline_id, generation_id, lost, actor, why)


def make_log_error(pipeline: Pipeline, faults: Sequence[Fault], losses: Sequence[Loss] = ()) -> LogLostError:
    """Make the error that names the fault of each partition. A loss with known times replaces its fault."""
    dated: dict[int, Loss] = {loss.range.partition: loss for loss in losses}
    named = name_ranges([dated.get(fault.partition, fault) for fault in faults])
    kind = LogLostError if all(fault.kind == "log_start_passed" for fault in faults) else LogTruncatedError
    return kind(
        f"the log and the positions do not fit: {named}. Nothing is loaded.",
        pipeline=pipeline.name,
        ranges=[fault.lost for fault in faults if len(fault.lost)],
        next_step=advice.resolve_hold(kind.hold, pipeline.name),
    )
