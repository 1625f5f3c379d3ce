"""The stage job: reads the planned ranges of a load and stages them, by spark-submit or by a kept server.

The arguments for spark-submit are the load and the attempt, and nothing else; where the services are comes from the
environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.declaration.own_expectations import READ_AGAIN
from penstock.ledger.work_lock import working_on
from penstock.load.stage import run_stage
from penstock.settings import read_settings
from penstock.spark.driver import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.model.load import Load
    from penstock.settings import Settings
    from penstock.spark.executors import Executors


def main(arguments: Sequence[str] | None = None) -> int:
    """Stage a load; the exit code and the last lines report an error."""
    parser = argparse.ArgumentParser(prog="stage.py", description=__doc__)
    parser.add_argument("load", type=int, help="the load's number")
    parser.add_argument("attempt", type=int, help="the attempt that was begun for it")
    given = parser.parse_args(arguments)
    return drive(
        f"penstock load {given.load}",
        lambda open_executors: _stage(read_settings(os.environ), given.load, given.attempt, open_executors),
        load=given.load,
    )


def _stage(settings: Settings, load_id: int, attempt: int, open_executors: Callable[[], Executors]) -> None:
    with working_on(settings.db, load_id, attempt):
        run_stage(settings, load_id, attempt, open_executors, read_again)


def stage_by_server(settings: Settings, load_id: int, attempt: int) -> None:
    """Stage a load in this process, by the executors of a kept server."""
    from penstock.spark.kept import open_server  # imports the client of Spark Connect

    with ExitStack() as stack:
        _stage(settings, load_id, attempt, lambda: stack.enter_context(open_server(settings)))


def read_again(settings: Settings, load: Load, attempt: int, spark: Executors) -> None:
    """Read chunks a second time where a check compares both readings."""
    if any(check.expect == READ_AGAIN for check in load.declaration.checks):
        from penstock.verify.second_reading import read_share_again  # needs pyarrow, which takes time to import

        read_share_again(settings, load, attempt, spark)


if __name__ == "__main__":
    sys.exit(main())
