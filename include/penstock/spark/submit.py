"""Submitting the stage job: the arguments of spark-submit, shared by the command line and the Airflow operator.

Every user of the machine can read arguments and conf, and Spark logs them, so they hold ids only. Values that may hold
a password reach the driver by its environment, and the executors inside the tasks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from penstock import advice
from penstock.declaration.transforms import find_file
from penstock.errors import WrongUseError
from penstock.ledger.connection import concerning, open_ledger
from penstock.ledger.load import read_load
from penstock.settings import DB, KAFKA, TRANSFORMS
from penstock.spark.running_driver import run_submission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.ranges import Range
    from penstock.settings import Settings

PACKAGE = Path(__file__).resolve().parents[1]
PROJECT = PACKAGE.parents[1]
TRIES = 4
# With the native reader the JVM has little work, so a fast start matters more than fast code.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Where all records pass through the JVM, the collector that stops all threads: 4M records by a transform took 18.4 s
# with it and 20.6 s with G1, and by `reader: spark` 19.5 and 20.1 s. The second compiler gets only the code that runs
# ten times longer than it would usually wait for, so that it leaves the start of Spark alone: by `reader: spark` 24.6
# CPU seconds became 18.6, and by a transform 4.0 of the compiler became 1.4.
LONG_RUN = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# Up to this number of records the second compiler costs more than its code saves there too: 1M records by a transform
# take 9.4 s with it and without it, and 2M by `reader: spark` 14.1 s with it and 15.4 s without it.
QUICK_UNTIL = 1_000_000
# The JVM ignores an archive that does not fit, and logs nothing.
QUIET_ARCHIVE = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
# A home of Spark without `python/lib`. Spark puts the zips of that folder before all packages, and Python compiles what
# they hold at each start of a driver, a daemon or a worker. The installed pyspark is the same, and compiled.
PREPARED_HOME = Path(".jars", "spark-home")
CONF = {
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.task.maxFailures": str(TRIES),
    "spark.sql.catalogImplementation": "in-memory",
    "spark.redaction.regex": "(?i)secret|password|token|jaas|access[.]?key|postgres(ql)?://",
    # The tasks of the Spark reader are identified by their place in a union, so it must keep its order.
    "spark.sql.unionOutputPartitioning": "false",
    # The sources that Spark reads by its older interface, without Kafka: that interface makes a Row of objects of each
    # record, and code for it in each partition. 2M records took 34.7 CPU seconds by it, and 22.7 by the newer one.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark keeps the consumer of a partition for five minutes after its last record, with the metadata of all
    # partitions, and its last records too, and then warns at each new one. 1,000 partitions took 21.3 CPU seconds in
    # the client so, 18.0 if that ended within 50 ms, and 16.2 if it ends before the collector copies what was kept.
    "spark.kafka.consumer.cache.timeout": "1ms",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "5ms",
    "spark.kafka.consumer.fetchedData.cache.timeout": "1ms",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "50ms",
}
# Spark makes code for each partition that it reads. Below this average number of offsets in a range it takes longer
# than it saves: 1M records of 1,000 partitions took 16.6 CPU seconds without and 18.5 with it, of 400 partitions 14.6
# and 14.5, and of 4 partitions 18.3 and 14.7 s.
LITTLE_RANGE = 2_000
WITHOUT_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# The input of the tasks that write rows is made once. If it is lost with an executor, the attempt fails: made again, it
# could give rows to tasks in another way, and a row could miss all tasks that still run.
OF_TRANSFORM = {"spark.stage.maxConsecutiveAttempts": "1"}
# Each task of a transform has two workers. Their modules are imported once, by their daemon: four workers took 1.8 CPU
# seconds for it. The executors of a cluster have the package from an archive, which comes after their daemon.
OF_LOCAL_TRANSFORM = {"spark.python.daemon.module": "penstock.spark.jobs.transform_daemon"}
LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Submission:
    """The arguments and the environment of spark-submit. The environment holds secrets: it is left out of the repr."""

    application: str
    application_args: tuple[str, ...]
    master: str
    conf: Mapping[str, str]
    py_files: str
    jars: str | None
    driver_java_options: str
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


def make_submission(
    settings: Settings,
    load_id: int,
    attempt: int,
    reader: str,
    folder: Path,
    ranges: Sequence[Range] = (),
    transform: str | None = None,
) -> Submission:
    """Make a submission of the stage job for ranges; `folder` must last until the job has ended."""
    return _make_submission(settings, "stage.py", (load_id, attempt), reader, folder, ranges, transform)


def _make_submission(
    settings: Settings,
    job: str,
    numbers: tuple[int, ...],
    reader: str,
    folder: Path,
    ranges: Sequence[Range],
    transform: str | None = None,
) -> Submission:
    """Make a submission; the package is zipped into `folder`. The file of a transform is checked before that."""
    if transform is not None:
        find_file(transform, settings.find_transforms())
    master = tolerate_failures(settings.spark_master)
    return Submission(
        application=str(find_application(job)),
        application_args=tuple(map(str, numbers)),
        master=master,
        conf=CONF
        | (LOCAL_CONF if master.startswith("local") else {})
        | choose_code(ranges)
        | ship_rust()
        | (OF_TRANSFORM if transform else {})
        | (OF_LOCAL_TRANSFORM if transform and master.startswith("local") else {}),
        py_files=str(zip_package(folder)),
        jars=",".join(map(str, find_spark_jars())) if reader == "spark" else None,
        driver_java_options=choose_java_options(
            # The rows of a transform pass through Spark SQL with the native reader too.
            "spark" if transform else reader,
            sum(map(len, ranges)) if ranges else None,
        ),
        env=make_environment(settings),
    )


def choose_java_options(reader: str, offsets: int | None) -> str:
    """The driver's Java options: a fast start where that pays, and the archive of classes if it has been made."""
    is_small = offsets is not None and offsets <= QUICK_UNTIL
    options = [QUICK_START if reader != "spark" or is_small else LONG_RUN]
    archives = (root / ".jars" / "spark.jsa" for root in (PROJECT, Path.cwd()))
    archive = next((path for path in archives if path.is_file()), None)
    if archive is not None and not re.search(r"\s", str(archive)):
        options.append(f"-XX:SharedArchiveFile={archive} {QUIET_ARCHIVE}")
    return " ".join(options)


