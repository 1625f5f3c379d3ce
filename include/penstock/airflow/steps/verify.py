"""The verification of a pipeline, as a step of the DAGs penstock_verify and penstock_audit."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from penstock.airflow.connections import read_settings
from penstock.airflow.declarations import read_named
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.runs import find_person, refuse_unknown
from penstock.errors import ProofError, name_few
from penstock.model.spans import read_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk.definitions.context import Context

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.ranges import Range
    from penstock.verify.rotation import Rotation

log = logging.getLogger(__name__)
FIELDS = ("pipeline", "offsets", "share")


def verify() -> None:
    """Verify the pipeline that the form names, in the name of the user who triggered the run."""
    context = get_current_context()
    with deciding_retries(context["params"]["pipeline"]):
        refuse_unknown(context, FIELDS)
        pipeline = read_named(context["params"]["pipeline"])
        ranges = read_ranges(context["params"]["offsets"] or ())
    try:
        verify_by(context, pipeline, ranges)
    finally:
        send_notices()


def verify_by(
    context: Context, pipeline: Pipeline, ranges: Sequence[Range] = (), rotation: Rotation | None = None
) -> None:
    """Verify a pipeline by the share of a run, and by offsets if there are any; a fault fails the task."""
    from penstock.spark.submit import submit_reread
    from penstock.verify.run import verify_pipeline

    with deciding_retries(pipeline.name):
        verified = verify_pipeline(
            read_settings(pipeline.kafka),
            pipeline,
            find_person(context),
            context["params"]["share"],
            lambda settings, verification: submit_reread(settings, verification, sys.stdout),
            ranges,
            rotation,
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
