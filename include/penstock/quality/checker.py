"""The connection of the checks. A declared check may hold SQL, so it runs by a role that can read a few tables only.

By a login of its own (PENSTOCK_DB_CHECKER) it cannot be anybody else. Without one the loader's session takes the role
for each statement: a check can leave the role within its own statement, and then has the loader's rights for the rest
of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql

from penstock.errors import ChecksCrashedError
from penstock.ledger.connection import Connection, connect
from penstock.ledger.roles import CHECKER, LOADER, OWNER
from penstock.ledger.statements import Room
from penstock.target.postgres.table import STAGE_SCHEMA, attempt_table_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.abc import Params

    from penstock.model.load import Load

_query, _query_for_row = Room("quality/checker").run, Room("quality/checker").run_for_row

log = logging.getLogger(__name__)

IDLE = "10min"
BY = "give PENSTOCK_DB_CHECKER (in Airflow: the connection penstock_db_checker) a login of its own, made by"


@dataclass(frozen=True, slots=True)
class Access:
    """How the checks get to the database: by which login, and as which role if that is not the login's own."""

    db: str
    role: str | None
    own_login: bool = False

    @property
    def is_other(self) -> bool:
        """Whether the checks run by other rights than the loader's."""
        return self.own_login or self.role is not None

    def describe(self) -> str:
        """Say it to a person."""
        if self.own_login:
            return "the checks have a login of their own"
        create = "create role penstock_checks login password '…' in role penstock_checker"
        if self.role is None:
            told = "the checks run with the loader's rights, read-only. Run `penstock migrate` as a superuser"
            return f"{told}; {BY} {create}"
        told = f"the checks run by `set role {self.role}`, which a check's SQL can undo within its statement"
        return f"{told}. Better: {BY} {create}"


class OneStatement(psycopg.Cursor[Any]):
    """A cursor that runs one statement at a time, by the extended protocol, read-only and within a limit.

    Only the extended protocol makes the server refuse `select 1; commit; insert …`. What a statement changes of the
    session is set back before the next.
    """

    before = ""

    def execute(
        self,
        query: Any,  # noqa: ANN401 - psycopg has an overload for each kind of query
        params: Params | None = None,
        *,
        prepare: bool | None = None,  # noqa: ARG002 - prepared is what makes it the extended protocol
        binary: bool | None = None,
    ) -> Self:
        """Run a statement."""
        super().execute(self.before.encode(), prepare=True)
        return super().execute(query, params, prepare=True, binary=binary)


def choose_access(connection: Connection, db: str, checker: str | None) -> Access:
    """Choose how the checks get to the database."""
    if checker is not None:
        return Access(checker, None, own_login=True)
    row = _query_for_row(connection, "may_become", role=CHECKER)
    return Access(db, CHECKER if row["may"] else None)


def open_checker(access: Access, timeout_minutes: int) -> psycopg.Connection[Any]:
    """Connect as the checks do."""
    connection = connect(access.db)
    connection.execute(sql.SQL("set idle_session_timeout = {}").format(sql.Literal(IDLE)))
    connection.commit()
    connection.read_only = True
    settings = {"transaction_read_only": "on", "statement_timeout": f"{timeout_minutes}min"}
    if access.role:
        settings["role"] = access.role
    set_ = sql.SQL(", ").join(
        sql.SQL("pg_catalog.set_config({}, {}, true)").format(sql.Literal(name), sql.Literal(value))
        for name, value in settings.items()
    )
    before = sql.SQL("select {}").format(set_).as_string(None)
    connection.cursor_factory = type("Checking", (OneStatement,), {"before": before})
    return connection


def refuse_strong(access: Access, load: Load) -> None:
    """Refuse to run checks by a role that may do more than read."""
    target = load.declaration.target
    with connect(access.db) as connection:
        fault = find_strength(connection, access, [target.schema_name])
    if fault:
        raise ChecksCrashedError(
            f"the checks are not run: {fault[0]}.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=f"let a superuser run `{fault[1]};`, then try the validate step again.",
        )


def find_strength(connection: Connection, access: Access, schemas: Sequence[str]) -> tuple[str, str] | None:
    """Find what the checks' role may do and must not, and the statement that takes it away."""
    if not access.is_other:
        return None
    row = _query_for_row(connection, "read_strength", role=access.role, strong=STRONG, schemas=list(schemas))
    name = str(sql.Identifier(row["name"]).as_string(None))
    if row["is_superuser"]:
        return f"their role {name} is a superuser", f"alter role {name} nosuperuser"
    if not row["is_checker"]:
        return f"their role {name} is not a member of {CHECKER}", f"grant {CHECKER} to {name}"
    if row["strong"]:
        return f"their role {name} is a member of {row['strong']}", f"revoke {row['strong']} from {name}"
    if row["writable"]:
        return (
            f"their role {name} may write {row['writable']}",
            f"revoke insert, update, delete, truncate on {row['writable']} from {name}, public",
        )
    return None


STRONG = [
    LOADER,
    OWNER,
    "pg_write_all_data",
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
]


def grant_reads(connection: Connection, load: Load) -> None:
    """Let the checks read the attempt's table and what the declaration names, in the caller's transaction."""
    if not _query_for_row(connection, "role_exists", role=CHECKER)["found"]:
        return
    # Two validations of one attempt take turns: PostgreSQL refuses to change the rights of a table twice at a time.
    Room("ledger/check_result").run(connection, "lock_load", load_id=load.load_id)
    _grant(connection, load, STAGE_SCHEMA, attempt_table_name(load.load_id, load.attempt))
    for table in load.declaration.checks_read:
        _grant(connection, load, table.schema_name, table.table_name)


def _grant(connection: Connection, load: Load, schema: str, table: str) -> None:
    named = sql.Identifier(schema, table).as_string(None)
    row = _query_for_row(connection, "may_read", role=CHECKER, schema=schema, table=table)
    if row["may_use"] is None or row["may_read"] is None:
        raise _not_readable(load, f"there is no table {named}", "name a table that exists under checks_read")
    usage = f"grant usage on schema {sql.Identifier(schema).as_string(None)} to {CHECKER}"
    statements = [] if row["may_use"] else [usage]
    statements += [] if row["may_read"] else [f"grant select on {named} to {CHECKER}"]
    for statement in statements:
        try:
            with connection.transaction():
                connection.execute(statement.encode())
        except psycopg.errors.InsufficientPrivilege:
            break
    row = _query_for_row(connection, "may_read", role=CHECKER, schema=schema, table=table)
    if not (row["may_use"] and row["may_read"]):
        told = "; ".join(statements)
        raise _not_readable(load, f"they may not read {named}", f"let the owner of {named} run `{told};`")


def _not_readable(load: Load, what: str, next_step: str) -> ChecksCrashedError:
    return ChecksCrashedError(
        f"the checks are not run: {what}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=f"{next_step}, then try the validate step again.",
    )
