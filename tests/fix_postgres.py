"""A real PostgreSQL for the session; a fresh, migrated database for every test that uses the fixture."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

import psycopg
import pytest

from penstock.ledger.roles import CHECKER, LOADER, arrange_roles
from penstock_stack import ports
from penstock_stack.postgres import Postgres
from privileges import remember

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server that the whole session shares; a test that stops or kills it starts it again."""
    server = Postgres(tmp_path_factory.mktemp("stack") / "postgres", *ports.choose(1))
    try:
        server.start()
        remember(server)
        yield server
    finally:
        server.stop("immediate")


@pytest.fixture(scope="session")
def _template(postgres: Postgres) -> str:
    """A database with the ledger in it; cloning it is much faster than migrating again."""
    from penstock.ledger.connection import migrate

    migrate(postgres.create_database("penstock_template"))
    for role in (LOADER, CHECKER):
        postgres.create_login(role)
    with psycopg.connect(postgres.uri("penstock_template")) as connection:
        connection.execute("grant all on schema public to public")  # for tables that tests make by hand
    return "penstock_template"


class FreshDatabase(Protocol):
    """Makes a database with the ledger for a while, and gives the loader's URI."""

    def __call__(self) -> AbstractContextManager[str]: ...


@pytest.fixture
def fresh_database(postgres: Postgres, _template: str) -> FreshDatabase:
    """Fresh databases for the examples of one test; `db` is one for a whole test."""

    @contextmanager
    def make() -> Iterator[str]:
        name = f"test_{next(_numbers)}"
        try:
            uri = postgres.create_database(name, template=_template)
            with psycopg.connect(uri) as connection:  # a clone copies everything except the rights on the database
                arrange_roles(connection)
            yield postgres.uri(name, LOADER)
        finally:
            postgres.start()  # the last test may have stopped the server
            postgres.drop_database(name)

    return make


@pytest.fixture
def db(fresh_database: FreshDatabase) -> Iterator[str]:
    """The loader's URI of a fresh database with the ledger, for one test."""
    with fresh_database() as uri:
        yield uri


@pytest.fixture
def admin_db(postgres: Postgres, db: str) -> str:
    """The superuser's URI of the same database."""
    return postgres.uri(db.rpartition("/")[2])


@pytest.fixture
def checker_db(postgres: Postgres, db: str) -> str:
    """The checks' URI of the same database."""
    return postgres.uri(db.rpartition("/")[2], CHECKER)
