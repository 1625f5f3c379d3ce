"""The stage job as spark-submit runs it, with processes and connections that die during the job."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from penstock.errors import FencedError, StageError
from penstock.model.ranges import Range
from penstock.spark.class_archive import make_archive
from penstock.spark.running_driver import run_submission
from penstock.spark.submit import (
    QUICK_START,
    QUIET_ARCHIVE,
    choose_code,
    choose_java_options,
    find_spark_submit,
    make_environment,
    make_spark_environment,
    make_submission,
    submit,
    zip_package,
)
from penstock.waiting import wait_until
from penstock_stack import ports
from penstock_stack.processes import await_condition
from privileges import superuser
from producing import Account
from staging_loads import begin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from staging_loads import Begun

CANARY = "canary-8d1f"


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic(2))


def run_job(begun: Begun, folder: Path, conf: dict[str, str] | None = None, reader: str = "native") -> str:
    """Run spark-submit to its end, and return its whole log."""
    made = make_submission(begun.settings, begun.load_id, begun.attempt, reader, folder)
    log = io.StringIO()
    ended = threading.Event()
    with ExitStack() as resources:
        resources.callback(ended.set)
        run_submission(replace(made, conf={**made.conf, **(conf or {})}), log, resources.pop_all())
    assert ended.wait(120), "the driver has not ended"
    return log.getvalue()


def watch(look: Callable[[], bool]) -> threading.Thread:
    """Call `look` in a thread until it returns true."""
    thread = threading.Thread(target=wait_until, args=(look,), kwargs={"seconds": 120, "every": 0.01}, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_no_secret_is_in_argv_conf_event_log_or_log(db: str, account: Account, tmp_path: Path, reader: str) -> None:
    account.send_orders(1000)
    begun = begin(db, account.bootstrap, account.topic, reader=reader)
    secrets = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": CANARY}
    begun = replace(begun, settings=replace(begun.settings, kafka={**begun.settings.kafka, **secrets}))
    password = re.findall(r"://[^:]+:([^@]+)@", db)[0]
    argv: set[str] = set()

    def look() -> bool:
        for process in psutil.Process().children(recursive=True):
            try:
                argv.add(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return begun.load().state == "staged"

    watcher = watch(look)
    events = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.eventLog.compress": "false",
    }
    log = run_job(begun, tmp_path, events, reader)
    watcher.join()
    assert any("stage.py" in line for line in argv)
    written = [
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".zip"
    ]
    assert any("SparkListenerApplicationStart" in text for text in written)
    for secret in (CANARY, password):
        assert not [line for line in argv if secret in line]
        assert secret not in log
        assert not [text for text in written if secret in text]


def test_a_submission_holds_no_secret_and_its_arguments_are_ids(db: str, account: Account, tmp_path: Path) -> None:
    account.send_orders(1)
    begun = begin(db, account.bootstrap, account.topic)
    settings = replace(begun.settings, kafka={**begun.settings.kafka, "sasl.password": CANARY})
    made = make_submission(settings, 17, 2, "native", tmp_path)
    assert made.application_args == ("17", "2")
    assert CANARY not in repr(made) + " ".join(made.argv())
    assert db not in repr(made) + " ".join(made.argv())
    assert CANARY in made.env["PENSTOCK_KAFKA"]


@pytest.mark.parametrize(
    ("reader", "offsets", "quick"),
    [("native", None, True), ("spark", 1_000_000, True), ("spark", 1_000_001, False), ("spark", None, False)],
)
def test_a_jvm_with_much_work_keeps_its_second_compiler(reader: str, offsets: int | None, quick: bool) -> None:
    assert (QUICK_START in (choose_java_options(reader, offsets) or "")) == quick


@pytest.mark.parametrize(("master", "own"), [("local[2]", True), ("spark://host:7077", False)])
def test_the_executors_of_a_cluster_start_workers_by_sparks_own_daemon(
    db: str, account: Account, tmp_path: Path, master: str, own: bool
) -> None:
    account.send_orders(1)
    settings = replace(begin(db, account.bootstrap, account.topic).settings, spark_master=master, transforms=tmp_path)
    (tmp_path / "rows.py").write_text("def made(frame):\n    return frame\n")
    made = make_submission(settings, 17, 2, "native", tmp_path, transform="rows:made")
    assert ("spark.python.daemon.module" in made.conf) == own
    assert "spark.python.daemon.module" not in make_submission(settings, 17, 2, "native", tmp_path).conf


@pytest.mark.parametrize(("ranges", "coded"), [([], True), ([2_000, 2_001], True), ([1, 3_999], False), ([0], False)])
def test_spark_makes_no_code_for_ranges_of_a_few_records(ranges: list[int], coded: bool) -> None:
    chosen = choose_code([Range(partition, 10, 10 + length) for partition, length in enumerate(ranges)])
    assert (chosen == {}) == coded


def test_the_zip_for_the_executors_is_reproducible_and_holds_the_sql(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first, second = zip_package(tmp_path), zip_package(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    code = "import penstock.ledger.statements as s; print(s.__file__, len(s.Statements('ledger/stage_task').texts))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(first)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "penstock.zip" in ran.stdout


def test_the_error_of_the_job_is_raised_and_is_the_last_line_of_its_log(db: str, account: Account) -> None:
    account.send_orders(10)
    begun = begin(db, account.bootstrap, account.topic)
    begun.begin_again()
    log = io.StringIO()
    with pytest.raises(FencedError, match="attempt 1 is no longer current") as raised:
        submit(begun.settings, begun.load_id, begun.attempt, log)
    last = log.getvalue().splitlines()[-1]
    assert last.startswith(f"penstock: orders load {begun.load_id}: attempt 1 is no longer current")
    assert (raised.value.pipeline, raised.value.load) == ("orders", begun.load_id)
    assert raised.value.ranges == begun.load().ranges
    assert "`penstock status` shows the state" in raised.value.next_step


def test_the_error_of_a_driver_that_died_silently_names_load_and_ranges(db: str, account: Account) -> None:
    account.send_orders(10)
    begun = begin(db, account.bootstrap, account.topic)
    settings = replace(begun.settings, spark_master="nowhere://")
    with pytest.raises(StageError, match="the Spark driver ended with exit code 1: ") as raised:
        submit(settings, begun.load_id, begun.attempt, io.StringIO())
    assert (raised.value.pipeline, raised.value.load) == ("orders", begun.load_id)
    assert raised.value.ranges == begun.load().ranges
    assert "look into the driver's log" in raised.value.next_step


def test_a_task_whose_connection_dies_in_its_copy_is_tried_again_exactly_once(
    db: str, account: Account, tmp_path: Path
) -> None:
    account.send_orders(120_000)
    begun = begin(db, account.bootstrap, account.topic)
    with psycopg.connect(superuser(db)) as lock:
        lock.execute(f"lock table penstock_stage.load_{begun.load_id}_{begun.attempt} in share mode".encode())

        def cut() -> bool:
            with psycopg.connect(db, autocommit=True) as connection:
                found = connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'penstock stage' and wait_event_type = 'Lock' and query ilike 'copy%'"
                    " limit 1"
                ).fetchall()
            if found:
                lock.rollback()
            return bool(found)

        watcher = watch(cut)
        log = run_job(begun, tmp_path)
        watcher.join()
    assert "Lost task" in log, "the COPY was cut off"
    assert begun.load().rows == 120_000
    assert begun.staged() == sorted(account.visible())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers of one core, each with a work folder of its own."""
    port, web = ports.choose(2)
    classes = find_spark_submit().parent / "spark-class"
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        with (folder / "log").open("wb") as log:
            environment = {**os.environ, "SPARK_HOME": str(classes.parents[1]), "SPARK_NO_DAEMONIZE": "1"}
            processes.append(
                subprocess.Popen([str(classes), *arguments], cwd=folder, env=environment, stdout=log, stderr=log,
                                 start_new_session=True)
            )  # fmt: skip

    master = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web))
    try:
        start("master", "org.apache.spark.deploy.master.Master", *master)
        # Spark never runs two tries of a task on one host: each worker needs an address of its own.
        for name, host in (("one", "127.0.0.1"), ("two", "127.0.0.2")):
            work = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / name / "work"))
            start(name, "org.apache.spark.deploy.worker.Worker", "--host", host, *work, f"spark://127.0.0.1:{port}")
        master_log = tmp_path / "master" / "log"
        await_condition(lambda: master_log.read_text().count("Registering worker") == 2, 120, "two workers register")
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_cluster_without_a_shared_folder_stages_a_load_with_a_stopped_worker(
    db: str, account: Account, cluster: str, tmp_path: Path
) -> None:
    """Speculation starts another try of the task that stands still; when it wakes up, it must change nothing."""
    account.send_orders(400_000)
    begun = begin(db, account.bootstrap, account.topic, master=cluster)
    stopped: list[psutil.Process] = []

    def stop_one() -> bool:
        for process in psutil.process_iter(["cmdline", "cwd"]):
            if "pyspark.daemon" in (process.info["cmdline"] or []) and str(tmp_path) in (process.info["cwd"] or ""):
                with suppress(psutil.NoSuchProcess):
                    for child in process.children():
                        if any(link.raddr and link.raddr.port == account_port(db) for link in child.net_connections()):
                            child.suspend()
                            stopped.append(child)
                            return True
        return False

    watcher = watch(stop_one)
    fast = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.executor.memory": "512m",
    }
    try:
        run_job(begun, tmp_path, fast)
    finally:
        for process in stopped:
            if process.is_running():
                process.resume()
    watcher.join()
    assert stopped, "a worker was stopped in the middle of a chunk"
    assert begun.staged() == sorted(account.visible())
    shipped = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.glob("*/work/app-*/*/penstock.zip"))
    assert shipped == ["one", "two"]


