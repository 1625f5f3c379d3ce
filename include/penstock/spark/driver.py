"""What the jobs for spark-submit have in common: the Spark context that ends with them, and their last words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.ledger.connection import concerning
from penstock.spark.error_transport import tell_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext


def drive(name: str, job: Callable[[Callable[[], SparkContext]], None], *, load: int | None = None) -> int:
    """Run a job, which opens its context when it needs one; the exit code and the last lines say how it ended."""
    try:
        with concerning(load=load):
            _run(name, job)
    except PenstockError as error:
        return _tell(error)
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


def _tell(error: PenstockError) -> int:
    sys.stderr.write(f"{tell_error(error)}\n")
    return error.exit_code
