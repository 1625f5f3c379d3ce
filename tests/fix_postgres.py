"""A real PostgreSQL for the session; a fresh, migrated database for every test that asks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from penstock.stack import ports
from penstock.stack.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server that the whole session shares; who stops or kills it starts it again."""
    server = Postgres(tmp_path_factory.mktemp("stack") / "postgres", *ports.choose(1))
    try:
        server.start()
        yield server
    finally:
        server.stop("immediate")


@pytest.fixture(scope="session")
def _template(postgres: Postgres) -> str:
    """A database with the ledger in it; cloning it is much faster than migrating again."""
    from penstock.ledger import migrate

    migrate(postgres.create_database("penstock_template"))
    return "penstock_template"


@pytest.fixture
def db(postgres: Postgres, _template: str) -> Iterator[str]:
    """The URI of a fresh database with the ledger, for one test."""
    name = f"test_{next(_numbers)}"
    try:
        yield postgres.create_database(name, template=_template)
    finally:
        postgres.start()  # a test may have ended with the server down
        postgres.drop_database(name)
