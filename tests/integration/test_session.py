"""Settings of roles, URIs and environments that would change values, rows or results: no session keeps them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from penstock import session
from penstock.ledger import connect
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    AsRole = Callable[[str, str], str]

# Every one changes what a value, a name or a statement means.
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
    """Makes a role that has a setting, and gives the URI by which it connects."""
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


def test_every_setting_that_is_settled_is_tried_with_another_value(usual: dict[str, str]) -> None:
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
