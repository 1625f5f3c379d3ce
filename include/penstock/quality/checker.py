"""The connection of the checks. A declared check may hold SQL, so it runs as a role that can read a few tables only.

The login in PENSTOCK_DB_CHECKER confines a check for certain. Without it, the loader's session sets the role before
each statement: a check can then reset the role within its statement, and has the loader's rights until the statement
ends.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql

from penstock.errors import ChecksCrashedError
from penstock.ledger.check_result import lock_load
from penstock.ledger.connection import Connection, connect
from penstock.ledger.roles import CHECKER, LOADER, OWNER
from penstock.ledger.statements import Statements
from penstock.quality.value_loaders import read_every_value
from penstock.target.postgres.attempt import attempt_table_name
from penstock.target.postgres.table import STAGE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.abc import Params

    from penstock.model.load import Load

_statements = Statements("quality/checker")

log = logging.getLogger(__name__)

IDLE = "10min"
# The start of an error whose words may quote a value of a row. The name of its condition replaces the words.
STOPPED = "PostgreSQL stopped at a value: "
# Classes of SQLSTATE whose messages name objects and settings, never values: connections, transactions, rights, limits.
NO_VALUES = ("08", "25", "40", "42501", "53", "55", "57", "58")
SEVERAL = "cannot insert multiple commands into a prepared statement"
OWN_LOGIN = "set PENSTOCK_DB_CHECKER (in Airflow: the connection penstock_db_checker) to a login of its own, created by"


@dataclass(frozen=True, slots=True)
class Strength:
    """The rights that a role must not have: the first of each kind."""

    name: str
    is_superuser: bool
    is_checker: bool
    strong: str | None  # a role that it is a member of
    writable: str | None  # a table


@dataclass(frozen=True, slots=True)
class ReadRights:
    """Whether a role may use a schema and read a table of it; None where there is no such schema or table."""

    may_use: bool | None
    may_read: bool | None


@dataclass(frozen=True, slots=True)
class Access:
    """The login by which the checks connect, and the role that they set; None if the login's own rights count."""

    db: str
    role: str | None
    own_login: bool = False

    @property
    def is_other(self) -> bool:
        """Whether the checks run with other rights than the loader's."""
        return self.own_login or self.role is not None

    def describe(self) -> str:
        """Describe the access for a person."""
        if self.own_login:
            return "the checks have a login of their own"
        create = "create role penstock_checks login password '…' in role penstock_checker"
        if self.role is None:
            found = "the checks run with the loader's rights, read-only. Run `penstock migrate` as a superuser"
            return f"{found}; {OWN_LOGIN} {create}"
        found = f"the checks run as `set role {self.role}`, which a check's SQL can reset within its statement"
        return f"{found}. Better: {OWN_LOGIN} {create}"


class OneStatement(psycopg.Cursor[Any]):
    """A cursor that runs one statement at a time by the extended protocol, read-only and within a time limit.

    Only the extended protocol makes the server refuse `select 1; commit; insert …`. The session's settings are restored
    before each statement, because the statement before it may have changed them.
    """

    before = ""

    def execute(
        self,
        query: Any,  # noqa: ANN401 - psycopg has an overload for each kind of query
        params: Params | None = None,
        *,
        prepare: bool | None = None,  # noqa: ARG002 - a prepared statement uses the extended protocol
        binary: bool | None = None,
    ) -> Self:
        """Run a statement."""
        super().execute(self.before.encode(), prepare=True)
        try:
            return super().execute(query, params, prepare=True, binary=binary)
        except psycopg.Error as error:
            if not quotes_a_value(error):
                raise
            # The text of the error may hold a value of a row, so it is not kept as the cause.
            raise type(error)(f"{STOPPED}{name_condition(error)}.") from None


def quotes_a_value(error: psycopg.Error) -> bool:
    """Whether the text of an error may quote a value of a row.

    PostgreSQL locates an error of the statement's text by a position, and an error of a value not at all: without a
    position, `relation "…" does not exist` quotes the value of a column that was cast to regclass.
    """
    state, position, message = error.sqlstate, error.diag.statement_position, error.diag.message_primary
    return state is not None and position is None and message != SEVERAL and not state.startswith(NO_VALUES)


def name_condition(error: psycopg.Error) -> str:
    """Name the condition of an error as PostgreSQL's documentation names it, with its SQLSTATE."""
    words = re.sub("(?=[A-Z])", " ", type(error).__name__).strip().lower()
    return f"{words} (SQLSTATE {error.sqlstate})"


