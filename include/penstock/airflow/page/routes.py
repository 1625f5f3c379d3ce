"""The routes of the page: each reads the ledger only, and needs the right to read the pipeline's DAG."""

# FastAPI reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.configuration import conf
from fastapi import APIRouter, Depends, HTTPException, Query, Response
from fastapi import Path as PathParameter

from penstock.airflow.connections import DB, read_db
from penstock.airflow.page import documents, loads, panels
from penstock.airflow.page.answers import NOT_STORED, TaggedRoute
from penstock.airflow.page.backfill import describe_preview
from penstock.airflow.page.coverage import describe_coverage
from penstock.airflow.page.ledger import read_declared, reading
from penstock.airflow.page.overview import describe_pipeline, describe_pipelines
from penstock.airflow.page.rights import describe_rights, may_see_contents
from penstock.decide.quarantine import show_records
from penstock.declaration.pipeline import Pipeline
from penstock.errors import DeclarationError
from penstock.ledger.connection import Connection, concerning
from penstock.ledger.pipeline import find_pipeline
from penstock.ledger.quarantine import Selection
from penstock.model.load import Kind, LoadState

DagId = Annotated[str, PathParameter(description="the pipeline's name, which is the id of its DAG", max_length=250)]
LoadId = Annotated[int, PathParameter(ge=1, le=2**63 - 1)]
Page = Annotated[int, Query(ge=1, le=1_000_000, description="the page, from 1")]
Number = Annotated[int, Query(ge=0, le=2**63 - 1)]
Text = Annotated[str | None, Query(max_length=200)]


def require_payloads(user: GetUserDep) -> None:
    """Refuse a user who may not read the connection of the ledger: the contents of records need as much trust."""
    if not may_see_contents(user):
        raise HTTPException(403, f"to see the contents of records needs the right to read the connection {DB}.")


router = APIRouter(route_class=TaggedRoute)
# The pipeline's name is the id of its DAG: Airflow decides whether the user may read it.
of_pipeline = APIRouter(
    prefix="/pipelines/{dag_id}", route_class=TaggedRoute, dependencies=[Depends(requires_access_dag("GET"))]
)


@router.get("/pipelines")
def list_pipelines(user: GetUserDep) -> documents.Pipelines:
    """The pipelines whose DAGs the user may read, with their health."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    declared = {name: read for name, read in read_declared().items() if name in readable}
    with reading() as connection:
        return describe_pipelines(connection, declared)


@of_pipeline.get("")
def show_pipeline(dag_id: DagId) -> documents.PipelinePage:
    """The head of a pipeline's page: its health, its next step and its figures."""
    declared = find_declared(dag_id)
    with reading(dag_id) as connection:
        return describe_pipeline(connection, dag_id, declared)


@of_pipeline.get("/rights")
def show_rights(dag_id: DagId, user: GetUserDep) -> documents.Rights:
    """The buttons that the user may use."""
    find_declared(dag_id)
    return describe_rights(user, dag_id)


@of_pipeline.get("/coverage")
def show_coverage(dag_id: DagId, axis: documents.Axis = "offset", page: Page = 1) -> documents.Coverage:
    """The coverage map: the offsets of each partition, by kind."""
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return describe_coverage(connection, dag_id, pipeline_id, axis, page)


@of_pipeline.get("/loads")
def list_loads(
    dag_id: DagId, page: Page = 1, kind: Kind | None = None, state: LoadState | None = None
) -> documents.Loads:
    """The loads of a pipeline, the newest first."""
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return loads.describe_loads(connection, dag_id, pipeline_id, page, kind, state)


@of_pipeline.get("/loads/{load_id}")
def show_load(dag_id: DagId, load_id: LoadId) -> documents.LoadPage:
    """One load: its ranges, progress, checks, events, and the changes of the declaration."""
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return loads.describe_load(connection, dag_id, pipeline_id, load_id)


