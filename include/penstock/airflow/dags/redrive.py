"""The DAG penstock_redrive, by which a person brings quarantined records back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, Param

from penstock.airflow.failures import log_failure
from penstock.airflow.quarantine_form import selection_fields
from penstock.airflow.runs import pipeline_field, why_field
from penstock.airflow.steps.redrive import redrive as redrive_records

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_redrive"
REDRIVEN = AssetAlias("penstock-redriven")

PAGE = """\
# Bring quarantined records back

A record that could not become a row, or whose row failed a rule, is in the quarantine whole. After you have corrected
the declaration or the rule, trigger this DAG: it decodes and judges the chosen records by today's declaration, and
publishes those that pass. The others stay in the quarantine, and the log of `redrive` counts them by reason.

Choose records by reason, rule, load, place or time; all chosen fields must match. Without any of them switch
**Everything** on. A dry run only counts the records that would pass.

A redrive whose check fails is held, as any load: its request waits under Required Actions. The same on the command line
is `penstock quarantine redrive`.
"""


def make_redrive_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Publish the quarantined records that pass today's declaration and rules.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params=_make_form(pipelines),
    ) as dag:
        PythonOperator(
            task_id="redrive",
            python_callable=partial(redrive_records, REDRIVEN),
            outlets=[REDRIVEN],
            on_failure_callback=log_failure,
        )
    return dag


def _make_form(pipelines: Sequence[str]) -> dict[str, Param]:
    return {
        "pipeline": pipeline_field(pipelines),
        **selection_fields(),
        "dry_run": Param(
            default=False,
            type="boolean",
            title="Dry run",
            description="Only count the records that would pass, in the log of redrive.",
        ),
        "why": why_field(),
    }
