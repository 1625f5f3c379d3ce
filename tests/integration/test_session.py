"""No session keeps settings of roles, URIs or environments that would change values, rows or results."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from declaring import declare
from fix_loads import stage_rows
from loading_process import await_blocked
from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger import session
from penstock.ledger.connection import concerning, connect
from penstock.target.postgres.rows import hash_row
from privileges import superuser
from producing import Account
from whole_loads import Loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

    AsRole = Callable[[str, str], str]

WAITING = "update penstock.load set cause = 'waits' where load_id = %s"

# Each setting changes the meaning of a value, a name or a statement.
FOREIGN = {
    "client_encoding": "LATIN1",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "iso_8601",
    "TimeZone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "row_security": "on",
    "transform_null_equals": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "statement_timeout": "1",
    "transaction_timeout": "1",
    "idle_session_timeout": "1",
}
ENVIRONMENT = {
    "PGCLIENTENCODING": "LATIN1",
    "PGTZ": "Asia/Kathmandu",
    "PGDATESTYLE": "SQL, DMY",
    "PGOPTIONS": "-c extra_float_digits=-15",
}


@pytest.fixture
def as_role(db: str) -> Iterator[AsRole]:
    """Make a role with a setting, and return its URI."""
    roles: list[sql.Identifier] = []

    def make(name: str, value: str) -> str:
        role = f"foreign_{len(roles)}"
        with psycopg.connect(superuser(db), autocommit=True) as connection:
            connection.execute(sql.SQL("create role {} login superuser password 'x'").format(sql.Identifier(role)))
            roles.append(sql.Identifier(role))
            words = sql.SQL(", ").join(map(sql.Literal, value.split(", ")))
            connection.execute(
                sql.SQL("alter role {} set {} to {}").format(roles[-1], sql.Identifier(name), words)
            )  # fmt: skip
        return make_conninfo(db, user=role, password="x")

    yield make
    with psycopg.connect(superuser(db), autocommit=True) as connection:
        for role in roles:
            connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


def read_settings(uri: str) -> dict[str, str]:
    """The settings that a session of Penstock has, as PostgreSQL spells them."""
    with closing(connect(uri)) as connection:
        rows = [connection.execute("select current_setting(%s)", [name]).fetchone() for name in FOREIGN]
    return {name: row[0] for name, row in zip(FOREIGN, rows, strict=True) if row}


@pytest.fixture
def usual(db: str) -> dict[str, str]:
    return read_settings(db)


def test_every_setting_of_penstock_is_tested_with_another_value(usual: dict[str, str]) -> None:
    assert FOREIGN.keys() == session.SETTINGS.keys() | {"client_encoding"}
    assert all(usual[name] != value for name, value in FOREIGN.items() if name != "row_security")


@pytest.mark.parametrize(("name", "value"), FOREIGN.items())
def test_setting_of_a_role_is_not_kept(name: str, value: str, as_role: AsRole, usual: dict[str, str]) -> None:
    assert read_settings(as_role(name, value)) == usual


def test_no_schema_of_the_search_path_comes_before_the_catalog(db: str, as_role: AsRole) -> None:
    found = []
    for uri in (as_role("search_path", "shadow, pg_catalog"), make_conninfo(db, options="-c search_path=shadow")):
        with closing(connect(uri)) as connection:
            connection.execute("create schema shadow; create function shadow.abs(int) returns int return 42")
            found.append(connection.execute("select abs(-1), current_setting('search_path')").fetchone())
    assert found == [(1, "pg_catalog, shadow, pg_catalog"), (1, "pg_catalog, shadow")]


def test_options_of_the_uri_are_kept_unless_they_change_values(db: str, usual: dict[str, str]) -> None:
    uri = make_conninfo(db, options="-c client_encoding=LATIN1 -c timezone=Asia/Kathmandu -c work_mem=7MB")
    assert read_settings(uri) == usual
    with closing(connect(make_conninfo(uri, options="-c search_path= -c work_mem=7MB"))) as connection:
        assert connection.execute("show work_mem").fetchone() == ("7MB",)


@pytest.mark.parametrize(("name", "value"), ENVIRONMENT.items())
def test_setting_of_the_environment_is_not_kept(
    name: str, value: str, db: str, usual: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert read_settings(db) == usual


COLUMNS = {
    "city": {"type": "text"},
    "short": {"type": "varchar(9)", "path": "$.city"},
    "day": {"type": "date"},
    "at": {"type": "timestamptz"},
    "plain": {"type": "timestamp", "path": "$.local"},
    "exact": {"type": "double precision"},
    "single": {"type": "real"},
    "price": {"type": "numeric(12,2)"},
    "raw": {"type": "bytea"},
    "doc": {"type": "jsonb"},
    "doc_text": {"type": "json", "path": "$.doc"},
}
RECORD = (
    '{"city": "Zürich", "day": "2026-03-02", "at": "2026-03-02T10:00:00+01:00", "local": "2026-03-02T10:00:00",'
    ' "exact": 0.1, "single": 0.1, "price": 1234.56, "raw": "w7w=", "doc": {"a": ["ü\\\\", null, "1\'2"]}}'
)
DOC = {"a": ["ü\\", None, "1'2"]}
ROW = (
    "Zürich", "Zürich", date(2026, 3, 2), datetime(2026, 3, 2, 9, tzinfo=UTC), datetime(2026, 3, 2, 10),  # noqa: DTZ001
    0.1, 0.1, Decimal("1234.56"), "ü".encode(), DOC, DOC,
)  # fmt: skip


@pytest.fixture
def load_as(db: str, kafka: Broker, make_topic: MakeTopic, spark: SparkSession) -> Callable[[str], None]:
    """Load and verify records by the given URI, then compare the tables in an ordinary session."""

    def load(uri: str) -> None:
        account = Account(kafka.bootstrap, make_topic(1))
        account.send([RECORD.encode(), b"no JSON", RECORD.encode()], key="ü".encode())
        loader = Loader(uri, kafka.bootstrap, spark, declare(account.topic, columns=COLUMNS, key="text"))
        loader.load()
        assert loader.verify().faults == ()
        with pytest.MonkeyPatch.context() as ordinary:
            for name in ENVIRONMENT:
                ordinary.delenv(name, raising=False)
            compare_tables(loader)

    def compare_tables(loader: Loader) -> None:
        with psycopg.connect(superuser(db)) as connection:
            names = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
            rows = connection.execute(sql.SQL("select {} from analytics.orders").format(names)).fetchall()
            keys = connection.execute("select _key, count(*) from analytics.orders group by 1").fetchall()
            quarantined = connection.execute("select key, value, reason from penstock.quarantine").fetchall()
            hashes = connection.execute(
                sql.SQL("select sum({}) = (select sum(row_hash) from penstock.coverage) from analytics.orders").format(
                    hash_row(loader.pipeline)
                )
            ).fetchall()
        assert rows == [ROW, ROW]
        assert keys == [("ü", 2)]
        assert quarantined == [("ü".encode(), b"no JSON", "bad_json")]
        assert hashes == [(True,)]

    return load


@pytest.mark.parametrize(("name", "value"), [*FOREIGN.items(), ("search_path", "shadow, pg_catalog")])
def test_whole_load_by_a_role_with_foreign_settings_stores_the_sent_values(
    name: str, value: str, db: str, as_role: AsRole, load_as: Callable[[str], None]
) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("create schema shadow")
        connection.execute(
            "create function shadow.hashtextextended(text, bigint) returns bigint language sql as 'select 42::bigint'"
        )
    load_as(as_role(name, value))


def test_whole_load_in_a_foreign_environment_stores_the_sent_values(
    db: str, spark: SparkSession, load_as: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)  # of the tasks
    load_as(db)


def test_an_error_of_a_lock_names_pipeline_and_table_and_finds_the_holder(db: str) -> None:
    load_id = stage_rows(db)
    find_holder = advice.FIND_LOCK[advice.FIND_LOCK.index("select w.pid") : advice.FIND_LOCK.index("; end it")]

    def wait() -> None:
        with connect(db) as waiting:
            waiting.execute(WAITING, [load_id])

    with psycopg.connect(superuser(db), application_name="the holder") as holder:
        holder.execute(WAITING, [load_id])
        with connect(db) as hasty:
            hasty.execute("set lock_timeout = '10ms'")
            named = r"orders load 1: another session .* on a row of load: "
            with pytest.raises(PenstockError, match=named) as raised, concerning("orders", load_id):
                hasty.execute(WAITING, [load_id])
        waiter = threading.Thread(target=wait)
        waiter.start()
        await_blocked(superuser(db))
        with psycopg.connect(superuser(db)) as connection:
            found = connection.execute(find_holder.encode()).fetchall()
        holder.rollback()
        waiter.join(60)
        assert [(each[1], each[2]) for each in found] == [(holder.info.backend_pid, "the holder")]
    assert raised.value.next_step == advice.FIND_LOCK
