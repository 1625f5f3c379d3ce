"""Migrations: numbered SQL files, each applied once, in order, under an advisory lock."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

MIGRATION_LOCK = 0x70656E73746F636B  # "penstock"


@cache
def read_migrations() -> dict[str, bytes]:
    """Read the migrations that this version of Penstock knows, in their order."""
    found = (file for file in files("penstock").joinpath("migrations").iterdir() if file.name.endswith(".sql"))
    return {file.name: file.read_bytes() for file in sorted(found, key=lambda file: file.name)}


def find_missing_migrations(connection: psycopg.Connection[Any]) -> list[str]:
    """Find the migrations that this version of Penstock knows and the database lacks."""
    present = connection.execute("select to_regclass('penstock.migration')").fetchone()
    if present is None or present[0] is None:
        return list(read_migrations())
    applied = {name for (name,) in connection.execute("select name from penstock.migration")}
    return [name for name in read_migrations() if name not in applied]


def apply_migrations(connection: psycopg.Connection[Any]) -> list[str]:
    """Apply what is missing, in the caller's transaction; the names of what was applied come back."""
    connection.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
    missing = find_missing_migrations(connection)
    connection.execute(
        "create schema if not exists penstock;"
        " create table if not exists penstock.migration"
        " (name text primary key, applied_at timestamptz not null default now())"
    )
    known = read_migrations()
    for name in missing:
        connection.execute(known[name])
        connection.execute("insert into penstock.migration (name) values (%s)", [name])
    return missing
