"""Runs of DAGs: the parameters and the person that start a run, and the asset that it updates."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Param

from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow.sdk import AssetAlias
    from airflow.sdk.definitions.context import Context

    from penstock.model.load import Load


def pipeline_field(pipelines: Sequence[str]) -> Param:
    """The field of a form that names a pipeline."""
    return Param(None, type="string", enum=list(pipelines), title="Pipeline")


def why_field() -> Param:
    """The field of a form that asks for the reason of a decision."""
    return Param(
        None, type="string", minLength=1, title="Why", description="The reason; the ledger keeps it with your name."
    )


def offsets_field(description: str) -> Param:
    """The field of a form that takes ranges of offsets."""
    return Param(None, type=["null", "array"], items={"type": "string"}, title="Offsets", description=description)


def share_field(default: float) -> Param:
    """The field of a form that says how much of the log is read again."""
    return Param(
        default,
        type="number",
        minimum=0,
        maximum=1,
        title="Share",
        description="The share of the offsets in the log that is read again: 0 to 1.",
    )


def refuse_unknown(context: Context, known: tuple[str, ...]) -> None:
    """Refuse unknown parameters of a run: Airflow's API takes any parameter, and an ignored one would mislead."""
    unknown = sorted(set(context["dag_run"].conf or {}) - set(known))
    if unknown:
        raise WrongUseError(
            f"this run was given {', '.join(unknown)}; allowed: {', '.join(known) or 'no parameter'}.",
            next_step="trigger the DAG again without them; the declaration says what a pipeline loads.",
        )


def find_person(context: Context) -> str:
    """The name of the user who triggered the run; `airflow` for a scheduled run."""
    return str(context["dag_run"].triggering_user_name or "airflow")


def asset_of(pipeline: str) -> Asset:
    """The asset that a pipeline updates when it publishes; other DAGs can be scheduled by it."""
    return Asset(f"penstock://{pipeline}")


def add_events(context: Context, alias: AssetAlias, uri: str, load: Load) -> None:
    """Add a published load to the events of its pipeline's asset and of its table's asset."""
    from penstock.airflow.lineage import table_asset

    for asset in (asset_of(load.pipeline), table_asset(uri, load)):
        context["outlet_events"][alias].add(asset, extra=describe_load(load))


def hours_of(pipeline: str) -> Asset:
    """The asset whose partitions are the whole hours of a pipeline; other DAGs can run once for each hour."""
    return Asset(f"penstock://{pipeline}/hours")


def name_hour(hour: datetime) -> str:
    """The key of an hour, in the format that Airflow's mappers of time read by default."""
    return hour.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def describe_load(load: Load) -> dict[str, Any]:
    """A published load as the extra of its asset's event."""
    ranges = [{"partition": r.partition, "from": r.from_offset, "until": r.until_offset} for r in load.ranges]
    return {"pipeline": load.pipeline, "load": load.load_id, "rows": load.rows, "ranges": ranges}