@of_pipeline.get("/results")
def list_results(dag_id: DagId) -> documents.Results:
    """The tables that are derived from the rows: state, rows, rebuild under way, last verification."""
    declared = find_declared(dag_id)
    with reading(dag_id) as connection:
        return panels.describe_results(connection, dag_id, declared if isinstance(declared, Pipeline) else None)


@of_pipeline.get("/quality")
def show_quality(
    dag_id: DagId, last: Annotated[int, Query(ge=1, le=1000)] = 30, expectation: Text = None
) -> documents.Quality:
    """The results of the checks on the last loads."""
    with reading_pipeline(dag_id) as (connection, _):
        return panels.describe_quality(connection, dag_id, last, expectation)


@of_pipeline.get("/quarantine")
def show_quarantine(dag_id: DagId) -> documents.Quarantine:
    """The quarantined records by reason and rule."""
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return panels.describe_quarantine(connection, dag_id, pipeline_id)


@of_pipeline.get("/quarantine/records")
def list_records(dag_id: DagId, page: Page = 1, reason: Text = None, rule: Text = None) -> documents.QuarantinedRecords:
    """Quarantined records without their contents."""
    secret = conf.get("api", "secret_key").encode()
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return panels.describe_records(connection, dag_id, pipeline_id, reason, rule, page, secret)


@of_pipeline.get("/quarantine/payload", dependencies=[Depends(require_payloads)])
def show_payload(
    dag_id: DagId, partition: Number, offset: Number, user: GetUserDep, response: Response
) -> documents.Payload:
    """The contents of a quarantined record. The ledger keeps who saw them."""
    response.headers["Cache-Control"] = NOT_STORED
    find_declared(dag_id)
    selection = Selection(dag_id, partition=partition, offset=offset)
    with concerning(dag_id):
        found = show_records(read_db(), selection, user.get_name(), payload=True)
    if not found:
        raise HTTPException(404, f"{dag_id} has no quarantined record at {partition}:{offset}.")
    return panels.describe_payload(dag_id, found[-1])


@of_pipeline.get("/backfill/preview")
def preview_backfill(
    dag_id: DagId,
    ranges: Annotated[str | None, Query(max_length=20_000, description="0:10-20,1:5-9")] = None,
    from_time: Text = None,
    until_time: Text = None,
    gaps: bool = False,
    replace: bool = False,
    records_per_load: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
) -> documents.BackfillPreview:
    """The loads that a backfill would make, by the sampled log."""
    declared = find_declared(dag_id)
    if not isinstance(declared, Pipeline):
        raise declared
    with reading(dag_id) as connection:
        return describe_preview(
            connection,
            declared,
            ranges=ranges,
            from_time=from_time,
            until_time=until_time,
            gaps=gaps,
            replace=replace,
            records_per_load=records_per_load,
        )


@of_pipeline.get("/backfills")
def list_backfills(dag_id: DagId) -> documents.Backfills:
    """The backfills that run, and the last ten."""
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return panels.describe_backfills(connection, dag_id, pipeline_id)


@of_pipeline.get("/incidents")
def list_incidents(dag_id: DagId) -> documents.Incidents:
    """The newest incidents."""
    with reading_pipeline(dag_id) as (connection, _):
        return panels.describe_incidents(connection, dag_id)


@of_pipeline.get("/events")
def list_events(dag_id: DagId, page: Page = 1) -> documents.Events:
    """Decisions and events, losses and holds."""
    with reading_pipeline(dag_id) as (connection, pipeline_id):
        return panels.describe_events(connection, dag_id, pipeline_id, page)


@contextmanager
def reading_pipeline(name: str) -> Iterator[tuple[Connection, int | None]]:
    """Open the ledger for a declared pipeline; its number, or None before its first plan."""
    find_declared(name)
    with reading(name) as connection:
        yield connection, find_pipeline(connection, name)


def find_declared(name: str) -> Pipeline | DeclarationError:
    """The declaration of a pipeline, or its mistakes."""
    declared = read_declared().get(name)
    if declared is None:
        raise HTTPException(404, f"{name} is not a pipeline: no file of that name declares one.")
    return declared


router.include_router(of_pipeline)
