"""Every SQL statement of the package is used, has a name and a description, and can be prepared."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

import penstock
from declaring import declare
from penstock.ledger.connection import connect
from penstock.ledger.statements import Statements
from penstock.load.results.tables import create_tables
from penstock.load.results.upsert import guards_table, hash_key, make_pieces, name_columns
from penstock.target.postgres.preparation import ensure_table
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ledger.connection import Connection

PACKAGE = Path(str(penstock.__file__)).parent
FILES = sorted(
    path.relative_to(PACKAGE).with_suffix("").as_posix()
    for path in PACKAGE.rglob("*.sql")
    if "migrations" not in path.parts
)
HEADING = re.compile(r"^-- name: (\w+)\n((?:-- .*\n)*)", re.MULTILINE)
# PREPARE takes queries only.
NEWEST = sql.Identifier("analytics", "newest")
UTILITY = ("create", "do", "set", "grant", "revoke", "drop", "alter", "lock", "copy")


@pytest.fixture
def connection(admin_db: str) -> Iterator[Connection]:
    """A migrated ledger with a target, and a temporary table of rebuilt rows."""
    with connect(admin_db) as connection:
        ensure_table(connection, declare("topic"))
        connection.execute("create temporary table rebuilt (like analytics.orders)")
        connection.execute(Statements("ledger/quarantine").texts["create_set_aside"].encode())
        _create_result(connection)
        yield connection


def _create_result(connection: Connection) -> None:
    """Create an upsert, and the relations that exist while its rows change."""
    pipeline = declare("topic", results=[{"table": "analytics.newest", "mode": "upsert", "key": ["id"]}])
    create_tables(connection, pipeline, 1, name_columns(pipeline, pipeline.results[0]), NEWEST)
    connection.execute(b"create temporary table penstock_affected as select id from analytics.newest")
    for name in ("penstock_wanted", "rebuilt_result"):
        connection.execute(f"create temporary table {name} as select * from analytics.newest".encode())
    connection.execute(b"create temporary table penstock_tops as select *, false as _deleted from analytics.newest")
    connection.execute(b"create temporary table penstock_ranked as select *, 1 as _place from penstock_tops")
    connection.execute(b"create temporary table penstock_left_out as select id from analytics.newest")
    connection.execute(b"create temporary view penstock_rows as select *, 1::bigint _generation from analytics.orders")


def _name_result() -> dict[str, sql.Composable]:
    pipeline = declare("topic", results=[{"table": "analytics.newest", "mode": "upsert", "key": ["id"]}])
    note = sql.Identifier("note")
    pieces = make_pieces(name_columns(pipeline, pipeline.results[0]), NEWEST, guards_table(1))
    pieces |= {"built": sql.Identifier("rebuilt_result"), "hash": hash_key(sql.Identifier("id"))}
    pieces |= {"old_key": sql.Identifier("r", "id"), "new_key": sql.Identifier("b", "id")}
    pieces |= {"other_key": sql.Identifier("o", "id"), "guard_key": sql.Identifier("g", "id")}
    pieces |= {"deleted_key": sql.Identifier("d", "id")}
    pieces |= {"old": sql.Identifier("r", "note"), "new": sql.Identifier("b", "note")}
    for name in ("winner_values", "wanted"):
        pieces[name] = sql.SQL("{}.{}").format(sql.Identifier("w"), note)
    for name in ("result_values", "found"):
        pieces[name] = sql.SQL("{}.{}").format(sql.Identifier("r"), note)
    return pieces


@pytest.mark.parametrize("file", FILES)
def test_every_statement_has_a_description_and_a_name_of_its_own(file: str) -> None:
    headings = HEADING.findall((PACKAGE / f"{file}.sql").read_text(encoding="utf-8"))

    assert [name for name, count in Counter(name for name, _ in headings).items() if count > 1] == []
    assert [name for name, description in headings if not description] == []
    assert [name for name, _ in headings] == list(Statements(file).texts)


@pytest.mark.parametrize("file", FILES)
def test_every_statement_is_used(file: str) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))

    assert [name for name in Statements(file).texts if f'"{name}"' not in code] == []


@pytest.mark.parametrize("file", FILES)
def test_every_ledger_statement_has_a_module_beside_it(file: str) -> None:
    if file.startswith("ledger/"):
        module = (PACKAGE / f"{file}.py").read_text(encoding="utf-8")
        assert f'Statements("{file}")' in module


@pytest.mark.parametrize("file", FILES)
def test_every_statement_prepares_on_a_migrated_ledger(connection: Connection, file: str) -> None:
    target = target_identifier(declare("topic").target)
    pieces: dict[str, sql.Composable] = dict.fromkeys(("target", "table", "staged", "kept", "into"), target)
    pieces["row_hash"] = sql.SQL("1::numeric")
    pieces["condition"] = sql.SQL("_offset > 0")
    pieces["judged"] = sql.SQL("case when (_offset > 0) is false then 0 end")
    pieces["chosen"] = sql.SQL("q.pipeline = %(pipeline)s")
    pieces["ids"] = sql.SQL("id, note")
    pieces["known"] = sql.SQL("id is not null")
    pieces["source"] = sql.SQL("0")
    pieces["near"] = sql.SQL("t._offset > 0")
    pieces["no_rows"] = sql.SQL("(select null::bigint as _offset where false)")
    if file.startswith("load/results/"):
        pieces |= _name_result()
    refused = {}
    for name, text in Statements(file).texts.items():
        if text.lower().startswith(UTILITY):
            continue
        with connection.transaction(force_rollback=True):
            try:
                connection.execute(sql.SQL("prepare {} as {}").format(sql.Identifier(name), _number(text, pieces)))
            except psycopg.Error as error:
                refused[name] = str(error)

    assert refused == {}


def _number(text: str, pieces: dict[str, sql.Composable]) -> sql.SQL:
    """The statement with its pieces filled in and its parameters numbered, as the server gets it."""
    composed = sql.SQL(text).format(**pieces) if re.search(r"\{[a-z_]+\}", text) else sql.SQL(text)
    written = composed.as_string(None)
    if not re.search(r"\$\d", written):
        names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", written)))
        written = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", written).replace("%%", "%")
    return sql.SQL(written)
