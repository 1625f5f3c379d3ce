"""The routes of the page: each reads the ledger only, and needs the right to read the pipeline's DAG."""

# FastAPI reads the annotations when the program runs, so they are not postponed here.
from typing import Annotated, TypeVar

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import APIRouter, Depends, HTTPException
from fastapi import Path as PathParameter

from penstock.airflow.page.answers import TaggedRoute
from penstock.airflow.page.documents import PipelinePage, Pipelines
from penstock.airflow.page.ledger import read_declared, reading
from penstock.airflow.page.overview import describe_pipeline, describe_pipelines
from penstock.declaration.pipeline import Pipeline
from penstock.errors import DeclarationError

T = TypeVar("T")
DagId = Annotated[str, PathParameter(description="the pipeline's name, which is the id of its DAG", max_length=250)]

router = APIRouter(route_class=TaggedRoute)
# The pipeline's name is the id of its DAG: Airflow decides whether the user may read it.
of_pipeline = APIRouter(
    prefix="/pipelines/{dag_id}", route_class=TaggedRoute, dependencies=[Depends(requires_access_dag("GET"))]
)


@router.get("/pipelines")
def list_pipelines(user: GetUserDep) -> Pipelines:
    """The pipelines whose DAGs the user may read, with their health."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    declared = {name: read for name, read in read_declared().items() if name in readable}
    with reading() as connection:
        return describe_pipelines(connection, declared)


@of_pipeline.get("")
def show_pipeline(dag_id: DagId) -> PipelinePage:
    """The head of a pipeline's page: its health, its next step and its figures."""
    declared = find_declared(dag_id)
    with reading(dag_id) as connection:
        return describe_pipeline(connection, dag_id, declared)


def find_declared(name: str) -> Pipeline | DeclarationError:
    """The declaration of a pipeline, or its mistakes."""
    declared = read_declared().get(name)
    if declared is None:
        raise HTTPException(404, f"{name} is not a pipeline: no file of that name declares one.")
    return declared


router.include_router(of_pipeline)
