"""Whether the log fits the positions, as far as Kafka has to be asked; `plan.py` decides what it can without.

Kafka is asked here while no transaction is open: `deciding.py` says how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import LogCutError, LogLostError, name_ranges
from penstock.kafka.admin import describe_held_back, find_offsets_at, read_log
from penstock.kafka.leader_epochs import find_truncations
from penstock.ledger.generation import read_newest_generation, read_positions
from penstock.load.loss import read_left
from penstock.model.plan import Fault, Plan, find_faults, find_new_leaders, open_positions, plan_ranges
from penstock.waiting import attempts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.load.loss import Loss
    from penstock.model.log import Identity, Isolation, TopicLog

# For some seconds a broker that has just become leader may report an end from before.
SETTLE_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Standing:
    """The ledger's side of a pipeline: the topic that it loads, and each position with its leader's epoch."""

    generation_id: int | None
    identity: Identity | None
    positions: Mapping[int, tuple[int, int | None]]

    @property
    def offsets(self) -> dict[int, int]:
        """The positions alone."""
        return {partition: position for partition, (position, _) in self.positions.items()}


@dataclass(frozen=True, slots=True)
class Answers:
    """Kafka's answers about a standing. Of another topic than the standing's only the log is asked for."""

    standing: Standing
    log: TopicLog
    opened: Mapping[int, int] = field(default_factory=dict)  # first positions of partitions that have none
    plan: Plan = field(default=Plan((), ()))
    faults: tuple[Fault, ...] = ()
    left: Mapping[int, int] = field(default_factory=dict)  # when the first records after a loss were written
    held_back: str = ""


def read_standing(connection: Connection, pipeline_id: int) -> Standing:
    """Read what the ledger says now."""
    newest = read_newest_generation(connection, pipeline_id)
    if newest is None:
        return Standing(None, None, {})
    positions = read_positions_with_epochs(connection, newest.generation_id)
    return Standing(newest.generation_id, newest.identity, positions)


def read_positions_with_epochs(connection: Connection, generation_id: int) -> dict[int, tuple[int, int | None]]:
    """The positions of a generation, each with the epoch of the leader that told where the log ends."""
    positions = read_positions(connection, generation_id)
    return {each.partition: (each.position, each.leader_epoch) for each in positions}


def ask_for_plan(kafka: Mapping[str, str], pipeline: Pipeline, standing: Standing) -> Answers:
    """Ask all that a plan needs."""
    log = read_log(kafka, pipeline.topic, pipeline.isolation)
    if standing.identity not in (None, log.identity):
        return Answers(standing, log)
    known = standing.offsets
    opened = open_positions(known, log.partitions, {} if known else first_offsets(kafka, pipeline, log))
    positions = known | opened
    log = read_settled_log(kafka, pipeline, positions, log)
    plan = plan_ranges(positions, log.partitions, pipeline.max_records_per_partition, pipeline.on_loss)
    faults = plan.faults or find_rewritten(kafka, standing.positions, log)
    return Answers(
        standing,
        log,
        opened,
        plan,
        faults,
        read_left(kafka, pipeline, faults or plan.losses),
        "" if plan.ranges or faults else describe_held_back(kafka, log, pipeline.isolation),
    )


def ask_for_losses(kafka: Mapping[str, str], pipeline: Pipeline, standing: Standing) -> Answers:
    """Ask what the log has lost, whatever the declaration says of losses."""
    log = read_log(kafka, pipeline.topic, pipeline.isolation)
    if standing.identity != log.identity:
        return Answers(standing, log)
    log = read_settled_log(kafka, pipeline, standing.offsets, log)
    faults = find_faults(standing.offsets, log.partitions)
    return Answers(standing, log, faults=faults, left=read_left(kafka, pipeline, faults))


def first_offsets(kafka: Mapping[str, str], pipeline: Pipeline, log: TopicLog) -> dict[int, int]:
    """Where a pipeline that has loaded nothing yet begins, by its `start`."""
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
    """Read the log again, after growing pauses, while an end seems to be below a position."""
    for attempt in attempts(seconds=SETTLE_SECONDS, every=0.1, growth=2):
        if attempt > 0:
            log = read_log(kafka, pipeline.topic, isolation or pipeline.isolation)
        if not any(fault.kind == "beyond_end" for fault in find_faults(positions, log.partitions)):
            break
    return log


def find_rewritten(
    kafka: Mapping[str, str], positions: Mapping[int, tuple[int, int | None]], log: TopicLog
) -> tuple[Fault, ...]:
    """Find the partitions whose log was cut below the position and has grown past it since."""
    cuts = find_truncations(kafka, log.topic, find_new_leaders(positions, log.partitions))
    return tuple(
        Fault("rewritten", number, positions[number][0], log.partitions[number], cut)
        for number, cut in sorted(cuts.items())
    )


def describe_faults(pipeline: Pipeline, faults: Sequence[Fault], losses: Sequence[Loss] = ()) -> LogLostError:
    """Say exactly what is wrong with the log, partition by partition. What is known of losses is told with them."""
    dated: dict[int, Loss] = {loss.range.partition: loss for loss in losses}
    told = name_ranges([dated.get(fault.partition, fault) for fault in faults])
    kind = LogLostError if all(fault.kind == "log_start_passed" for fault in faults) else LogCutError
    return kind(
        f"the log and the positions do not fit: {told}. Nothing is loaded.",
        pipeline=pipeline.name,
        ranges=[fault.lost for fault in faults if len(fault.lost)],
        next_step=advice.resolve_hold(kind.hold, pipeline.name),
    )