def choose_code(ranges: Sequence[Range]) -> dict[str, str]:
    """The conf of Spark's made code: none is made where the ranges are too little to be worth it."""
    return WITHOUT_CODE if ranges and sum(map(len, ranges)) <= LITTLE_RANGE * len(ranges) else {}


def make_environment(settings: Settings) -> dict[str, str]:
    """The variables of the driver beyond its parent's environment: the addresses of the services, and its Python."""
    folders = {TRANSFORMS: str(settings.find_transforms().absolute())}
    spark = make_spark_environment(settings.spark_master)
    return {DB: settings.db, KAFKA: json.dumps(dict(settings.kafka)), **folders, **spark}


def make_spark_environment(master: str) -> dict[str, str]:
    """The variables that select this Python and its Spark, instead of the first ones on PATH."""
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # spark-submit first starts a JVM of its own, which makes the command of the driver.
        "SPARK_LAUNCHER_OPTS": QUICK_START,
        "SPARK_HOME": str(_choose_home(master)),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def tolerate_failures(master: str) -> str:
    """Give a local master the number of tries that a cluster reads from spark.task.maxFailures."""
    if master == "local":
        return f"local[1,{TRIES}]"
    return re.sub(r"^local\[([0-9]+|\*)\]$", rf"local[\1,{TRIES}]", master)


def zip_package(folder: Path) -> Path:
    """Zip the package with its data files for the executors. Equal files give equal bytes."""
    archive = folder / "penstock.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in _read_package():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(entry, content)
    return archive


