"""The embedded stack in one folder: PostgreSQL with the ledger, a Kafka broker, and on request Airflow and Spark."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from penstock.errors import WrongUseError
from penstock.ledger.roles import CHECKER, LOADER
from penstock_stack import ports, processes
from penstock_stack.broker import Broker, require_java
from penstock_stack.jars import find_jars
from penstock_stack.kept_spark import KeptSpark
from penstock_stack.postgres import DATABASE, Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AIRFLOW = "airflow"


class Service(Protocol):
    """The interface of a service of the stack. Each method may be called again at any time."""

    name: str
    option: str  # the command line's option for its port
    port: int

    def start(self) -> None:
        """Start it unless it runs, and wait until it answers."""

    def stop(self) -> None:
        """Stop it and all its processes, and wait for them."""

    def is_running(self) -> bool:
        """Whether it runs and answers."""

    def pids(self) -> list[int]:
        """The ids of its processes."""


class Web(Service, Protocol):
    """The interface of Airflow; its class is called as Airflow(folder, port, database=, loads=, checks=, kafka=)."""

    url: str


@dataclass(frozen=True, slots=True)
class Ports:
    """The stack's ports; None is a port that is still to be chosen."""

    db: int | None = None
    kafka: int | None = None
    controller: int | None = None
    airflow: int | None = None
    spark: int | None = None


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the services. The URIs hold passwords, and stay out of the repr."""

    db: str = field(repr=False)
    db_checker: str = field(repr=False)
    kafka: str
    airflow: str | None
    dir: str
    # The Spark server with its token, as PENSTOCK_SPARK_MASTER takes it.
    spark: str | None = field(default=None, repr=False)


class Stack:
    """One stack: its settings, its data and its logs are in `folder`."""

    def __init__(self, folder: Path, chosen: Ports) -> None:
        self.folder = folder.resolve()
        self.ports = chosen
        db, kafka, controller, _, spark = _all(chosen)
        self.postgres = Postgres(self.folder / "postgres", db)
        self.broker = Broker(self.folder / "kafka", kafka, controller)
        self.spark = KeptSpark(self.folder / "spark", spark)

    def airflow(self) -> Web:
        """Airflow of this stack. It is imported here, so that a stack without Airflow does not need its packages."""
        web: Web = import_module("penstock_stack.airflow").Airflow(
            self.folder / "airflow",
            _all(self.ports)[3],
            database=self.postgres.uri(AIRFLOW, AIRFLOW),
            loads=self.postgres.uri(DATABASE, LOADER),
            checks=self.postgres.uri(DATABASE, CHECKER),
            kafka=self.broker.bootstrap,
            spark=self.spark.url if self.spark.is_running() else None,
        )
        return web

    def has_airflow(self) -> bool:
        """Whether Airflow was ever started in this stack."""
        return (self.folder / "airflow").exists()

    def services(self) -> list[Service]:
        """The services of this stack, in the order in which they start."""
        known: list[Service] = [self.postgres, self.broker]
        if self.spark.folder.exists():
            known.append(self.spark)
        return [*known, self.airflow()] if self.has_airflow() and self.postgres.data.exists() else known

    def addresses(self) -> Addresses:
        """The addresses of the services; the address of Airflow only while it runs."""
        web = self.airflow() if self.has_airflow() else None
        return Addresses(
            db=self.postgres.uri(DATABASE, LOADER),
            db_checker=self.postgres.uri(DATABASE, CHECKER),
            kafka=self.broker.bootstrap,
            airflow=web.url if web is not None and web.is_running() else None,
            dir=str(self.folder),
            spark=self.spark.url if self.spark.is_running() else None,
        )

    def running(self) -> dict[str, bool]:
        """For each service, whether it runs."""
        return {service.name: service.is_running() for service in self.services()}


def bring_up(
    folder: Path, asked: Ports, *, airflow: bool, spark: bool = False, tell: Callable[[str], None]
) -> Addresses:
    """Start the services that do not run yet. If a service fails to start, stop the services this call has started."""
    find_jars("broker")
    require_java()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _lock(folder):
        stack = _open(folder, asked)
        started: list[Service] = []
        try:
            _start(stack.postgres, started, tell)
            _prepare_databases(stack)
            _start(stack.broker, started, tell)
            if spark:
                _start(stack.spark, started, tell)
            if airflow:
                _start(stack.airflow(), started, tell)
            return stack.addresses()
        except BaseException:
            for service in reversed(started):
                tell(f"stopping {service.name} again")
                service.stop()
            raise


def take_down(folder: Path, *, tell: Callable[[str], None]) -> bool:
    """Stop all services and all their processes. False if the folder has no stack."""
    if read_ports(folder) is None:
        return False
    with _lock(folder):
        stack = find_stack(folder)
        for service in reversed(stack.services()):
            if service.pids():
                tell(f"stopping {service.name}")
            service.stop()
        # A process that its service lost, such as a Spark driver, still has the stack's mark in its environment.
        processes.kill_all(processes.find_marked(stack.folder))
    return True


def find_stack(folder: Path) -> Stack:
    """The stack of a folder, running or not."""
    known = read_ports(folder)
    if known is None or not (folder / "postgres" / "data").exists():
        raise WrongUseError(
            f"there is no stack in {folder}.",
            next_step="run `penstock stack up`, or pass the folder of the stack as --dir.",
        )
    return Stack(folder, known)


def read_ports(folder: Path) -> Ports | None:
    """The ports that the stack of this folder uses. A stack of an earlier version has no port for Spark yet."""
    try:
        known = Ports(**json.loads((folder / "stack.json").read_text(encoding="utf-8"))["ports"])
    except FileNotFoundError:
        return None
    return _choose_missing(known)


def _open(folder: Path, asked: Ports) -> Stack:
    known = read_ports(folder) or Ports()
    given = {name: port for name, port in asdict(asked).items() if port is not None}
    moved = {name: port for name, port in given.items() if port != asdict(known)[name]}
    if moved and None not in _values(known):
        _refuse_running(Stack(folder, known), moved)
    for name, port in moved.items():
        ports.refuse_taken(port, name, f"--{name}-port")
    settled = _choose_missing(replace(known, **moved))
    draft = folder / "stack.json.draft"
    draft.write_text(json.dumps({"ports": asdict(settled)}), encoding="utf-8")
    draft.replace(folder / "stack.json")
    return Stack(folder, settled)


def _refuse_running(stack: Stack, moved: dict[str, int]) -> None:
    if any(service.pids() for service in stack.services()):
        requested = ", ".join(f"{name} on {port}" for name, port in moved.items())
        raise WrongUseError(
            f"the stack in {stack.folder} runs on other ports than the requested ones ({requested}).",
            next_step="run `penstock stack down` first, or omit the options of the ports.",
        )


def _choose_missing(known: Ports) -> Ports:
    missing = [name for name, port in asdict(known).items() if port is None]
    return replace(known, **dict(zip(missing, ports.choose(len(missing)), strict=True))) if missing else known


def _values(known: Ports) -> list[int | None]:
    return [known.db, known.kafka, known.controller, known.airflow, known.spark]


def _all(known: Ports) -> list[int]:
    return [port for port in _values(known) if port is not None]


def _start(service: Service, started: list[Service], tell: Callable[[str], None]) -> None:
    if service.is_running():
        tell(f"{service.name} runs on port {service.port}")
        return
    tell(f"starting {service.name} on port {service.port}")
    started.append(service)
    service.start()


def _prepare_databases(stack: Stack) -> None:
    """Make the databases and the logins. The superuser does only this, and no service gets its URI."""
    from penstock.ledger.connection import connect, migrate
    from penstock.ledger.roles import hand_over_tables

    postgres = stack.postgres
    loads = postgres.create_database(DATABASE)
    postgres.close_database(DATABASE)
    migrate(loads)
    for role in (LOADER, CHECKER, AIRFLOW):
        postgres.create_login(role)
    with connect(loads) as connection:
        hand_over_tables(connection)
    postgres.create_database(AIRFLOW)
    postgres.close_database(AIRFLOW)
    postgres.give_database(AIRFLOW, AIRFLOW)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let one command at a time change a stack; another command waits."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
