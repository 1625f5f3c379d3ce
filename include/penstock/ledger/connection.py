"""Connections to the ledger, and errors of PostgreSQL as errors of Penstock."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo

from penstock import advice
from penstock.errors import PenstockError, WrongUseError
from penstock.ledger import session
from penstock.ledger.migration import apply_migrations, compare_migrations
from penstock.ledger.roles import OWNER, arrange_roles
from penstock.model.load import Load
from penstock.settings import read_db

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Connection = psycopg.Connection[Any]

# libpq reports an invalid option before it connects, and quotes its value behind QUOTE.
INVALID_OPTION, QUOTE = re.compile("invalid [a-z_]+ value|definition of service"), '"'

# A process that is suspended inside a transaction would hold its locks for ever. PostgreSQL ends its session after
# 30 s, so the process cannot continue when it wakes. Other sessions wait for a lock longer than that.
LIMITS = {"idle_in_transaction_session_timeout": "30s", "lock_timeout": "60s"}

# A page is for a person who waits. A statement that takes longer ends, and holds no connection of the database.
READING = {"default_transaction_read_only": "on", "statement_timeout": "20s"}

# PostgreSQL names the table of a row that a statement waited for in the context of its error.
LOCKED = re.compile('in relation "(?P<relation>[^"]+)"')

# Classes of SQLSTATE: data exceptions, violated constraints, and what a trigger raises.
ABOUT_VALUES = ("22", "23", "P0")


def open_ledger(uri: str) -> Connection:
    """Connect to the ledger. A ledger of another version of Penstock is refused."""
    return _refuse_other_version(connect(uri))


def open_for_reading(uri: str) -> Connection:
    """Connect to the ledger as `open_ledger` does; statements that write or take long fail."""
    return _refuse_other_version(connect(uri, READING))


def _refuse_other_version(connection: Connection) -> Connection:
    try:
        difference = compare_migrations(connection)
        connection.rollback()
        difference.refuse()
        difference.refuse_missing()
    except BaseException:
        connection.close()
        raise
    return connection


def connect(uri: str, settings: Mapping[str, str] | None = None) -> Connection:
    """Connect to the database within bounded time. The connection notices when the server stops answering."""
    try:
        connection = psycopg.connect(
            make_conninfo(uri, **session.make_parameters(read_db(uri), **LIMITS, **(settings or {}))),
            application_name="penstock",
            connect_timeout=10,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
        )
        connection.execute(session.OVERRIDE)
        connection.commit()
        return connection
    except psycopg.OperationalError as error:
        line = str(error).splitlines()[0]
        if INVALID_OPTION.search(line):
            raise WrongUseError(
                f"PENSTOCK_DB has an option that libpq does not accept: {line.partition(QUOTE)[0].rstrip(': ')}.",
                next_step=advice.CORRECT_URI_OPTION,
            ) from None
        raise PenstockError(
            f"the database of the ledger cannot be reached: {line}",
            next_step=advice.CHECK_POSTGRES,
        ) from None  # libpq may quote the URI, which holds the password


def explain(error: psycopg.Error) -> PenstockError:
    """Make an error of Penstock from an error of PostgreSQL."""
    line = describe_refusal(error)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate in (None, "57P01", "57P02", "57P03", "25P03"):
        return PenstockError(
            f"the connection to PostgreSQL broke: {line}. It also ends sessions that are idle in a transaction.",
            next_step=advice.RUN_AFTER_OUTAGE,
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        found = LOCKED.search(error.diag.context or "")
        where = f" on a row of {found['relation']}" if found else ""
        return PenstockError(f"another session holds a lock{where}: {line}.", next_step=advice.FIND_LOCK)
    if error.sqlstate == "53100":
        return PenstockError(f"PostgreSQL: {line}", next_step=advice.FREE_DISK)
    return PenstockError(f"PostgreSQL: {line}", next_step=advice.CHECK_POSTGRES_RIGHTS)


def describe_refusal(error: psycopg.Error) -> str:
    """The words of PostgreSQL; without them for an error about data, because they quote values of rows."""
    if keep_cause(error) is None:
        return f"it refused a value ({type(error).__name__}, SQLSTATE {error.sqlstate})"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def keep_cause(error: psycopg.Error) -> psycopg.Error | None:
    """The error as the cause of another one; None for an error about data, because its text quotes values of rows."""
    return None if (error.sqlstate or "")[:2] in ABOUT_VALUES else error


@contextmanager
def concerning(pipeline: str | None = None, load: Load | int | None = None) -> Iterator[None]:
    """Add the pipeline and the load to every error that is raised inside, and explain errors of PostgreSQL."""
    number, ranges = (load.load_id, load.ranges) if isinstance(load, Load) else (load, ())
    name = load.pipeline if isinstance(load, Load) else pipeline
    try:
        yield
    except PenstockError as error:
        error.fill(name, number, ranges)
        raise
    except psycopg.Error as error:
        raise explain(error).fill(name, number, ranges) from keep_cause(error)


@dataclass(frozen=True, slots=True)
class Migrated:
    """The migrations that were applied, and the statements about roles that the role in PENSTOCK_DB may not run."""

    applied: list[str]
    refused: list[str]


def migrate(uri: str) -> Migrated:
    """Apply the missing migrations, and the statements about roles that this role may run."""
    with connect(uri) as connection:
        try:
            applied = apply_migrations(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            raise WrongUseError(
                f"the role in PENSTOCK_DB may not change the ledger: {str(error).splitlines()[0]}.",
                next_step=advice.migrate_as_owner(OWNER),
            ) from None
        return Migrated(applied, arrange_roles(connection))
