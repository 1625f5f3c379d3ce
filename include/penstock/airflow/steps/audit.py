"""The steps of the DAG penstock_audit: verify and examine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_kafka
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.runs import refuse_unknown
from penstock.airflow.steps.verify import verify_by
from penstock.errors import ProofError

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)
FIELDS = ("share",)


def verify(pipeline: Pipeline) -> None:
    """Verify a pipeline; a fault fails the task."""
    from penstock.verify.rotation import Rotation

    context, days = get_current_context(), pipeline.prove_within_days
    with deciding_retries(pipeline.name):
        refuse_unknown(context, FIELDS)
    verify_by(context, pipeline, rotation=None if days is None else Rotation(days))
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
