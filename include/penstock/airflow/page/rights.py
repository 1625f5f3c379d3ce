"""The rights of a user on the page: Airflow's auth manager decides each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagAccessEntity, DagDetails
from airflow.models.dag import DagModel

from penstock.airflow.connections import DB
from penstock.airflow.page.documents import Rights

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

# The DAGs that the buttons of the page start, beside the pipeline's own.
ACTIONS = (
    "penstock_accept_loss",
    "penstock_backfill",
    "penstock_backfill_cancel",
    "penstock_quarantine_drop",
    "penstock_rebuild",
    "penstock_redrive",
    "penstock_rollback",
    "penstock_settle",
    "penstock_verify",
)


def describe_rights(user: BaseUser, name: str) -> Rights:
    """Describe what a user may do on the page of a pipeline. Airflow checks each action again."""
    dags = [name, *ACTIONS]
    teams = DagModel.get_dag_id_to_team_name_mapping(dags)
    manager = get_auth_manager()
    may_start = [
        dag
        for dag in dags
        if manager.is_authorized_dag(
            method="POST",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag, team_name=teams.get(dag)),
            user=user,
        )
    ]
    return Rights(may_start=may_start, may_see_contents=may_see_contents(user))


def may_see_contents(user: BaseUser) -> bool:
    """Whether a user may read the connection of the ledger: the contents of records need as much trust."""
    details = ConnectionDetails(conn_id=DB)
    return bool(get_auth_manager().is_authorized_connection(method="GET", details=details, user=user))
