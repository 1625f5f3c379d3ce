"""The facts about a published load that its events are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.ledger.connection import open_ledger
from penstock.ledger.lineage import read_times, summarize_checks
from penstock.ledger.load import read_load, read_staged_ranges
from penstock.lineage.names import name_table, name_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ledger.lineage import Outcome, Times
    from penstock.lineage.names import Place
    from penstock.model.load import Load


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that the events of a load say."""

    load: Load
    times: Times
    ranges: Sequence[Mapping[str, Any]]
    outcomes: Sequence[Outcome]
    topic: Place
    table: Place


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that has published the load: a task of Airflow."""

    namespace: str
    job: str
    run: str


def read_published(uri: str, kafka: Mapping[str, str], load_id: int) -> Published | None:
    """Read a load and its times; None if it is not published."""
    with open_ledger(uri) as connection:
        times = read_times(connection, load_id)
        if times is None:
            return None
        load = read_load(connection, load_id)
        return Published(
            load,
            times,
            read_staged_ranges(connection, load_id),
            summarize_checks(connection, load_id),
            name_topic(kafka, load.declaration.topic),
            name_table(connection, load.declaration.target),
        )
