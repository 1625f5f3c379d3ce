"""Loads through a Spark server that is kept running: the contract of loads, crashes, errors and secrets."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from declaring import write_declaration
from fix_kafka import MakeTopic
from loading_process import (
    LoadingProcess,
    await_blocked,
    await_true,
    find_descendants,
    locked,
    query,
    stopped_at_first_copy,
)
from penstock.errors import FencedError, LogLostError, RejectedRecordError, StageError, WrongUseError
from penstock.settings import read_settings
from penstock.spark import kept
from penstock.spark.submit import submit
from penstock_stack import ports
from penstock_stack.broker import Broker
from penstock_stack.kept_spark import KeptSpark
from privileges import superuser
from producing import Account, order
from proving import find_faults
from staging_loads import Begun, begin, fill_disk

CANARY = "canary-8d1f"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptSpark]:
    """One server for all tests of this module."""
    [port] = ports.choose(1)
    server = KeptSpark(tmp_path_factory.mktemp("kept") / "spark", port)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def environment(environment: dict[str, str], server: KeptSpark) -> dict[str, str]:
    return environment | {"PENSTOCK_SPARK_MASTER": server.url}


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic, tmp_path: Path) -> Account:
    """A topic of two partitions with plain, aborted and invalid records; declared as `orders`."""
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(tmp_path, account.topic)
    account.send_orders(2000)  # one task, so that a task which waits leaves a core of the server to other loads
    account.transact((order(number) for number in range(50)), commit=False)
    account.send([b"{broken", None, b'{"note": "no id"}'])
    return account


@pytest.fixture
def stage(db: str, server: KeptSpark) -> Callable[[Begun], None]:
    """Stages a load by the server, from this process."""

    def stage(begun: Begun) -> None:
        settings = replace(begun.settings, spark_master=server.url)
        submit(settings, begun.load_id, begun.attempt, io.StringIO())

    return stage


def find_workers(server: KeptSpark, db: str) -> list[psutil.Process]:
    """The Python workers of the server that have a session in this database."""
    sessions = query(
        db,
        "select client_port from pg_stat_activity where datname = current_database()"
        " and application_name = 'penstock stage'",
    )
    ours = {port for (port,) in sessions}
    found = []
    for pid in [pid for parent in server.pids() for pid in find_descendants(parent)]:
        try:
            process = psutil.Process(pid)
            if any(each.laddr and each.laddr.port in ours for each in process.net_connections("tcp")):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_load_adds_up_and_its_other_reading_too_without_a_jvm_of_its_own(
    db: str, account: Account, environment: dict[str, str], tmp_path: Path, reader: str
) -> None:
    checks = [{"expect": "expect_same_when_read_again", "share": 1.0}]
    write_declaration(tmp_path, account.topic, reader=reader, checks=checks)
    loading = LoadingProcess(environment, "orders")
    with stopped_at_first_copy(db):
        await_blocked(db)
        assert find_descendants(loading.process.pid) == []
    code, document, stderr = loading.finish()

    assert code == 0, stderr
    assert document["state"] == "published"
    assert find_faults(db, account) == []
    account.send_orders(10, first=50_000)
    assert LoadingProcess(environment, "orders").finish()[0] == 0
    assert find_faults(db, account) == []
    verified = LoadingProcess(environment, "orders", command="verify").finish()
    assert (verified[0], verified[1]["state"]) == (0, "proven"), verified


def test_the_job_of_a_killed_client_ends_and_the_next_run_loads_every_record(
    db: str, account: Account, environment: dict[str, str], server: KeptSpark
) -> None:
    loading = LoadingProcess(environment, "orders")
    with stopped_at_first_copy(db):
        await_blocked(db)
        workers = find_workers(server, db)
        assert workers
        loading.kill()
        assert query(db, "select count(*) from penstock.covered") == [(0,)]

        code, document, stderr = LoadingProcess(environment, "orders").finish()
        assert (code, document.get("state")) == (0, "published"), stderr
        assert find_faults(db, account) == []
        await_true(lambda: not any(map(is_alive, workers)), "the server ends the tasks of the killed client", 90)
    await_true(lambda: not find_workers(server, db), "no task has a session any more")
    assert find_faults(db, account) == []


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_task_of_a_client_that_woke_up_late_is_fenced(db: str, account: Account, environment: dict[str, str]) -> None:
    zombie = LoadingProcess(environment, "orders")
    with stopped_at_first_copy(db):
        await_blocked(db)
        zombie.signal(signal.SIGSTOP)
        code, _, stderr = LoadingProcess(environment, "orders").finish()
        assert code == 0, stderr
    zombie.signal(signal.SIGCONT)
    code, document, stderr = zombie.finish()

    assert code == FencedError.exit_code, stderr
    assert document["state"] == "fenced"
    assert find_faults(db, account) == []


def test_two_loads_at_once_do_not_mix_up(
    db: str, account: Account, make_topic: MakeTopic, environment: dict[str, str], tmp_path: Path
) -> None:
    other = Account(account.bootstrap, make_topic(2))
    other.send_orders(2000, first=100_000)
    write_declaration(tmp_path, other.topic, name="others")
    loads = [LoadingProcess(environment, name) for name in ("orders", "others")]
    # Both wait at their first change of the ledger's positions, so both have staged at the same time.
    with locked(db, "lock table penstock.check_result in access exclusive mode"):
        await_true(
            lambda: query(db, "select count(*) from penstock.load where state = 'staged'") == [(2,)],
            "both loads are staged",
        )
    for load in loads:
        code, _, stderr = load.finish()
        assert code == 0, stderr

    assert find_faults(db, account) == []
    assert find_faults(db, other, "others", "analytics.others") == []


def test_errors_of_tasks_keep_their_class_ranges_and_next_step(
    db: str, account: Account, stage: Callable[[Begun], None]
) -> None:
    stopped = begin(db, account.bootstrap, account.topic, name="stopped", poison="stop")
    with pytest.raises(RejectedRecordError, match=r"partition \d offsets") as rejected:
        stage(stopped)
    assert (rejected.value.pipeline, rejected.value.load) == ("stopped", stopped.load_id)
    assert [len(range_) for range_ in rejected.value.ranges] == [1]
    assert "quarantine" in rejected.value.next_step
    assert stopped.load().state == "failed"

    lost = begin(db, account.bootstrap, account.topic, name="lost")
    account.delete_before(20)
    with pytest.raises(LogLostError, match=r"partition 0 offsets \[0, 20\).*starts at offset 20"):
        stage(lost)

    fenced = begin(db, account.bootstrap, account.topic, name="fenced")
    fenced.begin_again()
    with pytest.raises(FencedError, match="attempt 1 is no longer current"):
        stage(fenced)


def test_the_first_error_of_a_task_is_known_after_its_later_tries(
    db: str, account: Account, stage: Callable[[Begun], None]
) -> None:
    begun = begin(db, account.bootstrap, account.topic)
    fill_disk(db)
    with pytest.raises(StageError) as refused:
        stage(begun)

    first, _, later = str(refused.value).partition(" Then: ")
    assert "No space left on device (SQLSTATE 53100)" in first
    assert "terminating connection" in later
    assert "make room on the disk of PostgreSQL" in refused.value.next_step
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("drop trigger fail on penstock.stage_task")
    stage(begun)  # the tries left nothing behind
    assert begun.load().state == "staged"


def test_no_secret_is_in_argv_conf_or_the_log_of_the_server(
    db: str, account: Account, server: KeptSpark, stage: Callable[[Begun], None]
) -> None:
    for reader in ("native", "spark"):
        begun = begin(db, account.bootstrap, account.topic, name=f"by_{reader}", reader=reader)
        secrets = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": CANARY}
        stage(replace(begun, settings=replace(begun.settings, kafka={**begun.settings.kafka, **secrets})))
        assert begun.load().state == "staged"
    password = re.findall(r"://[^:]+:([^@]+)@", db)[0]
    with kept.open_server(replace(begun.settings, spark_master=server.url)) as executors:
        conf = str(executors.session.conf.getAll)
        assert "spark.app.id" in conf
    pids = [pid for parent in server.pids() for pid in (parent, *find_descendants(parent))]
    argv = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):  # a worker may end meanwhile
            argv.append(" ".join(psutil.Process(pid).cmdline()))
    assert any("SparkConnectServer" in line for line in argv)
    log = server.log.read_text(errors="replace")
    assert "SparkConnectServer" in log
    for secret in (CANARY, password, server.token):
        assert secret not in conf
        assert secret not in log
        assert not [line for line in argv if secret in line]


def test_airflow_stages_by_the_server_that_its_connection_names(
    db: str, account: Account, server: KeptSpark, tmp_path: Path
) -> None:
    begun = begin(db, account.bootstrap, account.topic)
    connections = {
        "penstock_db": db,
        "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": account.bootstrap}},
        "spark_default": {
            "conn_type": "spark_connect", "host": "127.0.0.1", "port": server.port, "password": server.token
        },
    }  # fmt: skip
    given = {
        f"AIRFLOW_CONN_{name.upper()}": each if isinstance(each, str) else json.dumps(each)
        for name, each in connections.items()
    }
    code = (
        "import sys; from penstock.airflow.stage_operator import StageOperator;"
        f"StageOperator(task_id='stage', load_id={begun.load_id}).execute({{}});"
        "import psutil; assert psutil.Process().children(recursive=True) == []"
    )
    environment = {**os.environ, **given, "AIRFLOW_HOME": str(tmp_path), "PENSTOCK_PIPELINES": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert begun.load().state == "staged"
    assert begun.load().attempt == 2


def test_a_client_that_ships_the_package_again_ships_the_same_bytes(
    db: str, account: Account, server: KeptSpark
) -> None:
    settings = replace(begin(db, account.bootstrap, account.topic).settings, spark_master=server.url)
    with kept.open_server(settings) as executors:
        shipped = executors.session.conf.get(kept.SHIPPED)
        # Another client of the same version that began at the same time finds no mark either.
        executors.session.conf.unset(kept.SHIPPED)
        with kept.open_server(settings) as again:
            assert again.session.session_id == executors.session.session_id
        assert executors.session.conf.get(kept.SHIPPED) == shipped


def test_a_transform_is_refused_before_anything_is_written(
    db: str, account: Account, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "transforms"
    folder.mkdir()
    (folder / "tidy.py").write_text("def tidy(frame):\n    return frame\n")
    write_declaration(tmp_path, account.topic, transform="tidy:tidy")
    code, document, _ = LoadingProcess(environment | {"PENSTOCK_TRANSFORMS": str(folder)}, "orders").finish()

    assert (code, document["state"]) == (WrongUseError.exit_code, "refused")
    assert "set PENSTOCK_SPARK_MASTER to local[*]" in document["next_step"]
    assert query(db, "select count(*) from penstock.load") == [(0,)]


def test_a_server_that_is_missing_or_refuses_the_token_is_named(
    db: str, account: Account, server: KeptSpark, environment: dict[str, str]
) -> None:
    begun = begin(db, account.bootstrap, account.topic)
    [closed] = ports.choose(1)
    named = environment | {"PENSTOCK_SPARK_MASTER": f"sc://127.0.0.1:{closed}", "PENSTOCK_DB": db}
    refused = environment | {"PENSTOCK_SPARK_MASTER": f"sc://127.0.0.1:{server.port}/;token={CANARY}"}
    for given, what in ((named, f"no Spark server answers at 127.0.0.1:{closed}"), (refused, "refused the session")):
        with pytest.raises(StageError, match=what) as raised:
            submit(read_settings(given), begun.load_id, begun.attempt, io.StringIO())
        assert (raised.value.pipeline, raised.value.load) == ("orders", begun.load_id)
        assert "check that the server runs" in raised.value.next_step
        assert CANARY not in str(raised.value)
    with socket.create_connection(("127.0.0.1", server.port)):
        pass  # the server is up: the second error was not the first one
