"""The error of a task that failed first: Spark itself tells the last of its tries, which may be a mere consequence.

A disk that is full, say, ends a COPY, then the server; the tries that follow only find that nothing listens.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from penstock.errors import PenstockError
from penstock.spark.error_transport import describe_cause, recover_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

# Insufficient resources: a full disk, no memory, too many connections.
_RESOURCES = "(SQLSTATE 53"
MOST_TASKS, SETTLE_MILLISECONDS = 100_000, 10_000


def tell_first(spark: SparkContext, last: PenstockError) -> PenstockError:
    """The first error that a chunk failed with, and the last one as its consequence.

    The server's want of disk or memory counts wherever it struck. An error that no other try could have mended is told
    as it is.
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
def keeping(error: PenstockError) -> Iterator[None]:
    """Let no error inside, such as a database that is out of reach by now, take the place of the one that is told."""
    try:
        yield
    except (PenstockError, psycopg.Error) as later:
        error.what = f"{error.what} Then: {describe_cause(later)}"


def _read_failures(spark: SparkContext) -> Iterator[PenstockError]:
    """The errors of all tries of the newest job's tasks, the first one first. Spark keeps them without its web page."""
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
