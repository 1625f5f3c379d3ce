"""The roles of PostgreSQL: the owner of the ledger, the loader, the checker and the readers.

`penstock migrate` creates them and grants their rights. It returns the statements that PostgreSQL refuses, so that a
person with more rights can run them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.ledger.connection import Connection

OWNER, LOADER, CHECKER = "penstock_owner", "penstock_loader", "penstock_checker"
READER, QUARANTINE_READER = "penstock_reader", "penstock_quarantine_reader"
# The SQL of results runs as this role, in a function that it owns.
RESULT_WRITER = "penstock_result_writer"
ROLES = (OWNER, LOADER, CHECKER, READER, QUARANTINE_READER, RESULT_WRITER)
# A merge must see when the transactions of other sessions began. Checks without a login of their own run by `set role`.
MEMBERS = (("pg_read_all_stats", LOADER), (CHECKER, LOADER), (READER, QUARANTINE_READER))
SCHEMAS = (
    (LOADER, "penstock", "usage"),
    *(
        (LOADER, schema, right)
        for schema in ("penstock_stage", "penstock_kept", "penstock_results")
        for right in ("usage", "create")
    ),
    (CHECKER, "penstock_stage", "usage"),
    (READER, "penstock", "usage"),
)
DATABASE = (
    *((LOADER, right) for right in ("connect", "create", "temporary")),
    (CHECKER, "connect"),
    (READER, "connect"),
)
# The tables that the SQL statements of the package write, and no others: a test compares. The loader may read all of
# them.
WRITES = {
    "aside": ("insert", "delete"),
    "backfill": ("insert",),
    "check_result": ("insert", "delete"),
    "coverage": ("insert", "delete"),
    "declaration": ("insert",),
    "decoded": ("insert", "delete"),
    "difference": ("insert", "delete"),
    "dropped_load": ("insert",),
    "event": ("insert",),
    "fault": ("insert",),
    "filtered": ("insert", "delete"),
    "generation": ("insert", "update"),
    "hold": ("insert", "update"),
    "incident": ("insert", "update"),
    "left_out": ("insert", "update", "delete"),
    "load": ("insert", "update"),
    "load_range": ("insert", "update"),
    "loss": ("insert",),
    "named_load": ("insert", "delete"),
    "naming": ("insert", "delete"),
    "notice": ("insert", "update", "delete"),
    "partition_sample": ("insert", "update", "delete"),
    "pipeline": ("insert", "update"),
    "phase_total": ("insert", "update"),
    "position": ("insert", "update"),
    "quarantine": ("insert", "update", "delete"),
    "redriven": ("insert", "update", "delete"),
    "reread": ("insert", "update", "delete"),
    "result": ("insert", "update", "delete"),
    "sample": ("insert", "update"),
    "sample_history": ("insert", "delete"),
    "second_reading": ("insert",),
    "stage_task": ("insert", "update", "delete"),
    "total": ("insert", "update"),
    "unexplained": ("insert", "delete"),
    "verification": ("insert", "update"),
    "written": ("insert", "delete"),
}
QUARANTINE = "quarantined"
PAYLOADS = ["key", "value", "headers"]
# Roles belong to the whole server: a migration of another database may create the same role at the same time.
MEANWHILE = (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation, psycopg.errors.InternalError_)

TRIES = 10
GIVE_ROLES = "docs/how-to/give-roles-their-rights.md says how to change that"

_statements = Statements("ledger/roles")


def arrange_roles(connection: Connection) -> list[str]:
    """Create the roles and grant their rights, in the caller's transaction; the statements that were refused."""
    return [
        statement
        for find in (
            _find_roles,
            _find_memberships,
            _find_owners,
            _find_schema_grants,
            _find_table_grants,
            _find_database_grants,
        )
        for statement in _apply(connection, find)
    ]


def _apply(connection: Connection, find: Callable[[Connection], list[str]]) -> list[str]:
    for _ in range(TRIES):
        if not sum(_try(connection, statement) for statement in find(connection)):
            break
    return find(connection)


def _try(connection: Connection, statement: str) -> bool:
    """Run a statement; True if another session created the same role or right at the same time."""
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject):
        return False
    except MEANWHILE:
        return True
    return False


def _find_roles(connection: Connection) -> list[str]:
    return _find(connection, "find_missing_roles", names=list(ROLES))


def _find_memberships(connection: Connection) -> list[str]:
    roles, members = map(list, zip(*MEMBERS, strict=True))
    return _find(connection, "find_missing_memberships", roles=roles, members=members, loader=LOADER, owner=OWNER)


def _find_owners(connection: Connection) -> list[str]:
    return _find(connection, "find_other_owners", owner=OWNER, writer=RESULT_WRITER, loader=LOADER)


def _find_schema_grants(connection: Connection) -> list[str]:
    roles, schemas, privileges = map(list, zip(*SCHEMAS, strict=True))
    return _find(connection, "find_missing_schema_grants", roles=roles, schemas=schemas, privileges=privileges)


def _find_table_grants(connection: Connection) -> list[str]:
    relations = dict(_statements.fetch_all(connection, _make_relation, "read_relations"))
    wanted = [(LOADER, name, right) for name in relations for right in ("select", *WRITES.get(name, ()))]
    wanted += [(READER, name, "select") for name, is_view in relations.items() if is_view and name != QUARANTINE]
    wanted += [(QUARANTINE_READER, QUARANTINE, "select")]
    roles, names, privileges = map(list, zip(*wanted, strict=True))
    return [
        *_find(connection, "find_missing_table_grants", roles=roles, relations=names, privileges=privileges),
        *_find(connection, "find_missing_column_grants", view=QUARANTINE, role=READER, hidden=PAYLOADS),
    ]


def _find_database_grants(connection: Connection) -> list[str]:
    roles, privileges = map(list, zip(*DATABASE, strict=True))
    return _find(connection, "find_missing_database_grants", roles=roles, privileges=privileges)


def _find(connection: Connection, name: str, **values: object) -> list[str]:
    return _statements.fetch_values(connection, str, name, **values)


def _make_relation(name: str, is_view: bool) -> tuple[str, bool]:
    return name, is_view


@dataclass(frozen=True, slots=True)
class OwnRole:
    """The role of a session; `sees_snapshots` if it sees when the transactions of other sessions began."""

    name: str
    is_superuser: bool
    sees_snapshots: bool

    @property
    def grant_of_stats(self) -> str:
        """The statement that lets the role see snapshots."""
        return f"grant pg_read_all_stats to {self.name}"


def read_own_role(connection: Connection) -> OwnRole:
    """Read the role of the session."""
    return _statements.fetch_only(connection, OwnRole, "read_own_role")


def hand_over_tables(connection: Connection) -> None:
    """Make the loader the owner of the tables that a superuser has loaded, in the caller's transaction."""
    _statements.execute(connection, "hand_over_tables")
