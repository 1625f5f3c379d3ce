"""Next steps: the commands and checks that messages recommend, grouped by noun."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.errors import HoldKind


# Kafka
CHECK_BROKERS = "check that the brokers run and can be reached: `penstock doctor`."
CHECK_BROKERS_AND_RIGHTS = (
    "check that the brokers run and can be reached, and that the topic and the rights to it exist: `penstock doctor`."
)
CORRECT_KAFKA_SETTINGS = "correct the settings (PENSTOCK_KAFKA; in Airflow, the pipeline's Kafka connection)."


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
