"""A person accepts a loss: it is recorded with who and why, and the loads continue from the log's start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError, name_ranges
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger.connection import open_ledger
from penstock.ledger.decision import OutdatedAnswersError, decide_with_kafka
from penstock.ledger.event import record_pipeline_event, require_reason
from penstock.ledger.generation import Generation, read_newest_generation
from penstock.ledger.hold import end_hold
from penstock.ledger.load import find_open_live_load, supersede_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.load.log_check import Answers, Loss, date_losses, query_for_losses, read_ledger_state, record_losses
from penstock.model.load import LoadState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.plan import Fault

# A load in such a state has read offsets that the log may no longer have. Publishing it makes the loss smaller.
READ_WHOLE = (LoadState.STAGED, LoadState.VALIDATED, LoadState.HELD)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The losses that were recorded."""

    losses: tuple[Loss, ...]
    message: str


def accept_loss(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, who: str, why: str) -> Accepted:
    """Record the offsets that are lost now, and continue from the log's start."""
    require_reason(who, why, pipeline=pipeline.name)
    with open_ledger(uri) as connection:
        return decide_with_kafka(
            connection,
            pipeline.name,
            partial(query_for_losses, kafka, pipeline),
            lambda answers: accept_loss_in(connection, pipeline, who, why, answers),
        )


def accept_loss_in(connection: Connection, pipeline: Pipeline, who: str, why: str, answers: Answers | None) -> Accepted:
    """Accept in the caller's transaction, under the lock of plan and publish."""
    pipeline_id, generation = lock_generation(connection, pipeline)
    ledger = read_ledger_state(connection, pipeline_id)
    if answers is None or answers.ledger != ledger:
        raise OutdatedAnswersError(ledger)
    refuse_other_identity(pipeline, generation.cluster_id, generation.topic_id, answers.log)
    faults = _refuse_unless_lost(pipeline, answers.faults)
    _end_open_load(connection, pipeline, pipeline_id, who, why)
    losses = date_losses(connection, pipeline, generation.generation_id, faults, answers.first_times)
    record_losses(connection, pipeline_id, generation.generation_id, losses, who, why)
    record_pipeline_event(connection, who, pipeline_id, "loss accepted", why)
    end_hold(connection, pipeline_id, f"{who} accepted the loss: {why}", who)
    message = f"{pipeline.name}: recorded as lost: {name_ranges(losses)}. The next run continues after the loss."
    return Accepted(tuple(losses), message)


def lock_generation(connection: Connection, pipeline: Pipeline) -> tuple[int, Generation]:
    """Lock a pipeline that has been planned before, and find the generation that it loads."""
    pipeline_id = lock_pipeline(connection, pipeline.name)
    generation = None if pipeline_id is None else read_newest_generation(connection, pipeline_id)
    if pipeline_id is None or generation is None:
        raise WrongUseError(
            "the pipeline has loaded nothing yet: its first run begins where `start` of the declaration says.",
            pipeline=pipeline.name,
            next_step=advice.run_pipeline(pipeline.name),
        )
    return pipeline_id, generation


def _refuse_unless_lost(pipeline: Pipeline, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    if not faults:
        raise WrongUseError(
            "nothing is lost: the log holds all records from the positions on. Nothing is changed.",
            pipeline=pipeline.name,
            next_step=advice.NEXT_RUN_CONTINUES,
        )
    truncated = [fault for fault in faults if fault.kind != "log_start_passed"]
    if truncated:
        raise WrongUseError(
            f"the log was truncated, which is more than a loss: {name_ranges(truncated)}. Nothing is changed.",
            pipeline=pipeline.name,
            ranges=[fault.lost for fault in truncated if len(fault.lost)],
            next_step=advice.resolve_hold("log_cut", pipeline.name),
        )
    return faults


def _end_open_load(connection: Connection, pipeline: Pipeline, pipeline_id: int, who: str, why: str) -> None:
    """End an open load that has not read the lost offsets. A person must settle one that has read them first."""
    load = find_open_live_load(connection, pipeline_id)
    if load is None:
        return
    if load.state in READ_WHOLE:
        raise WrongUseError(
            f"the load is {load.state}: it has read offsets that the log may no longer have. Nothing is changed.",
            pipeline=pipeline.name,
            load=load.load_id,
            next_step=advice.settle_staged(load.load_id, pipeline.name, load.run_id),
        )
    supersede_load(connection, pipeline, load, who, f"the loss was accepted: {why}")
