"""The proof of results: their tables are compared with what the rows of the target give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.errors import ResultError
from penstock.ledger.result import ResultState, read_results
from penstock.ledger.statements import Statements
from penstock.load.results import upsert
from penstock.load.results.writer import run_as_writer
from penstock.target.postgres.table import join_names, target_identifier

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Target
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.ledger.result import KnownResult

_statements = Statements("load/results/proof")


@dataclass(frozen=True, slots=True)
class Compared:
    """The keys of a result that were compared, and how many of them are wrong."""

    keys: int
    missing: int
    extra: int
    different: int


@dataclass(frozen=True, slots=True)
class ResultFault:
    """A result that is not what the rows of the target give."""

    table: str
    message: str


def find_result_faults(connection: Connection, pipeline_id: int, target: Target, share: float) -> list[ResultFault]:
    """Compare the current results with the rows of the target, in the caller's transaction.

    Its snapshot must stay the same for all statements. Of an upsert a share of the keys is compared, chosen by their
    hashes; of a result by statements all rows are, if the declaration has a query for it.
    """
    faults = []
    for known in read_results(connection, pipeline_id):
        if known.state != ResultState.CURRENT:
            continue
        try:
            compared = _compare(connection, known, target, share)
        except ResultError as error:
            faults.append(ResultFault(known.table_name, f"the check of the result failed: {error.what}"))
            continue
        if compared.missing or compared.extra or compared.different:
            faults.append(
                ResultFault(
                    known.table_name,
                    f"of {compared.keys} keys {compared.missing} are missing, {compared.extra} are too many and "
                    f"{compared.different} have other values than the rows of the target give",
                )
            )
    return faults


def _compare(connection: Connection, known: KnownResult, target: Target, share: float) -> Compared:
    result = known.result
    if result.mode == "upsert":
        return _compare_upsert(connection, known, target, share)
    return _compare_statements(connection, result, target) if result.check else Compared(0, 0, 0, 0)


def _compare_upsert(connection: Connection, known: KnownResult, target: Target, share: float) -> Compared:
    result, table = known.result, target_identifier(known.result.table)
    upsert.rank_rows(connection, result, table, upsert.guards_table(known.result_id), target_identifier(target), share)
    names = [*(name for name, _ in result.columns or ()), *upsert.LINEAGE]
    pieces = {
        "table": table,
        "key": join_names(result.key),
        "hash": upsert.hash_key(result.key),
        "winner_values": upsert.qualify("w", names),
        "result_values": upsert.qualify("r", names),
    }
    compared = _statements.fetch_only(connection, Compared, "compare_upsert", pieces, below=upsert.hash_bound(share))
    upsert.drop_ranked(connection)
    return compared


def _compare_statements(connection: Connection, result: Result, target: Target) -> Compared:
    """Compare a table with its check query over the view `rows`, which has all rows of the target."""
    names = [name for name, _ in result.columns or ()]
    pieces = {
        "table": target_identifier(result.table),
        "target": target_identifier(target),
        "columns": join_names(names),
        "key": join_names(result.key),
        "wanted": upsert.qualify("w", names),
        "found": upsert.qualify("r", names),
    }
    for name in ("name_rows", "prepare_wanted"):
        _statements.execute(connection, name, pieces)
    statement = sql.SQL("insert into penstock_wanted ({}) {}").format(pieces["columns"], sql.SQL(result.check or ""))
    run_as_writer(connection, statement, reads=["rows"], writes=["penstock_wanted"])
    compared = _statements.fetch_only(connection, Compared, "compare_statements", pieces)
    _statements.execute(connection, "drop_wanted")
    return compared
