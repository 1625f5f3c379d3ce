"""The steps of the DAG penstock_audit: verify and examine."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from penstock.airflow.connections import read_db, read_kafka, read_settings
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.runs import find_person, refuse_unknown
from penstock.errors import ProofError, name_few

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)
FIELDS = ("share",)


def verify(pipeline: Pipeline) -> None:
    """Verify a pipeline; a fault fails the task."""
    from penstock.spark.submit import submit_reread
    from penstock.verify.run import verify_pipeline

    context = get_current_context()
    with deciding_retries(pipeline.name):
        refuse_unknown(context, FIELDS)
        verified = verify_pipeline(
            read_settings(pipeline.kafka),
            pipeline,
            find_person(context),
            context["params"]["share"],
            lambda settings, verification: submit_reread(settings, verification, sys.stdout),
        )
        if verified is None:
            raise AirflowSkipException(f"{pipeline.name} has loaded nothing yet.")
        log.info(verified.summary)
        for line in name_few(verified.faults):
            log.error("%s", line)
        if verified.faults:
            raise ProofError(
                f"{verified.summary} The first: {verified.faults[0]}",
                pipeline=pipeline.name,
                ranges=[fault.range for fault in verified.faults[:5] if fault.range],
                next_step=f"see penstock.faults, and {' '.join(verified.next_steps)} The DAG penstock_backfill does "
                "the same as `penstock backfill`.",
            )
    send_notices()


def examine(pipeline: Pipeline) -> None:
    """Examine the settings of a pipeline; the task fails only if records are about to be deleted."""
    from penstock.doctor.answers import read_known
    from penstock.doctor.examination import examine_pipelines
    from penstock.doctor.incidents import see_urgent
    from penstock.ledger.connection import open_ledger

    with deciding_retries(pipeline.name):
        with open_ledger(read_db()) as connection:
            known = read_known(connection, [pipeline])
        (diagnosis,) = examine_pipelines(known, read_kafka(pipeline.kafka), [pipeline])
        for finding in diagnosis.findings:
            if finding.level != "ok":
                log.warning("%s: %s Next: %s", finding.setting, finding.told, finding.change)
        with open_ledger(read_db()) as connection:
            urgent = see_urgent(connection, pipeline, diagnosis)
        if urgent:
            raise ProofError(
                " ".join(finding.told for finding in urgent), pipeline=pipeline.name, next_step=urgent[0].change
            )
    send_notices()
