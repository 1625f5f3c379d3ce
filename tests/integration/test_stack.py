"""The embedded stack, by its commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock_stack import ports
from penstock_stack.embedded import find_stack, take_down
from penstock_stack.processes import MARK, await_condition, find_marked, find_working_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

pytestmark = pytest.mark.services


def penstock(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    argv = [sys.executable, "-m", "penstock.cli.main", "stack", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=environment)


def bring_up(folder: Path, *arguments: str) -> dict[str, Any]:
    done = penstock("up", "--no-airflow", "--json", "--dir", str(folder), *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def processes_of(folder: Path) -> list[psutil.Process]:
    folder = folder.resolve()
    return find_marked(folder) + find_working_in(folder / "postgres" / "data", "postgres")


def read_processes(folder: Path, read: Callable[[psutil.Process], T]) -> list[T]:
    """Read something of each process of a stack; PostgreSQL's own workers come and go."""
    found = []
    for process in processes_of(folder):
        with suppress(psutil.Error):
            found.append(read(process))
    return found


def listening_addresses(folder: Path) -> set[Any]:
    """The addresses on which a stack listens."""
    return {
        connection.laddr
        for connections in read_processes(folder, lambda process: process.net_connections("inet"))
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a stack that the tests share; each test starts the stack first."""
    yield from _folder(tmp_path_factory.mktemp("shared") / "stack")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """The folder of a stack that was never started."""
    yield from _folder(tmp_path / "stack")


def _folder(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    finally:
        take_down(folder, tell=print)


def write_row(uri: str, number: int) -> None:
    with psycopg.connect(uri) as conn:
        conn.execute("create schema if not exists tried; create table if not exists tried.kept (n int primary key)")
        conn.execute("insert into tried.kept values (%s)", [number])


def read_rows(uri: str) -> set[int]:
    with psycopg.connect(uri) as conn:
        return {number for (number,) in conn.execute("select n from tried.kept")}


def write_record(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read_records(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    records = consumer.consume(count, timeout=30)
    consumer.close()
    return [record.value() for record in records]


def test_up_prints_one_document_with_every_address(folder: Path) -> None:
    document = bring_up(folder)
    assert list(document) == ["db", "db_checker", "kafka", "airflow", "dir", "spark"]
    assert (document["airflow"], document["spark"]) == (None, None)
    assert document["dir"] == str(folder)
    with psycopg.connect(document["db"]) as conn:
        assert conn.execute("select to_regclass('penstock.load')::text").fetchone() == ("penstock.load",)
    assert AdminClient({"bootstrap.servers": document["kafka"]}).list_topics(timeout=10).brokers


def test_a_spark_server_listens_here_only_keeps_its_token_and_stops_with_the_stack(fresh: Path) -> None:
    document = bring_up(fresh, "--spark-connect")
    address, _, token = document["spark"].partition("/;token=")
    port = int(address.removeprefix("sc://127.0.0.1:"))
    assert ports.is_served(port)
    assert (fresh / "spark" / "token").read_text() == token
    assert (fresh / "spark" / "token").stat().st_mode & 0o077 == 0
    assert {address.ip.removeprefix("::ffff:") for address in listening_addresses(fresh)} == {"127.0.0.1"}
    assert token not in penstock("status", "--dir", str(fresh)).stderr
    assert bring_up(fresh) == document
    assert penstock("down", "--dir", str(fresh)).returncode == 0
    assert processes_of(fresh) == []
    assert not ports.is_served(port)


def test_a_second_up_changes_nothing(folder: Path) -> None:
    document = bring_up(folder)
    command_lines = dict(read_processes(folder, lambda process: (process.pid, "".join(process.cmdline()))))
    before = {pid for pid, line in command_lines.items() if line and not line.startswith("postgres: ")}
    assert bring_up(folder) == document
    assert before <= {process.pid for process in processes_of(folder)}


def test_a_stack_listens_on_the_loopback_address_only(folder: Path) -> None:
    bring_up(folder)
    listening = listening_addresses(folder)
    assert len(listening) == 3
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert not any(path.is_socket() for path in folder.rglob("*"))


def test_a_killed_stack_starts_again_with_all_committed_data(folder: Path) -> None:
    document = bring_up(folder)
    write_row(document["db"], 11)
    write_record(document["kafka"], "kept", b"one")
    for process in processes_of(folder):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    await_condition(lambda: not processes_of(folder), 30, "the killed processes are gone")
    assert bring_up(folder) == document
    write_row(document["db"], 12)
    write_record(document["kafka"], "kept", b"two")
    assert read_rows(document["db"]) >= {11, 12}
    assert read_records(document["kafka"], "kept", 2) == [b"one", b"two"]


def test_the_leftovers_of_a_killed_postmaster_do_not_prevent_a_start(folder: Path) -> None:
    document = bring_up(folder)
    write_row(document["db"], 21)
    postmaster = int((folder / "postgres" / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    with psycopg.connect(document["db"]):  # its backend outlives the postmaster for a while
        os.kill(postmaster, signal.SIGKILL)
        assert bring_up(folder) == document
    assert 21 in read_rows(document["db"])


def test_down_leaves_no_process_and_keeps_the_data(folder: Path) -> None:
    document = bring_up(folder)
    write_row(document["db"], 31)
    assert penstock("down", "--dir", str(folder)).returncode == 0
    assert processes_of(folder) == []
    assert penstock("down", "--dir", str(folder)).returncode == 0
    assert bring_up(folder) == document
    assert 31 in read_rows(document["db"])


def test_down_ends_a_process_that_a_service_started_in_another_session(folder: Path) -> None:
    bring_up(folder)
    stray = subprocess.Popen(["sleep", "600"], env={MARK: str(folder)}, start_new_session=True)
    foreign = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        assert penstock("down", "--dir", str(folder)).returncode == 0
        assert stray.wait(timeout=10) == -signal.SIGKILL
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()
        stray.kill()
        stray.wait()


def test_down_kills_a_broker_that_no_longer_listens(folder: Path) -> None:
    bring_up(folder)
    broker = find_stack(folder).broker
    (pid,) = broker.pids()
    os.kill(pid, signal.SIGSTOP)
    broker.stop(grace=0.2)
    assert pid not in {process.pid for process in processes_of(folder)}


def test_a_process_with_a_reused_id_is_not_stopped(folder: Path) -> None:
    bring_up(folder)
    broker = find_stack(folder).broker
    broker.stop()
    foreign = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        record = folder / "kafka" / "process.json"
        record.write_text(json.dumps({"pid": foreign.pid, "started": 1.0}), encoding="utf-8")
        assert penstock("down", "--dir", str(folder)).returncode == 0
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_two_stacks_run_at_the_same_time(folder: Path, fresh: Path) -> None:
    one, two = bring_up(folder), bring_up(fresh)
    assert one["db"] != two["db"]
    assert one["kafka"] != two["kafka"]
    write_row(one["db"], 41)
    write_row(two["db"], 42)
    assert penstock("down", "--dir", str(folder)).returncode == 0
    assert read_rows(two["db"]) == {42}
    write_record(two["kafka"], "kept", b"two")
    assert read_records(two["kafka"], "kept", 1) == [b"two"]


def test_a_running_stack_refuses_other_ports(folder: Path) -> None:
    bring_up(folder)
    done = penstock("up", "--no-airflow", "--dir", str(folder), "--db-port", str(*ports.choose(1)))
    assert done.returncode == 2
    assert "penstock stack down" in done.stderr.splitlines()[-1]


def test_a_stack_uses_the_given_ports(folder: Path) -> None:
    assert penstock("down", "--dir", str(folder)).returncode == 0
    db, kafka = ports.choose(2)
    document = bring_up(folder, "--db-port", str(db), "--kafka-port", str(kafka))
    assert f":{db}/" in document["db"]
    assert document["kafka"] == f"127.0.0.1:{kafka}"


@pytest.mark.parametrize("option", ["--db-port", "--kafka-port"])
def test_a_taken_port_is_one_line_and_leaves_no_process(fresh: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = penstock("up", "--no-airflow", "--dir", str(fresh), option, port)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"port {port}" in line
    assert option in line
    assert processes_of(fresh) == []


def test_a_port_taken_since_the_last_start_is_one_line_and_leaves_no_process(folder: Path) -> None:
    document = bring_up(folder)
    assert penstock("down", "--dir", str(folder)).returncode == 0
    port = int(document["kafka"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        done = penstock("up", "--no-airflow", "--dir", str(folder))
    assert done.returncode == 2
    assert f"port {port}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert processes_of(folder) == []


def test_a_missing_java_is_one_line(fresh: Path, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    setpriv = shutil.which("setpriv")
    if setpriv:
        (path / "setpriv").symlink_to(setpriv)
    done = penstock("up", "--no-airflow", "--dir", str(fresh), path=str(path))
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["Java is missing. Next: install Java 17 and put it on PATH, or set JAVA_HOME."]


def test_the_password_is_in_no_argv_and_in_no_file_that_others_may_read(folder: Path) -> None:
    document = bring_up(folder)
    password = document["db"].partition("penstock_loader:")[2].partition("@")[0]
    assert len(password) >= 24
    shown = penstock("status", "--dir", str(folder))
    assert password not in shown.stderr + shown.stdout
    assert not any(password in " ".join(line) for line in read_processes(folder, psutil.Process.cmdline))
    holding = [path for path in folder.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert holding == [folder / "postgres" / "password.penstock_loader"]
    assert holding[0].stat().st_mode & 0o077 == 0
