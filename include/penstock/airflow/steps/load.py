"""What the tasks of a load do: each calls one step of Penstock and says in plain words what came of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_db_checker, read_kafka
from penstock.airflow.task_errors import deciding_retries
from penstock.errors import HeldError, WrongUseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset
    from airflow.sdk.definitions.context import Context

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load
    from penstock.model.ranges import Range

log = logging.getLogger(__name__)


def plan(pipeline: Pipeline) -> int | None:
    """Plan the load of this run. Its id is all that later tasks get; None skips them."""
    from penstock.load.plan import plan_load

    context = get_current_context()
    with deciding_retries(pipeline.name):
        refuse_unknown(context["dag_run"].conf, ())
        try:
            planned = plan_load(read_db(), read_kafka(pipeline.kafka), pipeline, context["run_id"])
        except HeldError as error:
            # The same hold, with the ways on that there are in Airflow.
            raise hold(error.what, pipeline.name, error.load, error.ranges) from error
    log.info(planned.told)
    _tell_news(pipeline.alerts, pipeline.name, context)
    if planned.ended_hold is not None:
        _tell_end_of_hold(pipeline, planned.ended_hold, context)
    return planned.load.load_id if planned.load else None


def validate(load_id: int) -> None:
    """Run the checks of a load; one that does not pass is held, and the run ends here."""
    from penstock.ledger.work_lock import at_work
    from penstock.load.validate import validate_load

    # At INFO it writes two hundred lines about itself, among which ours are lost.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with deciding_retries(load=load_id), at_work(read_db(), load_id):
        verdict = validate_load(read_db(), load_id, read_db_checker())  # which tells the log itself
        if not verdict.passed:
            raise hold(f"held: {verdict.cause}", verdict.load.pipeline, load_id, verdict.load.ranges)


def publish(asset: Asset, load_id: int) -> None:
    """Publish a load, and tell the asset's readers which ranges came."""
    from penstock.ledger.work_lock import at_work
    from penstock.load.publish import publish_load

    with deciding_retries(load=load_id), at_work(read_db(), load_id):
        published = publish_load(read_db(), read_kafka_of(load_id), load_id)
    log.info(published.told)
    # Told again when the task runs again: the first run may have died between its COMMIT and the event. Readers know
    # the load by its number.
    get_current_context()["outlet_events"][asset].extra = describe_load(published.load)


def read_kafka_of(load_id: int) -> dict[str, str]:
    """The settings for Kafka of the declaration that a load was planned by."""
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.load import read_load

    with open_ledger(read_db()) as connection:
        return read_kafka(read_load(connection, load_id).declaration.kafka)


def describe_load(load: Load) -> dict[str, Any]:
    """A published load as the extra of an asset's event."""
    ranges = [{"partition": r.partition, "from": r.from_offset, "until": r.until_offset} for r in load.ranges]
    return {"pipeline": load.pipeline, "load": load.load_id, "rows": load.rows, "ranges": ranges}


def hold(what: str, pipeline: str, load_id: int | None, ranges: Sequence[Range]) -> HeldError:
    """A load that waits for a person, and what a person can do."""
    return HeldError(
        what,
        pipeline=pipeline,
        load=load_id,
        ranges=ranges,
        next_step=f"trigger the DAG penstock_settle for load {load_id}, to approve or to discard it (or `penstock "
        f"approve {load_id} --why …`, `penstock discard {load_id} --why …`); or change the declaration: the next run "
        "then plans anew.",
    )


def refuse_unknown(conf: dict[str, Any] | None, known: tuple[str, ...]) -> None:
    """Refuse settings of a run that mean nothing: Airflow's API takes any, and passing them over would mislead."""
    unknown = sorted(set(conf or {}) - set(known))
    if unknown:
        raise WrongUseError(
            f"this run was given {', '.join(unknown)}; allowed: {', '.join(known) or 'nothing'}.",
            next_step="trigger it again without; what a pipeline loads is in its declaration.",
        )


def _tell_news(alerts: str | None, pipeline: str, context: Context) -> None:
    from penstock.airflow.alerts import alert_untold

    alert_untold(alerts, pipeline, context)


def _tell_end_of_hold(pipeline: Pipeline, load_id: int, context: Context) -> None:
    from penstock.airflow.alerts import alert_end_of_hold

    reason = f"the declaration of {pipeline.name} has changed, and its offsets are loaded anew"
    log.info("load %s is no longer held: %s.", load_id, reason)
    alert_end_of_hold(pipeline.alerts, pipeline.name, load_id, reason, context)
