"""Roles: the loader and the checks can do what they have to, and nothing else."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_loads import stage_rows
from penstock.ledger import connect, migrate
from penstock.roles import OWNER, arrange_roles
from penstock.stack import ports
from penstock.stack.postgres import Postgres

LEAVING_THE_DATABASE = [
    "copy (select 1) to program 'true'",
    "copy (select 1) to '/tmp/penstock_was_here'",
    "select pg_read_file('/etc/shadow')",
    "select pg_read_file('PG_VERSION')",
    "select pg_ls_dir('.')",
    "select lo_import('/etc/passwd')",
]


@pytest.mark.parametrize("statement", LEAVING_THE_DATABASE)
def test_neither_loader_nor_checks_leave_the_database(db: str, checker_db: str, statement: str) -> None:
    for uri in (db, checker_db):
        with psycopg.connect(uri) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_not_even_the_superuser_reads_files_of_root(postgres: Postgres) -> None:
    with psycopg.connect(postgres.uri("postgres")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select pg_read_file('/etc/shadow')")
    found = []
    for pid in postgres.pids():
        with suppress(FileNotFoundError, ProcessLookupError):  # backends come and go
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            found += re.findall(r"^Cap(?:Eff|Prm|Amb|Inh):\s+(\w+)$", status, re.MULTILINE)
    assert set(found) == {"0" * 16}


@pytest.mark.parametrize(
    "statement",
    [
        "drop table penstock.coverage",
        "create table penstock.mine (id int)",
        "delete from penstock.event",
        "update penstock.coverage set load_id = 1",
        "delete from penstock.load",
        "update penstock.migration set name = 'x'",
        "create role mine",
        "set role penstock_owner",
    ],
)
def test_the_loader_has_no_right_that_its_statements_do_not_need(db: str, statement: str) -> None:
    with psycopg.connect(db) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_the_reader_sees_the_views_and_no_payload(admin_db: str, db: str) -> None:
    stage_rows(db, quarantined=[(0, 3)])
    with psycopg.connect(admin_db, autocommit=True) as connection:
        connection.execute("set role penstock_reader")
        views = connection.execute(
            "select relname from pg_class where relnamespace = 'penstock'::regnamespace and relkind = 'v'"
        ).fetchall()
        for (view,) in views:
            if view != "quarantined":
                connection.execute(f"select * from penstock.{view}".encode())
        connection.execute("select pipeline, load_id, partition, reason, detail from penstock.quarantined")
        for refused in ("select key from penstock.quarantined", "select value from penstock.quarantine"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())
        connection.execute("set role penstock_quarantine_reader")
        connection.execute("select key, value, headers from penstock.quarantined")
        connection.execute("select * from penstock.loads")


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """A server of the test's own: roles belong to a whole server."""
    own = Postgres(tmp_path / "postgres", *ports.choose(1))
    own.start()
    try:
        yield own
    finally:
        own.stop("immediate")


def test_databases_that_migrate_at_the_same_time_make_the_roles_once(server: Postgres) -> None:
    databases = [server.create_database(f"loads_{number}") for number in range(6)]

    with ThreadPoolExecutor(len(databases)) as pool:
        migrated = list(pool.map(migrate, databases))

    assert [found.refused for found in migrated] == [[]] * len(databases)
    for uri in databases:
        with connect(uri) as connection:
            assert connection.execute("select count(*) from pg_roles where rolname like 'penstock%'").fetchone() == (5,)
            assert arrange_roles(connection) == []


def test_an_owner_without_roles_migrates_and_is_told_what_a_superuser_has_to_run(server: Postgres) -> None:
    server.create_database("loads")
    server.create_login("loads")
    with psycopg.connect(server.uri("postgres"), autocommit=True) as connection:
        connection.execute("alter database loads owner to loads")
    uri = server.uri("loads", "loads")

    migrated = migrate(uri)
    stage_rows(uri)

    assert "create role penstock_checker nologin" in migrated.refused
    with psycopg.connect(server.uri("loads"), autocommit=True) as connection:
        for statement in migrated.refused:
            connection.execute(statement.encode())
        owners = connection.execute(
            "select distinct tableowner from pg_tables where schemaname = 'penstock'"
        ).fetchall()
    assert owners == [(OWNER,)]
    assert migrate(uri).refused == []
    stage_rows(uri, kind="backfill")  # by the rights of a loader now
    with psycopg.connect(uri) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("delete from penstock.event")
