"""The reread job: reads the chunks of a verification again, by spark-submit or by a kept server.

The argument for spark-submit is the verification, and nothing else; where the services are comes from the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.settings import read_settings
from penstock.spark.driver import drive
from penstock.verify.reread import run_reread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the chunks again; the exit code and the last lines report an error."""
    parser = argparse.ArgumentParser(prog="reread.py", description=__doc__)
    parser.add_argument("verification", type=int, help="the verification's number")
    given = parser.parse_args(arguments)
    return drive(
        f"penstock verification {given.verification}",
        lambda open_executors: run_reread(read_settings(os.environ), given.verification, open_executors),
    )


def reread_by_server(settings: Settings, verification_id: int) -> None:
    """Read the chunks again by the executors of a kept server, from this process."""
    from penstock.spark.kept import open_server  # imports the client of Spark Connect

    with ExitStack() as stack:
        run_reread(settings, verification_id, lambda: stack.enter_context(open_server(settings)))


if __name__ == "__main__":
    sys.exit(main())
