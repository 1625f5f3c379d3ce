"""Whether the log fits the positions, as far as Kafka has to be asked; `plan.py` decides what it can without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import LogCutError, LogLostError
from penstock.holds import ways_on
from penstock.kafka import TopicLog, read_log
from penstock.ledger import run
from penstock.plan import Fault, find_faults, find_suspects
from penstock.ranges import name_ranges
from penstock.truncation import find_cuts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.kafka import Isolation
    from penstock.ledger import Connection
    from penstock.losses import Loss
    from penstock.pipeline import Pipeline

TIMES_ASKED = 5


def ask_until_settled(
    kafka: Mapping[str, str],
    pipeline: Pipeline,
    positions: Mapping[int, int],
    log: TopicLog,
    isolation: Isolation | None = None,
) -> TopicLog:
    """Ask again while an end seems to lie below a position: a broker that just became leader may answer from before."""
    for _ in range(TIMES_ASKED - 1):
        if not any(fault.kind == "beyond_end" for fault in find_faults(positions, log.partitions)):
            break
        log = read_log(kafka, pipeline.topic, isolation or pipeline.isolation)
    return log


def find_rewritten(
    connection: Connection, kafka: Mapping[str, str], generation_id: int, log: TopicLog
) -> tuple[Fault, ...]:
    """Find the partitions whose log was cut below the position and has grown past it since."""
    rows = run(connection, "read_positions", generation_id=generation_id).fetchall()
    positions = {row["partition"]: (row["position"], row["leader_epoch"]) for row in rows}
    cuts = find_cuts(kafka, log.topic, find_suspects(positions, log.partitions))
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
        next_step=ways_on(kind.hold, pipeline.name),
    )
