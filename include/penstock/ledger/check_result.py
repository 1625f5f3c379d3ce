"""Results of checks in the ledger, in the caller's transaction; quality/ runs the other statements of the file."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.connection import Connection
    from penstock.model.load import CheckResult

_statements = Statements("ledger/check_result")


def record_checks(connection: Connection, load_id: int, attempt: int, results: Sequence[CheckResult]) -> None:
    """Record the results of the checks on an attempt, in place of those of an earlier run."""
    rows = [{**asdict(result), "ordinal": ordinal} for ordinal, result in enumerate(results)]
    _statements.execute(connection, "forget_checks", load_id=load_id, attempt=attempt)
    _statements.execute(connection, "record_checks", load_id=load_id, attempt=attempt, results=Jsonb(rows))


def try_regex(connection: Connection, regex: str) -> None:
    """Raise a DataError of psycopg if PostgreSQL cannot read a regular expression."""
    _statements.execute(connection, "try_regex", regex=regex)
