"""Migrations: numbered SQL files, each applied once, in order, under an advisory lock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import WrongUseError
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    import psycopg

MIGRATION_LOCK = 0x70656E73746F636B  # "penstock"

_statements = Statements("ledger/migration")


@dataclass(frozen=True, slots=True)
class Difference:
    """How the migrations of a database differ from those that this version of Penstock knows."""

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def refuse(self) -> None:
        """Refuse a ledger of a newer version, and a ledger whose migrations had other texts."""
        if self.unknown:
            raise WrongUseError(
                f"the ledger in this database is newer than this version of Penstock, which does not know "
                f"{', '.join(self.unknown)}.",
                next_step=advice.INSTALL_NEWER,
            )
        if self.changed:
            raise WrongUseError(
                f"the texts of these migrations of the ledger in this database are not those of this version of "
                f"Penstock: {', '.join(self.changed)}.",
                next_step=advice.INSTALL_RELEASE_AGAIN,
            )

    def refuse_missing(self) -> None:
        """Refuse a ledger on which migrations are missing."""
        if self.missing:
            raise WrongUseError(
                f"the ledger in this database is missing migrations: {', '.join(self.missing)}.",
                next_step=advice.MIGRATE_ONCE,
            )


@cache
def read_migrations() -> dict[str, bytes]:
    """Read the migrations that this version of Penstock knows, in their order."""
    found = (file for file in files("penstock.ledger").joinpath("migrations").iterdir() if file.name.endswith(".sql"))
    return {file.name: file.read_bytes() for file in sorted(found, key=lambda file: file.name)}


@cache
def read_checksums() -> dict[str, str]:
    """The SHA-256 of each migration's text."""
    return {name: hashlib.sha256(text).hexdigest() for name, text in read_migrations().items()}


def compare_migrations(connection: psycopg.Connection[Any]) -> Difference:
    """Compare the migrations that were applied to the database with those that this version of Penstock knows."""
    known = read_checksums()
    if not _statements.fetch_value(connection, bool, "has_migrations"):
        return Difference(missing=tuple(known))
    applied = dict(_statements.fetch_all(connection, _make_applied, "read_applied"))
    return Difference(
        missing=tuple(name for name in known if name not in applied),
        unknown=tuple(name for name in applied if name not in known),
        changed=tuple(name for name, sum_ in applied.items() if sum_ and name in known and sum_ != known[name]),
    )


def apply_migrations(connection: psycopg.Connection[Any]) -> list[str]:
    """Apply the missing migrations, in the caller's transaction; the names of the applied migrations."""
    _statements.execute(connection, "lock_migrations", lock=MIGRATION_LOCK)
    difference = compare_migrations(connection)
    difference.refuse()
    if not difference.missing:
        return []
    _statements.execute(connection, "create_schema")
    _statements.execute(connection, "create_migrations")
    known = read_migrations()
    for name in difference.missing:
        connection.execute(known[name])
        _statements.execute(connection, "record_migration", name=name)
    sums = read_checksums()
    _statements.execute(connection, "record_checksums", names=list(sums), checksums=list(sums.values()))
    return list(difference.missing)


def _make_applied(name: str, checksum: str | None) -> tuple[str, str | None]:
    return name, checksum
