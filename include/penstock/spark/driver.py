"""Inside the driver: its Spark context, the first failure of its tasks, and the error that it reports at its end."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from penstock.errors import PenstockError
from penstock.ledger.connection import concerning
from penstock.spark.error_transport import describe_cause, format_error, recover_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext

# PostgreSQL's class of insufficient resources: a full disk, no memory, too many connections.
_RESOURCES = "(SQLSTATE 53"
MOST_TASKS, SETTLE_MILLISECONDS = 100_000, 10_000


def drive(name: str, job: Callable[[Callable[[], SparkContext]], None], *, load: int | None = None) -> int:
    """Run a job, which opens its context when it needs one. The exit code and the last lines report its error."""
    try:
        with concerning(load=load):
            _run(name, job)
    except PenstockError as error:
        sys.stderr.write(f"{format_error(error)}\n")
        return error.exit_code
    return 0


def _run(name: str, job: Callable[[Callable[[], SparkContext]], None]) -> None:
    contexts: list[SparkContext] = []
    try:
        job(lambda: _open_context(name, contexts))
    finally:
        for context in contexts:
            # PySpark's own stop() waits another second for a thread that ends with this process.
            context._jsc.stop()


def _open_context(name: str, contexts: list[SparkContext]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    context = SparkContext.getOrCreate(SparkConf().setAppName(name))
    contexts.append(context)
    return context


def find_first_failure(spark: SparkContext, last: PenstockError) -> PenstockError:
    """Find the first error that a chunk failed with; the last one is added to it as a consequence.

    Spark reports only the error of a task's last try. A full disk, for example, ends a COPY and then the server; the
    later tries only find that no server listens. An error for lack of resources counts from any chunk. An error that no
    other try could have fixed is returned unchanged.
    """
    if not last.may_retry:
        return last
    failures = [error for error in _read_failures(spark) if error.load == last.load]
    of_server = [error for error in failures if _RESOURCES in error.what]
    first = next(iter(of_server + [error for error in failures if error.ranges == last.ranges]), last)
    if first.what != last.what:
        first.what = f"{first.what} Then: {last.what}"
    return first


@contextmanager
def keeping_error(error: PenstockError) -> Iterator[None]:
    """Add an error of the block to `error`, instead of raising it: the database may be out of reach by now."""
    try:
        yield
    except (PenstockError, psycopg.Error) as later:
        error.what = f"{error.what} Then: {describe_cause(later)}"


def _read_failures(spark: SparkContext) -> Iterator[PenstockError]:
    """The errors of all tries of the newest job's tasks, oldest first. Spark keeps them without its web page too."""
    scala = spark._jsc.sc()
    scala.listenerBus().waitUntilEmpty(SETTLE_MILLISECONDS)
    tracker, store = spark.statusTracker(), scala.statusStore()
    job = tracker.getJobInfo(max(tracker.getJobIdsForGroup(), default=-1))
    for stage in sorted(job.stageIds) if job else ():
        tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), MOST_TASKS)
        tries = [tasks.apply(place) for place in range(tasks.size())]
        failed = [each for each in tries if each.errorMessage().isDefined()]
        for each in sorted(failed, key=lambda each: (each.launchTime().getTime(), each.taskId())):
            error = recover_error(each.errorMessage().get())
            if error is not None:
                yield error
