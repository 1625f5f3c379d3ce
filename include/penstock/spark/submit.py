"""Submitting the stage job: what spark-submit is given, shared by the command line and the Airflow operator.

Arguments and conf can be read by everybody on the machine, and Spark writes them into its logs: they hold ids. Whatever
may hold a password goes to the driver by its environment, and from there to the executors inside the tasks.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError
from penstock.ledger.connection import concerning, open_ledger
from penstock.ledger.load import read_load
from penstock.settings import DB, KAFKA
from penstock.spark.error_transport import LastWords

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from penstock.settings import Settings

PACKAGE = Path(__file__).resolve().parents[1]
PROJECT = PACKAGE.parents[1]
TRIES = 4
# The native reader leaves little for the JVM to do: what counts is that it starts fast.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# An archive that does not fit is passed over, without a word.
QUIET_ARCHIVE = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
CONF = {
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.task.maxFailures": str(TRIES),
    "spark.sql.catalogImplementation": "in-memory",
    "spark.redaction.regex": "(?i)secret|password|token|jaas|access[.]?key|postgres(ql)?://",
    # The Kafka reader's tasks are told apart by their place in a union: it must keep its order.
    "spark.sql.unionOutputPartitioning": "false",
}
LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Submission:
    """What spark-submit is given. The environment holds the secrets: it stays out of the repr."""

    application: str
    application_args: tuple[str, ...]
    master: str
    conf: Mapping[str, str]
    py_files: str
    jars: str | None
    driver_java_options: str | None
    env: Mapping[str, str] = field(repr=False)

    def argv(self) -> list[str]:
        """The command line: ids, paths and conf, and no secret."""
        options = {
            "--master": self.master,
            "--deploy-mode": "client",
            "--name": "penstock",
            "--py-files": self.py_files,
            "--jars": self.jars,
            "--driver-java-options": self.driver_java_options,
        }
        given = [word for name, value in options.items() if value for word in (name, value)]
        conf = [word for name, value in self.conf.items() for word in ("--conf", f"{name}={value}")]
        return [str(find_spark_submit()), *given, *conf, self.application, *self.application_args]


def make_submission(settings: Settings, load_id: int, attempt: int, reader: str, folder: Path) -> Submission:
    """Make a submission of the stage job; `folder` must last until the job has ended."""
    return _make_submission(settings, "stage.py", (load_id, attempt), reader, folder)


def _make_submission(settings: Settings, job: str, numbers: tuple[int, ...], reader: str, folder: Path) -> Submission:
    """Make a submission; the package is zipped into `folder`."""
    master = tolerate_failures(settings.spark_master)
    return Submission(
        application=str(find_application(job)),
        application_args=tuple(map(str, numbers)),
        master=master,
        conf=CONF | (LOCAL_CONF if master.startswith("local") else {}),
        py_files=str(zip_package(folder)),
        jars=",".join(map(str, find_spark_jars())) if reader == "spark" else None,
        driver_java_options=choose_java_options(reader),
        env=make_environment(settings),
    )


def choose_java_options(reader: str) -> str | None:
    """The driver's Java options: start fast, and from the archive of classes where it has been made."""
    options = [] if reader == "spark" else [QUICK_START]
    archives = (root / ".jars" / "spark.jsa" for root in (PROJECT, Path.cwd()))
    archive = next((path for path in archives if path.is_file()), None)
    if archive is not None and not re.search(r"\s", str(archive)):
        options.append(f"-XX:SharedArchiveFile={archive} {QUIET_ARCHIVE}")
    return " ".join(options) or None


def make_environment(settings: Settings) -> dict[str, str]:
    """What the driver's environment must hold, beyond that of its parent: where the services are, and which Python."""
    return {DB: settings.db, KAFKA: json.dumps(dict(settings.kafka)), **make_spark_environment()}


def make_spark_environment() -> dict[str, str]:
    """This Python and its Spark, and not what the PATH would find first."""
    home = _find_spark_home()
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # spark-submit asks a JVM of its own how to start the driver's.
        "SPARK_LAUNCHER_OPTS": QUICK_START,
        "SPARK_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def tolerate_failures(master: str) -> str:
    """Give a local master the number of tries that a cluster takes from spark.task.maxFailures."""
    if master == "local":
        return f"local[1,{TRIES}]"
    return re.sub(r"^local\[([0-9]+|\*)\]$", rf"local[\1,{TRIES}]", master)


def zip_package(folder: Path) -> Path:
    """Zip the package with its data files for the executors: the same files give the same bytes."""
    archive = folder / "penstock.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted(PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(f"penstock/{path.relative_to(PACKAGE).as_posix()}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                zipped.writestr(entry, path.read_bytes())
    return archive


def find_application(job: str) -> Path:
    """The job's entry point: the checkout's, or the one in the package where there is no checkout."""
    in_checkout = PROJECT / "spark_jobs" / job
    return in_checkout if in_checkout.is_file() else PACKAGE / "spark" / "jobs" / job


def find_spark_jars() -> list[Path]:
    """The jars of Spark's Kafka source, from the checkout or from the working directory."""
    for root in (PROJECT, Path.cwd()):
        jars = sorted((root / ".jars" / "spark").glob("*.jar"))
        if jars:
            return jars
    in_checkout = (PROJECT / "pyproject.toml").is_file()
    raise WrongUseError(
        "the jars of Spark's Kafka source are missing; `reader: spark` and `penstock verify` need them.",
        next_step=advice.RUN_SETUP if in_checkout else advice.copy_jars(Path.cwd() / ".jars" / "spark"),
    )


def find_spark_submit() -> Path:
    """The spark-submit that belongs to the pyspark of this environment."""
    return _find_spark_home() / "bin" / "spark-submit"


def _find_spark_home() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise WrongUseError("pyspark is not installed in this environment.", next_step=advice.RUN_SETUP)
    return Path(found.origin).parent


def submit(settings: Settings, load_id: int, attempt: int, log: TextIO) -> None:
    """Run the stage job to its end; what it writes goes to `log`, and its error is raised here."""
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    with concerning(load=load):
        _submit(settings, "stage.py", (load_id, attempt), load.declaration.reader, log)


def submit_reread(settings: Settings, verification_id: int, log: TextIO) -> None:
    """Run the job that reads a verification's chunks again; what it finds is in the ledger when this returns."""
    _submit(settings, "reread.py", (verification_id,), "spark", log)


def _submit(settings: Settings, job: str, numbers: tuple[int, ...], reader: str, log: TextIO) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        submission = _make_submission(settings, job, numbers, reader, Path(folder))
        last_words, exit_code = run_submission(submission, log)
    if exit_code != 0:
        raise last_words.read(exit_code)


def run_submission(submission: Submission, log: TextIO) -> tuple[LastWords, int]:
    """Run spark-submit in a process group of its own; the group ends with this call, however it ends."""
    process = subprocess.Popen(
        submission.argv(),
        env={**os.environ, **submission.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last_words = LastWords()
    with process:
        try:
            log.writelines(last_words.listen(process.stdout or ()))
            return last_words, process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
