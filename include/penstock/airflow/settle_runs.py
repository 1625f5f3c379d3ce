"""Runs of penstock_settle that a held load starts: one a load, named after it."""

from __future__ import annotations

import logging

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

log = logging.getLogger(__name__)
DAG_ID, ASK = "penstock_settle", "ask"


def name_run(load_id: int) -> str:
    """The id of the run that asks about a load. Airflow refuses a second run of the same id."""
    return f"load_{load_id}"


def link_request(load_id: int, link: str) -> str:
    """The page of Airflow where a person answers the request; `link` leads to any page of a task."""
    site, found, _ = link.partition("/dags/")
    return f"{site}/dags/{DAG_ID}/runs/{name_run(load_id)}/tasks/{ASK}/required_actions" if found else ""


def start_run(load_id: int) -> bool:
    """Start the run that asks a person about a held load, unless there is one; whether there is one now.

    The load is held with or without it, so an error of Airflow is logged and does not hide the hold.
    """
    # The operator of Airflow that triggers a DAG ends its own task with it, so the message is sent as it sends it.
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    request = TriggerDagRun(dag_id=DAG_ID, run_id=name_run(load_id), conf={"load_id": load_id})
    try:
        reply = SUPERVISOR_COMMS.send(request)
    except AirflowRuntimeError as error:
        log.warning("no run of the DAG %s was started for load %s: %s", DAG_ID, load_id, error)
        return False
    if isinstance(reply, ErrorResponse) and reply.error != ErrorType.DAGRUN_ALREADY_EXISTS:
        log.warning("no run of the DAG %s was started for load %s: %s", DAG_ID, load_id, reply.error)
        return False
    return True
