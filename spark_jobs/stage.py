"""The stage job, for spark-submit: reads the planned ranges of a load and stages them.

The arguments are the load and the attempt, and nothing else; where the services are comes from the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

import psycopg

from penstock.carrying import first_words, tell_error
from penstock.errors import PenstockError, StageError
from penstock.settings import read_settings
from penstock.staging import run_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext


def main(arguments: Sequence[str] | None = None) -> int:
    """Stage a load; the exit code and the last line say how it ended."""
    parser = argparse.ArgumentParser(prog="stage.py", description=__doc__)
    parser.add_argument("load", type=int, help="the load's number")
    parser.add_argument("attempt", type=int, help="the attempt that was begun for it")
    given = parser.parse_args(arguments)
    try:
        stage(given.load, given.attempt)
    except PenstockError as error:
        return tell(error)
    except psycopg.Error as error:
        words = f"the database broke off: {first_words(str(error))}"
        return tell(StageError(words, load=given.load, next_step="check PostgreSQL, then try the stage step again."))
    return 0


def tell(error: PenstockError) -> int:
    """Say what went wrong in one line, the last one."""
    sys.stderr.write(f"{tell_error(error)}\n")
    return error.exit_code


def stage(load: int, attempt: int) -> None:
    """Stage with a Spark context of its own; it is opened when the attempt has been found to count."""
    contexts: list[SparkContext] = []
    try:
        run_stage(read_settings(os.environ), load, attempt, lambda: open_context(load, contexts))
    finally:
        for context in contexts:
            # PySpark's own stop() waits another second for a thread that ends with this process.
            context._jsc.stop()


def open_context(load: int, contexts: list[SparkContext]) -> SparkContext:
    """Open the context, and note it down so that it is stopped."""
    from pyspark import SparkConf, SparkContext

    context = SparkContext.getOrCreate(SparkConf().setAppName(f"penstock load {load}"))
    contexts.append(context)
    return context


if __name__ == "__main__":
    sys.exit(main())
