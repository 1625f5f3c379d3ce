"""The facts about a published load, and about a rollback, that their events are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.ledger.connection import open_ledger
from penstock.ledger.event import ROLLBACK_UNDONE
from penstock.ledger.lineage import read_move, read_times, summarize_checks
from penstock.ledger.load import read_load, read_staged_ranges
from penstock.ledger.result import ResultState, read_results
from penstock.lineage.names import name_table, name_topic
from penstock.model.load import LoadState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.ledger.lineage import Move, Outcome, Times
    from penstock.lineage.names import Place
    from penstock.model.load import Load
    from penstock.model.ranges import Range


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that the events of a load say."""

    load: Load
    times: Times
    ranges: Sequence[Mapping[str, Any]]
    outcomes: Sequence[Outcome]
    topic: Place
    table: Place
    results: Sequence[tuple[Place, Result]]


@dataclass(frozen=True, slots=True)
class Moved:
    """Everything that the events of a rollback, or of its undo, say. The state of the load is the one after it."""

    load: Load
    move: Move
    ranges: Sequence[Mapping[str, Any]]
    table: Place
    results: Sequence[tuple[Place, Result]]


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that has published the load or moved its rows: a task of Airflow."""

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
            _name_results(connection, load),
        )


def read_moved(uri: str, load: Load, ranges: Sequence[Range]) -> Moved:
    """Read the newest rollback of a load, or its newest undo; `ranges` are those that it moved."""
    with open_ledger(uri) as connection:
        return Moved(
            load,
            read_move(connection, load.load_id, load.state if load.state == LoadState.ROLLED_BACK else ROLLBACK_UNDONE),
            [{"partition": each.partition, "from": each.from_offset, "until": each.until_offset} for each in ranges],
            name_table(connection, load.declaration.target),
            _name_results(connection, load),
        )


def _name_results(connection: Connection, load: Load) -> list[tuple[Place, Result]]:
    """Name the tables that change with the rows; a result that waits for its rebuild, or is in it, is not seen yet."""
    known = read_results(connection, load.pipeline_id)
    return [
        (name_table(connection, each.result.table), each.result) for each in known if each.state == ResultState.CURRENT
    ]
