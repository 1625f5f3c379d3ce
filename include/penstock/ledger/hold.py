"""Holds of a pipeline, in the caller's transaction: the log does not fit what was loaded, and a person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ledger.statements import Room

if TYPE_CHECKING:
    from penstock.errors import HoldKind
    from penstock.ledger.connection import Connection

query = Room("ledger/hold").run


def begin_hold(connection: Connection, pipeline_id: int, kind: HoldKind, cause: str) -> None:
    """Hold a pipeline. Found so again it is the same hold; for something else it is another one."""
    if query(connection, "renew_hold", pipeline_id=pipeline_id, kind=kind, cause=cause).rowcount == 0:
        end_hold(connection, pipeline_id, None)
        query(connection, "begin_hold", pipeline_id=pipeline_id, kind=kind, cause=cause)


def end_hold(connection: Connection, pipeline_id: int, ended_by: str | None) -> None:
    """End the hold of a pipeline, if it is held."""
    query(connection, "end_hold", pipeline_id=pipeline_id, ended_by=ended_by)


def ways_on(kind: HoldKind, name: str) -> str:
    """What a person can do about a hold."""
    if kind == "log_lost":
        return (
            f"find out why the records went (retention, deleted records); then `penstock accept-loss {name} --why …` "
            "(in Airflow: the DAG penstock_accept_loss) records what is lost, and the next run goes on from the log's "
            "start."
        )
    if kind == "log_cut":
        return (
            f"find out what cut the log (an unclean leader election, a restored broker); then `penstock adopt {name} "
            "--why …` goes on from where it was cut."
        )
    return (
        f"find out who changed the topic; then `penstock adopt {name} --why …` goes on with the one that is there, or "
        "bring the old one back."
    )
