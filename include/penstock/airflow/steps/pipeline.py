"""The steps of a pipeline's DAG: plan, validate and publish. The operator of the stage step is in stage_operator.py."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from penstock import advice
from penstock.airflow.connections import read_db, read_db_checker, read_kafka, read_kafka_of
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.lineage import emit_lineage, table_asset
from penstock.airflow.runs import describe_load, name_hour, refuse_unknown
from penstock.airflow.settle_runs import DAG_ID as SETTLE
from penstock.airflow.settle_runs import name_run, start_run
from penstock.errors import HeldError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset, AssetAlias

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Kind
    from penstock.model.ranges import Range

log = logging.getLogger(__name__)
# Airflow writes an event for each hour. A first load of a year would be 8,760 of them; the ledger has them all.
MOST_HOURS = 168
FIELDS = ("ignore_window",)


def plan(pipeline: Pipeline) -> int | None:
    """Plan the load of this run. Later tasks get its number; None skips them."""
    from penstock.load.plan import plan_load

    context = get_current_context()
    with deciding_retries(pipeline.name):
        refuse_unknown(context, FIELDS)
        ignore = bool(context["params"].get("ignore_window"))
        kafka = read_kafka(pipeline.kafka)
        try:
            planned = plan_load(read_db(), kafka, pipeline, context["run_id"], ignore_window=ignore)
        except HeldError as error:
            # The same hold, with a next step that names the DAG.
            raise make_hold(error.what, pipeline.name, error.load, error.ranges) from error
    log.info(planned.message)
    if planned.ended_hold is not None:
        reason = f"the declaration of {pipeline.name} has changed, and its offsets are loaded again"
        log.info("load %s is no longer held: %s.", planned.ended_hold, reason)
    send_notices()
    return planned.load.load_id if planned.load else None


def validate(load_id: int) -> None:
    """Run the checks of a load; a load that fails a check is held, and the run ends here."""
    from penstock.ledger.work_lock import working_on
    from penstock.load.validate import validate_load

    # At INFO Great Expectations logs two hundred lines a load, which hide Penstock's lines.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with deciding_retries(load=load_id), working_on(read_db(), load_id):
        # It logs the results itself.
        verdict = validate_load(read_db(), load_id, read_db_checker(), read_kafka_of(load_id))
        if not verdict.passed:
            raise make_hold(
                f"held: {verdict.cause}", verdict.load.pipeline, load_id, verdict.load.ranges, verdict.load.kind
            )
    send_notices()


def publish(asset: Asset, tables: AssetAlias, load_id: int) -> None:
    """Publish a load, and add its ranges to the events of the pipeline's asset and of the table's."""
    from penstock.ledger.work_lock import working_on
    from penstock.load.publish import publish_load

    with deciding_retries(load=load_id), working_on(read_db(), load_id):
        kafka = read_kafka_of(load_id)
        try:
            published = publish_load(read_db(), kafka, load_id)
        except HeldError as error:
            # A result failed, or the load waited for a person before: the next step names the DAG.
            raise make_hold(error.what, error.pipeline or "", load_id, error.ranges) from error
        log.info(published.message)
        table = table_asset(read_db(), published.load)
    # A second run of the task makes a second event, because the first run may have died between its COMMIT and its
    # event. Readers of the asset know the load by its number.
    events, extra = get_current_context()["outlet_events"], describe_load(published.load)
    events[asset].extra = extra
    events[tables].add(table, extra=extra)
    emit_lineage(read_db(), kafka, load_id)
    send_notices()


def announce_hours(asset: Asset, pipeline: str) -> None:
    """Update the asset with the hours that became whole since the run before; without such an hour, skip."""
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.generation import announce_hours as announce
    from penstock.ledger.generation import list_whole_hours

    context = get_current_context()
    with deciding_retries(pipeline), open_ledger(read_db()) as connection:
        announced = announce(connection, pipeline, context["run_id"])
        hours = list_whole_hours(connection, pipeline, announced, MOST_HOURS) if announced else []
    if announced is None or not hours:
        raise AirflowSkipException(f"{pipeline}: no further hour is whole.")
    keys = [name_hour(hour) for hour in hours]
    log.info("%s: %d hours are whole, from %s to %s.", pipeline, len(keys), keys[0], keys[-1])
    event = context["outlet_events"][asset]
    event.extra = {"pipeline": pipeline, "since": name_hour(announced.since), "until": name_hour(announced.until)}
    event.add_partitions(keys)


def make_hold(what: str, pipeline: str, load_id: int | None, ranges: Sequence[Range], kind: Kind = "live") -> HeldError:
    """Start the run that asks a person about the load, and make the error that ends this run."""
    started = load_id is not None and start_run(load_id)
    answer = (
        f"answer the run {name_run(load_id)} of the DAG {SETTLE}, under Required Actions,"
        if load_id is not None and started
        else f"trigger the DAG {SETTLE} for load {load_id},"
    )
    otherwise = (
        "or change the declaration: the next run then plans its offsets again."
        if kind == "live"
        else f"after a discard {advice.after_discard(kind)}."
    )
    return HeldError(
        what,
        pipeline=pipeline,
        load=load_id,
        ranges=ranges,
        next_step=f"{answer} to approve or to discard it (or `penstock approve {load_id} --why …`, `penstock discard "
        f"{load_id} --why …`); {otherwise}",
    )
