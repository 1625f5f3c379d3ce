"""What the tasks of the DAG penstock_audit do."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from penstock.airflow.connections import read_db, read_kafka, read_settings
from penstock.airflow.steps.load import refuse_unknown
from penstock.airflow.task_errors import deciding_retries
from penstock.errors import ProofError, name_few

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)
FIELDS = ("share",)
# What is told of these cannot wait for a person who looks.
URGENT = ("headroom", "open transactions")


def verify(pipeline: Pipeline) -> None:
    """Verify a pipeline; any fault fails the task."""
    from penstock.spark.submit import submit_reread
    from penstock.verify.run import verify_pipeline

    context = get_current_context()
    with deciding_retries(pipeline.name):
        refuse_unknown(context["dag_run"].conf, FIELDS)
        verified = verify_pipeline(
            read_settings(pipeline.kafka),
            pipeline,
            context["dag_run"].triggering_user_name or "airflow",
            context["params"]["share"],
            lambda settings, verification: submit_reread(settings, verification, sys.stdout),
        )
        if verified is None:
            raise AirflowSkipException(f"{pipeline.name} has loaded nothing yet.")
        log.info(verified.told)
        for line in name_few(verified.faults):
            log.error("%s", line)
        if verified.faults:
            raise ProofError(
                f"{verified.told} The first: {verified.faults[0]}",
                pipeline=pipeline.name,
                ranges=[fault.range for fault in verified.faults[:5] if fault.range],
                next_step=f"see penstock.faults, and {' '.join(verified.next_steps)} The DAG penstock_backfill does "
                "what `penstock backfill` does.",
            )


def examine(pipeline: Pipeline) -> None:
    """Look for what can lose records; only what is about to be lost fails the task."""
    from penstock.doctor.answers import read_known
    from penstock.doctor.examination import examine_pipelines
    from penstock.ledger.connection import open_ledger

    with deciding_retries(pipeline.name):
        with open_ledger(read_db()) as connection:
            known = read_known(connection, [pipeline])
        (diagnosis,) = examine_pipelines(known, read_kafka(pipeline.kafka), [pipeline])
        for finding in diagnosis.findings:
            if finding.level != "ok":
                log.warning("%s: %s Next: %s", finding.setting, finding.told, finding.change)
        urgent = [finding for finding in diagnosis.findings if finding.level == "wrong" and finding.setting in URGENT]
        if urgent:
            raise ProofError(
                " ".join(finding.told for finding in urgent), pipeline=pipeline.name, next_step=urgent[0].change
            )
