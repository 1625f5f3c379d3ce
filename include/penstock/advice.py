"""Next steps: what a person can do about what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.errors import HoldKind


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
