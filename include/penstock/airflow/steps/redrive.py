"""The step of the DAG penstock_redrive: it publishes the quarantined records that pass."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_db_checker, read_kafka
from penstock.airflow.declarations import read_named
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.lineage import emit_lineage
from penstock.airflow.quarantine_form import SELECTION_FIELDS, read_form
from penstock.airflow.runs import add_events, find_person, refuse_unknown
from penstock.airflow.steps.pipeline import make_hold
from penstock.errors import HeldError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import AssetAlias

log = logging.getLogger(__name__)
FIELDS = ("pipeline", *SELECTION_FIELDS, "dry_run", "why")


def redrive(alias: AssetAlias) -> str:
    """Publish the records that the form selects and that pass, in the name of the user who triggered the run.

    Return how many pass: the page shows it.
    """
    from penstock.backfill.redrive import redrive as redrive_records
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.load import read_load
    from penstock.settings import Settings

    context = get_current_context()
    params: Mapping[str, Any] = context["params"]
    with deciding_retries(params["pipeline"]):
        refuse_unknown(context, FIELDS)
        pipeline = read_named(params["pipeline"])
        selection = read_form(params)
        # No Spark runs: the records come from the quarantine.
        settings = Settings(read_db(), read_kafka(pipeline.kafka), Path(), "", read_db_checker())
        who, dry_run = find_person(context), params["dry_run"]
        try:
            found = redrive_records(settings, pipeline, selection, who, log.info, why=params["why"], dry_run=dry_run)
        except HeldError as error:
            raise make_hold(error.what, pipeline.name, error.load, error.ranges, "redrive") from error
        with open_ledger(settings.db) as connection:
            for load_id in found.loads:
                add_events(context, alias, settings.db, read_load(connection, load_id))
    for load_id in found.loads:
        emit_lineage(settings.db, settings.kafka, load_id)
    lines = found.describe(pipeline.name, dry_run=dry_run)
    for line in lines:
        log.info(line)
    send_notices()
    return lines[0]
