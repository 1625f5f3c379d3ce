"""The stage job, for spark-submit: reads the planned ranges of a load and stages them.

The arguments are the load and the attempt, and nothing else; where the services are comes from the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from penstock.declaration.own_expectations import READ_AGAIN
from penstock.ledger.work_lock import working_on
from penstock.load.stage import run_stage
from penstock.settings import read_settings
from penstock.spark.driver import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

    from penstock.model.load import Load
    from penstock.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Stage a load; the exit code and the last lines report an error."""
    parser = argparse.ArgumentParser(prog="stage.py", description=__doc__)
    parser.add_argument("load", type=int, help="the load's number")
    parser.add_argument("attempt", type=int, help="the attempt that was begun for it")
    given = parser.parse_args(arguments)
    return drive(
        f"penstock load {given.load}",
        lambda open_context: _stage(read_settings(os.environ), given.load, given.attempt, open_context),
        load=given.load,
    )


def _stage(settings: Settings, load_id: int, attempt: int, open_context: Callable[[], SparkContext]) -> None:
    with working_on(settings.db, load_id, attempt):
        run_stage(settings, load_id, attempt, open_context, read_again)


def read_again(settings: Settings, load: Load, attempt: int, spark: SparkContext) -> None:
    """Read chunks a second time where a check compares both readings."""
    if any(check.expect == READ_AGAIN for check in load.declaration.checks):
        from penstock.verify.second_reading import read_share_again  # needs pyarrow, which takes time to import

        read_share_again(settings, load, attempt, spark)


if __name__ == "__main__":
    sys.exit(main())
