"""Inside the driver: its Spark context, the failures of its tasks, and the error that it reports at its end."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.errors import PenstockError
from penstock.ledger.connection import concerning
from penstock.spark.error_transport import DONE, describe_cause, format_error, recover_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from penstock.spark.executors import Executors, Work

MOST_TASKS, SETTLE_MILLISECONDS = 100_000, 10_000


class DriverExecutors:
    """The executors of the driver that runs in this process."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def application(self) -> str:
        return str(self._context.applicationId)

    @cached_property
    def session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        return SparkSession(self._context)

    def open_session(self, conf: Mapping[str, str]) -> SparkSession:
        from py4j.protocol import register_input_converter  # type: ignore[import-untyped]
        from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

        # The function of a transform may give NumPy's numbers to Spark.
        register_input_converter(NumpyScalarConverter())
        register_input_converter(NumpyArrayConverter())
        self._start_python()
        session = self.session.newSession()
        for name, value in conf.items():
            session.conf.set(name, value)
        return session

    def _start_python(self) -> None:
        """Start Python's daemon and a worker while SQL starts."""
        # SQL gives its workers this variable, and workers with other variables get a daemon of their own.
        self._context.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
        ThreadPoolExecutor(1).submit(self._run_nothing)  # its errors are those of the load's tasks, which report them

    def _run_nothing(self) -> None:
        self._context.setJobGroup("start", "starts Python")  # this is not a job of the load
        self._context.parallelize([0], 1).mapPartitions(list).collect()

    def count_cores(self) -> int:
        return int(self._context.defaultParallelism)

    def run(self, count: int, work: Work) -> list[tuple[int, bool]]:
        # An RDD of numbers, because a DataFrame would start the SQL engine, which takes 2 to 3 CPU seconds.
        return list(self._context.parallelize(range(count), count).mapPartitions(work).collect())

    def find_failures(self) -> Iterator[PenstockError]:
        """The errors of all tries of the newest job's tasks. Spark keeps them without its web page too."""
        for stage, data, store in self._read_stages():
            tasks = store.taskList(stage, data.attemptId(), MOST_TASKS)
            tries = [tasks.apply(place) for place in range(tasks.size())]
            failed = [each for each in tries if each.errorMessage().isDefined()]
            for each in sorted(failed, key=lambda each: (each.launchTime().getTime(), each.taskId())):
                error = recover_error(each.errorMessage().get())
                if error is not None:
                    yield error

    def find_failed_tasks(self, count: int) -> set[int]:
        """The tasks that failed in a stage of `count` tasks that reads no other stage."""
        for stage, data, store in self._read_stages():
            if data.numFailedTasks() == 0 or data.numTasks() != count or data.shuffleReadRecords():
                continue
            tasks = store.taskList(stage, data.attemptId(), MOST_TASKS)
            failed = [tasks.apply(place) for place in range(tasks.size())]
            return {task.index() for task in failed if task.errorMessage().isDefined()}
        return set()

    def _read_stages(self) -> Iterator[tuple[int, Any, Any]]:
        """The stages of the newest job, each with the data of its last attempt and with the store of both."""
        newest, store = find_newest_job(self._context), self._context._jsc.sc().statusStore()
        job = self._context.statusTracker().getJobInfo(newest)
        for stage in sorted(job.stageIds) if job else ():
            yield stage, store.lastStageAttempt(stage), store


def find_newest_job(context: SparkContext) -> int:
    """The number of the newest job, once Spark has noted all that began; -1 without one."""
    context._jsc.sc().listenerBus().waitUntilEmpty(SETTLE_MILLISECONDS)
    return int(max(context.statusTracker().getJobIdsForGroup(), default=-1))


def drive(name: str, job: Callable[[Callable[[], Executors]], None], *, load: int | None = None) -> int:
    """Run a job, which opens its executors when it needs them. The exit code and the last lines report its error."""
    try:
        with concerning(load=load):
            _run(name, job)
    except PenstockError as error:
        sys.stderr.write(f"{format_error(error)}\n")
        return error.exit_code
    return 0


def _run(name: str, job: Callable[[Callable[[], Executors]], None]) -> None:
    contexts: list[SparkContext] = []
    try:
        job(lambda: DriverExecutors(_open_context(name, contexts)))
        sys.stderr.write(DONE)
        sys.stderr.flush()
    finally:
        for context in contexts:
            # PySpark's own stop() waits another second for a thread that ends with this process.
            context._jsc.stop()


def _open_context(name: str, contexts: list[SparkContext]) -> SparkContext:
    from py4j import protocol  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext

    # At the first call into the JVM these import all of pandas, 0.35 s. Only the function of a transform needs them.
    others = [each for each in protocol.INPUT_CONVERTER if not type(each).__name__.startswith("Numpy")]
    protocol.INPUT_CONVERTER[:] = others
    context = SparkContext.getOrCreate(SparkConf().setAppName(name))
    contexts.append(context)
    return context


@contextmanager
def keeping_error(error: PenstockError) -> Iterator[None]:
    """Add an error of the block to `error`, instead of raising it: the database may be out of reach by now."""
    try:
        yield
    except (PenstockError, psycopg.Error) as later:
        error.what = f"{error.what} Then: {describe_cause(later)}"
