"""Migrations: numbered SQL files, each applied once, in order, under an advisory lock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    import psycopg

MIGRATION_LOCK = 0x70656E73746F636B  # "penstock"


@dataclass(frozen=True, slots=True)
class Difference:
    """How the migrations of a database differ from those that this version of Penstock knows."""

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def refuse(self) -> None:
        """Refuse a ledger that a newer version made, or one that was made by other texts of the migrations."""
        if self.unknown:
            raise WrongUseError(
                f"the ledger in this database is newer than this version of Penstock, which does not know "
                f"{', '.join(self.unknown)}.",
                next_step=advice.INSTALL_NEWER,
            )
        if self.changed:
            raise WrongUseError(
                f"the ledger in this database was made by other texts of {', '.join(self.changed)} than those of this "
                "version of Penstock.",
                next_step=advice.INSTALL_RELEASE_AGAIN,
            )

    def refuse_missing(self) -> None:
        """Refuse a ledger that has not been brought up to date."""
        if self.missing:
            raise WrongUseError(
                f"the ledger in this database lacks {', '.join(self.missing)}.",
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
    present = connection.execute("select to_regclass('penstock.migration')").fetchone()
    if present is None or present[0] is None:
        return Difference(missing=tuple(known))
    # Ledgers from before migration 0015 have no such column.
    rows = connection.execute("select name, to_jsonb(m) ->> 'checksum' from penstock.migration m order by name")
    applied: dict[str, str | None] = dict(rows.fetchall())
    return Difference(
        missing=tuple(name for name in known if name not in applied),
        unknown=tuple(name for name in applied if name not in known),
        changed=tuple(name for name, sum_ in applied.items() if sum_ and name in known and sum_ != known[name]),
    )


def apply_migrations(connection: psycopg.Connection[Any]) -> list[str]:
    """Apply what is missing, in the caller's transaction; the names of what was applied come back."""
    connection.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
    difference = compare_migrations(connection)
    difference.refuse()
    if not difference.missing:
        return []
    connection.execute(
        "create schema if not exists penstock;"
        " create table if not exists penstock.migration"
        " (name text primary key, applied_at timestamptz not null default now())"
    )
    known = read_migrations()
    for name in difference.missing:
        connection.execute(known[name])
        connection.execute("insert into penstock.migration (name) values (%s)", [name])
    sums = read_checksums()
    connection.execute(
        "update penstock.migration m set checksum = known.checksum"
        " from unnest(%s::text[], %s::text[]) as known (name, checksum)"
        " where known.name = m.name and m.checksum is null",
        [list(sums), list(sums.values())],
    )
    return list(difference.missing)