def choose_access(connection: Connection, db: str, checker: str | None) -> Access:
    """Choose the login and the role of the checks."""
    if checker is not None:
        return Access(checker, None, own_login=True)
    may_become = _statements.fetch_value(connection, bool, "may_become", role=CHECKER)
    return Access(db, CHECKER if may_become else None)


def open_checker(access: Access, timeout_minutes: int) -> psycopg.Connection[Any]:
    """Open a connection for checks."""
    connection = connect(access.db)
    connection.execute(sql.SQL("set idle_session_timeout = {}").format(sql.Literal(IDLE)))
    connection.commit()
    connection.read_only = True
    read_every_value(connection)
    settings = {
        "transaction_read_only": "on",
        "statement_timeout": f"{timeout_minutes}min",
        # The planner would else read the whole target rather than look up the keys of a load in its indexes: it takes
        # a page from an index for four times as dear as the next page of a table.
        "random_page_cost": "1.1",
    }
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
    """Refuse to run checks as a role that may do more than read."""
    target = load.declaration.target
    with connect(access.db) as connection:
        fault = find_strength(connection, access, [target.schema_name])
    if fault:
        raise ChecksCrashedError(
            f"the checks were not run: {fault[0]}.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=f"run `{fault[1]};` as a superuser, then retry the validate step.",
        )


def find_strength(connection: Connection, access: Access, schemas: Sequence[str]) -> tuple[str, str] | None:
    """Find a right that the checks' role must not have, and the statement that revokes it."""
    if not access.is_other:
        return None
    where = {"role": access.role, "strong": STRONG, "schemas": list(schemas)}
    found = _statements.fetch_only(connection, Strength, "read_strength", **where)
    name = str(sql.Identifier(found.name).as_string(None))
    if found.is_superuser:
        return f"their role {name} is a superuser", f"alter role {name} nosuperuser"
    if not found.is_checker:
        return f"their role {name} is not a member of {CHECKER}", f"grant {CHECKER} to {name}"
    if found.strong:
        return f"their role {name} is a member of {found.strong}", f"revoke {found.strong} from {name}"
    if found.writable:
        return (
            f"their role {name} may write {found.writable}",
            f"revoke insert, update, delete, truncate on {found.writable} from {name}, public",
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


def grant_reads(connection: Connection, load: Load, *, with_target: bool = False) -> None:
    """Grant the checks to read the attempt's table and the tables under `checks_read`, in the caller's transaction.

    They read the target too if a check compares the load with earlier loads.
    """
    if not _statements.fetch_value(connection, bool, "role_exists", role=CHECKER):
        return
    # Two validations of one attempt take turns, because PostgreSQL refuses two concurrent grants on one table.
    lock_load(connection, load.load_id)
    _grant(connection, load, STAGE_SCHEMA, attempt_table_name(load.load_id, load.attempt))
    for table in (*load.declaration.checks_read, *([load.declaration.target] if with_target else [])):
        _grant(connection, load, table.schema_name, table.table_name)


def _grant(connection: Connection, load: Load, schema: str, table: str) -> None:
    named = sql.Identifier(schema, table).as_string(None)
    rights = _read_rights(connection, schema, table)
    if rights.may_use is None or rights.may_read is None:
        raise _not_readable(load, f"the table {named} does not exist", "name an existing table under `checks_read`")
    usage = f"grant usage on schema {sql.Identifier(schema).as_string(None)} to {CHECKER}"
    statements = [] if rights.may_use else [usage]
    statements += [] if rights.may_read else [f"grant select on {named} to {CHECKER}"]
    for statement in statements:
        try:
            with connection.transaction():
                connection.execute(statement.encode())
        except psycopg.errors.InsufficientPrivilege:
            break
    rights = _read_rights(connection, schema, table)
    if not (rights.may_use and rights.may_read):
        missing = "; ".join(statements)
        raise _not_readable(load, f"they may not read {named}", f"run `{missing};` as the owner of {named}")


def _read_rights(connection: Connection, schema: str, table: str) -> ReadRights:
    where = {"role": CHECKER, "schema": schema, "table": table}
    return _statements.fetch_only(connection, ReadRights, "may_read", **where)


def _not_readable(load: Load, what: str, next_step: str) -> ChecksCrashedError:
    return ChecksCrashedError(
        f"the checks were not run: {what}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=f"{next_step}, then retry the validate step.",
    )
