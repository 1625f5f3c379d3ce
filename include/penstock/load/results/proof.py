"""The proof of results: their tables are compared with what the rows of the target give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import IsolationLevel, sql

from penstock.declaration.carried import UPSERT_CARRIED
from penstock.declaration.columns import parse_type
from penstock.errors import ResultError
from penstock.ledger.connection import describe_refusal
from penstock.ledger.dropped import count_dropped
from penstock.ledger.result import ResultState, read_results
from penstock.ledger.statements import Statements
from penstock.load.results import upsert
from penstock.load.results.writer import OF_STATEMENTS, run_as_writer
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


def begin_proof(connection: Connection, target: Target) -> None:
    """Begin the transaction of a proof: the rows and the results, which change together, in one snapshot.

    The target is locked before the snapshot is taken. A leaf that is dropped after the snapshot and before its first
    reading would be missing, because a snapshot does not cover the catalog, and the ledger would still have its rows.
    """
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.execute(sql.SQL("lock table {} in access share mode").format(target_identifier(target)))


def find_result_faults(connection: Connection, pipeline_id: int, target: Target, share: float) -> list[ResultFault]:
    """Compare the current results with the rows of the target, in the transaction of `begin_proof`.

    Of an upsert a share of the keys is compared, chosen by their hashes; of a result by statements all rows are, if the
    declaration has a query for it.
    """
    faults = []
    for known in read_results(connection, pipeline_id):
        if known.state != ResultState.CURRENT:
            continue
        try:
            with connection.transaction():  # the next result is compared in any case
                messages = _compare(connection, known, target, share)
        except ResultError as error:
            messages = [f"the check of the result failed: {error.what}"]
        except OF_STATEMENTS as error:  # a person altered or dropped the table
            messages = [f"it cannot be compared: {describe_refusal(error)}"]
        faults += [ResultFault(known.table_name, message) for message in messages]
    return faults


def _compare(connection: Connection, known: KnownResult, target: Target, share: float) -> list[str]:
    result = known.result
    if result.mode == "upsert":
        compared, guards = _compare_upsert(connection, known, target, share)
        return [*_describe(compared, "keys"), *_describe(guards, "guards (deletions, and overtaken rows)")]
    if not result.check or count_dropped(connection, known.pipeline_id):  # the query would need all rows
        return []
    rows = target_identifier(target)
    return _describe(compare_statements(connection, result, target_identifier(result.table), rows), "keys")


def _describe(compared: Compared, noun: str) -> list[str]:
    if not (compared.missing or compared.extra or compared.different):
        return []
    wrong = f"{compared.missing} are missing, {compared.extra} are too many and {compared.different} have other values"
    return [f"of {compared.keys} {noun} {wrong} than the rows of the target give"]


def _compare_upsert(
    connection: Connection, known: KnownResult, target: Target, share: float
) -> tuple[Compared, Compared]:
    """Compare the table of an upsert, and the guards beside it."""
    result, table = known.result, target_identifier(known.result.table)
    guards = upsert.guards_table(known.result_id)
    upsert.rank_rows(connection, result, table, guards, target_identifier(target), share)
    names = [*(name for name, _ in result.columns or ()), *UPSERT_CARRIED]
    pieces = {
        "table": table,
        "guards": guards,
        "key": join_names(result.key),
        "hash": upsert.hash_key(join_names(result.key)),
        "winner_values": upsert.qualify("w", names),
        "result_values": upsert.qualify("r", names),
        "winner_key": upsert.qualify("w", result.key),
        "guard_key": upsert.qualify("g", result.key),
        "deleted_key": upsert.qualify("d", result.key),
    }
    dropped = pieces | {"pipeline_id": sql.Literal(known.pipeline_id)}
    _statements.execute(connection, "leave_out_dropped", dropped)
    _statements.execute(connection, "forget_left_out", pieces)
    below = upsert.hash_bound(share)
    compared = _statements.fetch_only(connection, Compared, "compare_upsert", pieces, below=below)
    were_dropped = known.guards_dropped_at is not None
    found = _statements.fetch_only(
        connection, Compared, "compare_guards", pieces, below=below, were_dropped=were_dropped
    )
    upsert.drop_ranked(connection)
    connection.execute("drop table penstock_left_out")
    return compared, found


def compare_statements(
    connection: Connection, result: Result, table: sql.Identifier, target: sql.Identifier
) -> Compared:
    """Compare a table with its check query over the view `rows`, which has all rows of the target."""
    names = [name for name, _ in result.columns or ()]
    pieces: dict[str, sql.Composable] = {
        "table": table,
        "target": target,
        "columns": join_names(names),
        "key": join_names(result.key),
        "wanted": _qualify_comparable("w", result),
        "found": _qualify_comparable("r", result),
    }
    for name in ("name_rows", "prepare_wanted"):
        _statements.execute(connection, name, pieces)
    statement = sql.SQL("insert into penstock_wanted ({}) {}").format(pieces["columns"], sql.SQL(result.check or ""))
    run_as_writer(connection, statement, reads=["rows"], writes=["penstock_wanted"])
    compared = _statements.fetch_only(connection, Compared, "compare_statements", pieces)
    _statements.execute(connection, "drop_wanted")
    return compared


def _qualify_comparable(alias: str, result: Result) -> sql.Composed:
    """Join the columns of a result by statements. PostgreSQL compares no values of json, so their texts are."""
    return sql.SQL(", ").join(
        sql.SQL("{}::text" if parse_type(type_).family == "json" else "{}").format(sql.Identifier(alias, name))
        for name, type_ in result.columns or ()
    )
