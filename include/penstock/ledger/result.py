"""Results in the ledger: which tables are derived from a pipeline's rows, and by which definition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - rows are read by the annotations
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import Jsonb

from penstock import advice
from penstock.declaration.results import Result
from penstock.errors import WrongUseError
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/result")


class ResultState(StrEnum):
    """The state of a result. A waiting one needs a rebuild, because its pipeline has published rows without it."""

    WAITING = "waiting"
    BUILDING = "building"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class KnownResult:
    """A result as the ledger holds it: the definition stays that of the table until a rebuild."""

    result_id: int
    pipeline_id: int
    table_name: str
    definition: dict[str, Any]
    state: ResultState
    built_until: int | None
    build_to: int | None
    guards_dropped_at: datetime | None

    @property
    def result(self) -> Result:
        """The definition."""
        return Result.model_validate(self.definition)


@dataclass(frozen=True, slots=True)
class ListedResult:
    """A table of results. Its state is that of the newest definition; `is_current` if the table changes with each load.

    `rows` is an estimate, None without a table. The figures of a rebuild are None unless the state is building, and
    those of a verification are None if none has ended since the result became current.
    """

    table: str
    mode: str
    key: list[str]
    state: ResultState
    is_current: bool
    is_provable: bool
    rows: int | None
    declared_at: datetime
    current_since: datetime | None
    load: int | None
    built_until: int | None
    build_to: int | None
    rows_read: int | None
    rows_to_read: int | None
    verification_id: int | None
    verified_at: datetime | None
    share: float | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class Piece:
    """The next loads that a rebuild reads; `until_load` is None if none is left."""

    until_load: int | None
    rows: int


def read_results(connection: Connection, pipeline_id: int) -> list[KnownResult]:
    """Read the results of a pipeline."""
    return _statements.fetch_all(connection, KnownResult, "read_results", pipeline_id=pipeline_id)


def list_results(connection: Connection, pipeline_id: int) -> list[ListedResult]:
    """Read the tables of a pipeline's results as people see them, by name."""
    return _statements.fetch_all(connection, ListedResult, "list_results", pipeline_id=pipeline_id)


def has_published(connection: Connection, pipeline_id: int) -> bool:
    """Whether a load of the pipeline was ever published."""
    return _statements.fetch_value(connection, bool, "has_published", pipeline_id=pipeline_id)


def add_result(connection: Connection, pipeline_id: int, result: Result, state: ResultState) -> int:
    """Add a result, and return its number."""
    return _add(connection, "add_result", pipeline_id, result, state=state)


def remove_results(connection: Connection, result_ids: Sequence[int]) -> None:
    """Remove results; their tables stay."""
    _statements.execute(connection, "remove_results", result_ids=list(result_ids))


def mark_changed(connection: Connection, result_ids: Sequence[int], load_id: int) -> None:
    """Note the load that has changed results."""
    _statements.execute(connection, "mark_changed", result_ids=list(result_ids), load_id=load_id)


def mark_guards_dropped(connection: Connection, result_id: int) -> None:
    """Note that guards of a result were dropped after their time."""
    _statements.execute(connection, "mark_guards_dropped", result_id=result_id)


def begin_building(connection: Connection, pipeline_id: int, result: Result) -> int:
    """Begin the rebuild of a result, and return its number."""
    return _add(connection, "begin_building", pipeline_id, result)


def find_piece(connection: Connection, known: KnownResult, most: int) -> Piece:
    """Find the next loads of a rebuild, with about so many rows."""
    where = {"pipeline_id": known.pipeline_id, "built_until": known.built_until, "build_to": known.build_to}
    return _statements.fetch_only(connection, Piece, "find_piece", **where, most=most)


def mark_built(connection: Connection, result_id: int, until_load: int) -> None:
    """Note how far a rebuild has read."""
    _statements.execute(connection, "mark_built", result_id=result_id, until_load=until_load)


def finish_building(connection: Connection, result_id: int) -> None:
    """Make a rebuilt result the current one."""
    _statements.execute(connection, "finish_building", result_id=result_id)


def _add(connection: Connection, statement: str, pipeline_id: int, result: Result, **values: object) -> int:
    definition = Jsonb(result.model_dump(mode="json"))
    where = {"pipeline_id": pipeline_id, "table_name": str(result.table), "definition": definition}
    try:
        return _statements.fetch_value(connection, int, statement, **where, **values)
    except psycopg.errors.UniqueViolation as error:
        raise WrongUseError(
            f"another pipeline of this database has the result {result.table}.", next_step=advice.OTHER_RESULT_TABLE
        ) from error
