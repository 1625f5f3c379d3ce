"""The plan step: fence first, restore second, then write an immutable plan from these positions and Kafka's answers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError, HeldError, LogLostError, name_ranges
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger.connection import Connection, open_ledger
from penstock.ledger.decision import OutdatedAnswersError, decide_with_kafka
from penstock.ledger.generation import Position, advance_hours, open_generation, open_positions, see_ends
from penstock.ledger.hold import begin_hold, end_hold
from penstock.ledger.incident import see_incident
from penstock.ledger.load import (
    create_load,
    find_load_of_run,
    find_open_live_load,
    name_successor,
    read_load,
    supersede_load,
)
from penstock.ledger.pipeline import lock_pipeline, mark_up_to_date, register_pipeline
from penstock.load.failure import end_failures
from penstock.load.log_check import (
    Answers,
    date_losses,
    make_log_error,
    query_for_plan,
    read_ledger_state,
    record_losses,
)
from penstock.load.mirror import mirror_positions
from penstock.model.incident import IncidentKind, Sighting
from penstock.model.load import OPEN_STATES, LoadState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.load import OpenLoad
    from penstock.load.log_check import Loss
    from penstock.model.load import Load
    from penstock.model.log import TopicLog


@dataclass(frozen=True, slots=True)
class Planned:
    """The outcome of the plan step. `load` is None if there is nothing to load."""

    load: Load | None
    message: str
    ended_hold: int | None = None


def plan_load(
    uri: str, kafka: Mapping[str, str], pipeline: Pipeline, run_id: str, *, ignore_window: bool = False
) -> Planned:
    """Plan the next live load of a pipeline, or find the load that this run has planned before.

    Outside the window of the pipeline nothing is planned, and no open load is fenced.

    If the log lost records, the plan is rolled back and the pipeline is held. Both happen under one lock, so that no
    decision of a person comes between them.
    """
    hours, now = pipeline.loading_hours, datetime.now(UTC)
    if hours is not None and not ignore_window and not hours.is_open(now):
        opening = hours.find_opening(now).isoformat(timespec="minutes")
        message = f"{pipeline.name}: no load starts outside the window {pipeline.window}; it opens at {opening}."
        return Planned(None, message)
    with open_ledger(uri) as connection:

        def plan_or_hold(answers: Answers | None) -> Planned:
            pipeline_id = lock_pipeline(connection, pipeline.name)
            try:
                with connection.transaction():  # a savepoint within the transaction that holds the lock
                    return plan_in(connection, pipeline, run_id, answers)
            except LogLostError as error:
                if pipeline_id is not None:
                    begin_hold(connection, pipeline_id, pipeline, error)
                connection.commit()
                raise

        query = partial(query_for_plan, kafka, pipeline)
        planned = decide_with_kafka(connection, pipeline.name, query, plan_or_hold)
    if planned.load is None:
        # Kafka forgets the offsets of a group without members after a week without a commit.
        mirror_positions(uri, kafka, pipeline)
    return planned


def preview_plan(uri: str, kafka: Mapping[str, str], pipeline: Pipeline, run_id: str) -> Planned:
    """Plan as a load would, and roll the plan back: nothing is written, and no load is fenced."""
    with closing(open_ledger(uri)) as connection:
        return decide_with_kafka(
            connection,
            pipeline.name,
            partial(query_for_plan, kafka, pipeline),
            lambda answers: plan_in(connection, pipeline, run_id, answers),
        )


def plan_in(connection: Connection, pipeline: Pipeline, run_id: str, answers: Answers | None) -> Planned:
    """Plan in the caller's transaction, which holds the pipeline's row from its first statement to its end.

    An OutdatedAnswersError means that Kafka's answers are for another state of the ledger.
    """
    pipeline_id = register_pipeline(connection, pipeline)
    found = _find_planned(connection, pipeline_id, pipeline, run_id)
    if found is not None:
        return found
    fenced = _fence(connection, pipeline_id, pipeline, run_id)
    ledger = read_ledger_state(connection, pipeline_id)
    if answers is None or answers.ledger != ledger:
        raise OutdatedAnswersError(ledger)
    log, plan = answers.log, answers.plan
    generation_id = _bind_generation(connection, pipeline_id, pipeline, answers)
    # Written even if there is nothing to load: if a first run starts at the end of the log, the next run must start at
    # the same offset, not at a later end.
    origins = {number: log.partitions[number].start for number in answers.opened}
    write_positions(connection, generation_id, log, answers.opened, origins)
    loaded = dict.fromkeys(answers.find_loaded(), answers.asked_at)
    highs = {number: each.high for number, each in log.partitions.items() if each.high is not None}
    see_ends(connection, generation_id, answers.asked_at, highs)
    losses = date_losses(connection, pipeline, generation_id, answers.faults or plan.losses, answers.first_times)
    if answers.faults:
        raise make_log_error(pipeline, answers.faults, losses)
    record_losses(connection, pipeline_id, generation_id, losses, "penstock", "on_loss: record")
    if losses:
        _see_loss(connection, pipeline, losses)
    end_hold(connection, pipeline_id, f"run {run_id} found the log as it has to be")
    ended_hold = fenced.load_id if fenced and fenced.state == LoadState.HELD else None
    recorded = f" Recorded as lost, and skipped: {name_ranges(losses)}." if losses else ""
    if not plan.ranges:
        mark_up_to_date(connection, pipeline_id)
        advance_hours(connection, generation_id)
        end_failures(connection, pipeline.name, None)
        message = f"{pipeline.name}: nothing new in topic {pipeline.topic}.{recorded}{answers.held_back}"
        return Planned(None, message, ended_hold)
    epochs = {number: partition.leader_epoch for number, partition in log.partitions.items()}
    load = create_load(
        connection, pipeline_id, generation_id, pipeline, run_id, plan.ranges, leader_epochs=epochs, loaded_until=loaded
    )
    if fenced:
        name_successor(connection, fenced.load_id, load.load_id)
    records = sum(len(range_) for range_ in load.ranges)
    message = f"{pipeline.name}: load {load.load_id} planned, {records} offsets: {name_ranges(load.ranges)}"
    return Planned(load, message + recorded, ended_hold)


def _find_planned(connection: Connection, pipeline_id: int, pipeline: Pipeline, run_id: str) -> Planned | None:
    """Find the load that this run has planned, if the plan step is retried."""
    found = find_load_of_run(connection, pipeline_id, run_id)
    if found is None or found.state in (LoadState.FAILED, LoadState.DISCARDED, LoadState.ROLLED_BACK):
        return None
    load = read_load(connection, found.load_id)
    if load.state == LoadState.SUPERSEDED:
        return _find_successor(connection, load)
    if load.state == LoadState.HELD:
        return None  # `_fence` decides whether the load stays held
    return Planned(load, f"{pipeline.name}: this run has planned load {load.load_id} before; it is {load.state}.")


def _find_successor(connection: Connection, load: Load) -> Planned | None:
    if load.superseded_by is None:
        return None
    successor = read_load(connection, load.superseded_by)
    outcome = f"load {load.load_id} of this run was superseded by load {successor.load_id}, which is {successor.state}"
    if successor.state == LoadState.PUBLISHED:
        return Planned(None, f"{load.pipeline}: {outcome}; nothing is left to do.")
    if successor.state in OPEN_STATES:
        raise FencedError(
            f"{outcome}.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.await_successor(successor.load_id, successor.run_id),
        )
    return None


def _fence(connection: Connection, pipeline_id: int, pipeline: Pipeline, run_id: str) -> OpenLoad | None:
    """End the open live load before any position is read. A held load ends only if the declaration has changed."""
    found = find_open_live_load(connection, pipeline_id)
    if found is None:
        return None
    if found.state == LoadState.HELD and found.declaration == pipeline:
        raise HeldError(
            f"held: {found.cause}",
            pipeline=pipeline.name,
            load=found.load_id,
            ranges=read_load(connection, found.load_id).ranges,
            next_step=advice.settle_held(found.load_id),
        )
    supersede_load(connection, pipeline, found, "penstock", f"run {run_id} planned again")
    return found


def _see_loss(connection: Connection, pipeline: Pipeline, losses: Sequence[Loss]) -> None:
    """Record one incident for all losses, because partitions lose their records together."""
    sighting = Sighting(
        pipeline.name,
        IncidentKind.LOSS,
        IncidentKind.LOSS,
        name_ranges(losses),
        advice.ACCEPT_OR_PREVENT_LOSS,
        ranges=tuple(loss.range for loss in losses),
        is_over=True,
    )
    see_incident(connection, sighting, pipeline.alerts)


def _bind_generation(connection: Connection, pipeline_id: int, pipeline: Pipeline, answers: Answers) -> int:
    known, log = answers.ledger, answers.log
    if known.generation_id is None or known.identity is None:
        return open_generation(connection, pipeline_id, log.identity, epoch=1)
    refuse_other_identity(pipeline, known.identity.cluster_id, known.identity.topic_id, log)
    return known.generation_id


def write_positions(
    connection: Connection,
    generation_id: int,
    log: TopicLog,
    positions: Mapping[int, int],
    origins: Mapping[int, int],
) -> None:
    """Write the first positions of partitions, and the offsets from which their gaps count."""
    rows = [
        Position(partition, position, origins[partition], log.partitions[partition].leader_epoch)
        for partition, position in positions.items()
    ]
    open_positions(connection, generation_id, rows)