def account_port(db: str) -> int:
    return int(re.findall(r":(\d+)/", db)[0])


def test_the_environment_of_the_driver_selects_this_python(db: str, account: Account) -> None:
    account.send_orders(1)
    environment = make_environment(begin(db, account.bootstrap, account.topic).settings)
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


@pytest.mark.services
def test_only_a_local_spark_starts_from_the_home_without_sources() -> None:
    local, cluster = (Path(make_spark_environment(master)["SPARK_HOME"]) for master in ("local[2]", "spark://one:7077"))
    assert (cluster / "python").is_dir()
    assert not (local / "python").exists()
    assert (local / "jars").samefile(cluster / "jars")


@pytest.mark.services
def test_an_archive_of_classes_that_does_not_fit_is_ignored_silently(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    make_archive(archive)
    assert [path.name for path in tmp_path.iterdir()] == ["spark.jsa"]

    def run(path: Path) -> subprocess.CompletedProcess[str]:
        options = [*QUIET_ARCHIVE.split(), f"-XX:SharedArchiveFile={path}", "-version"]
        return subprocess.run(["java", *options], capture_output=True, text=True, check=True)

    broken = tmp_path / "broken.jsa"
    broken.write_bytes(b"x" * 5000)
    plain = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    assert run(broken).stdout == plain.stdout == ""
    assert len(run(broken).stderr.splitlines()) == len(plain.stderr.splitlines())
