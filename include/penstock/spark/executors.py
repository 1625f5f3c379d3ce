"""The executors of Spark as the jobs of Penstock use them: through a driver of their own, or through a kept server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from penstock.errors import PenstockError

# The work of Spark tasks: from numbers of groups to the outcomes of their chunks (task, won).
Work: TypeAlias = "Callable[[Iterator[int]], Iterator[tuple[int, bool]]]"

# PostgreSQL's class of insufficient resources: a full disk, no memory, too many connections.
_RESOURCES = "(SQLSTATE 53"


class Executors(Protocol):
    """The executors of one Spark application."""

    @property
    def application(self) -> str:
        """The name of the application, for people who look for it in Spark."""

    @property
    def session(self) -> SparkSession:
        """A session to read by. Another load may use the same one, so its conf stays as it is."""

    def open_session(self, conf: Mapping[str, str]) -> SparkSession:
        """Open a session of its own, with a conf of its own. It ends with these executors."""

    def count_cores(self) -> int:
        """The number of tasks that run at the same time."""

    def run(self, count: int, work: Work) -> list[tuple[int, bool]]:
        """Run one task for each number below `count`, and collect the outcomes."""

    def find_failures(self) -> Iterator[PenstockError]:
        """The errors of all tries of the newest job's tasks, oldest first."""

    def find_failed_tasks(self, count: int) -> set[int]:
        """The tasks that failed in the newest job's stage of `count` tasks; empty if Spark does not tell."""


def find_first_failure(executors: Executors, last: PenstockError) -> PenstockError:
    """Find the first error that a chunk failed with; the last one is added to it as a consequence.

    Spark reports only the error of a task's last try. A full disk, for example, ends a COPY and then the server; the
    later tries only find that no server listens. An error for lack of resources counts from any chunk. An error that no
    other try could have fixed is returned unchanged.
    """
    if not last.may_retry:
        return last
    failures = [error for error in executors.find_failures() if error.load == last.load]
    of_server = [error for error in failures if _RESOURCES in error.what]
    first = next(iter(of_server + [error for error in failures if error.ranges == last.ranges]), last)
    if first.what != last.what:
        first.what = f"{first.what} Then: {last.what}"
    return first