def ship_rust() -> dict[str, str]:
    """The conf that gives the record path in Rust to the executors, if it is installed here.

    Python cannot load it from a zip. Spark puts its files into a folder that Python searches first.
    """
    files = find_rust()
    return {"spark.files": str(files[0])} if files else {}


def find_rust() -> list[Path]:
    """The file of the record path in Rust; empty if it is not installed here."""
    found = find_spec("penstock_native")
    return sorted(Path(found.origin).parent.glob("penstock_native.*.so"))[:1] if found and found.origin else []


def hash_package() -> bytes:
    """The sha256 of all that a kept server gets: the package, and the record path in Rust."""
    digest = hashlib.sha256()
    rust = ((path.name, path.read_bytes()) for path in find_rust())
    for name, content in (*_read_package(), *rust):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.digest()


def _read_package() -> Iterator[tuple[str, bytes]]:
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"penstock/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes()


def find_application(job: str) -> Path:
    """The entry point of a job: the one of the checkout, or the one of the package without a checkout."""
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
    return find_spark_home() / "bin" / "spark-submit"


def _choose_home(master: str) -> Path:
    """The home of a local Spark: the prepared one, if there is one for the pyspark of this environment."""
    home = find_spark_home()
    if master.startswith("local"):
        for root in (PROJECT, Path.cwd()):
            prepared = root / PREPARED_HOME
            if (prepared / "jars").resolve() == (home / "jars").resolve():
                return prepared
    return home


def find_spark_home() -> Path:
    """The folder of the pyspark of this environment."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise WrongUseError("pyspark is not installed in this environment.", next_step=advice.RUN_SETUP)
    return Path(found.origin).parent


def submit(
    settings: Settings, load_id: int, attempt: int, log: TextIO, begun: Callable[[], object] | None = None
) -> None:
    """Run the stage job. The output of a driver is written to `log`, and its error is raised here.

    With a kept server the job runs in this process. `begun` is called once the driver is on its way.
    """
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    with concerning(load=load):
        if settings.keeps_spark:
            if begun is not None:
                begun()
            stage_by_server(settings, load_id, attempt)
            return
        declared = load.declaration
        _run_in_folder(
            lambda folder: make_submission(
                settings, load_id, attempt, declared.reader, folder, load.ranges, declared.transform
            ),
            log,
            begun,
        )


def stage_by_server(settings: Settings, load_id: int, attempt: int) -> None:
    """Run the stage job in this process, by the executors of a kept server."""
    # Found late: the jobs may import all other rooms.
    resolve_name("penstock.spark.jobs.stage:stage_by_server")(settings, load_id, attempt)


def refuse_transform(settings: Settings, pipeline: Pipeline) -> None:
    """Refuse a transform with a kept server, before anything is written.

    The session of the server is shared, and a transform could change the conf and the views of another load.
    """
    if settings.keeps_spark and pipeline.transform is not None:
        raise WrongUseError(
            f"{pipeline.name} has a transform, and a kept Spark server stages no transforms.",
            pipeline=pipeline.name,
            next_step=advice.TRANSFORM_WITHOUT_SERVER,
        )


def submit_reread(settings: Settings, verification_id: int, log: TextIO) -> None:
    """Run the job that reads the chunks of a verification again. Its results are in the ledger when this returns."""
    if settings.keeps_spark:
        resolve_name("penstock.spark.jobs.reread:reread_by_server")(settings, verification_id)
        return
    _run_in_folder(lambda folder: _make_submission(settings, "reread.py", (verification_id,), "spark", folder, ()), log)


def _run_in_folder(make: Callable[[Path], Submission], log: TextIO, begun: Callable[[], object] | None = None) -> None:
    """Make a submission in a folder of its own, and run it. The folder stays until Spark has ended."""
    with ExitStack() as resources:
        folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="penstock-")))
        run_submission(make(folder), log, resources.pop_all(), begun)
