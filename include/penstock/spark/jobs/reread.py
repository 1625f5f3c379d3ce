"""The reread job, for spark-submit: reads the chunks of a verification again.

The argument is the verification, and nothing else; where the services are comes from the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from penstock.settings import read_settings
from penstock.spark.driver import drive
from penstock.verify.reread import run_reread

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the chunks again; the exit code and the last lines report an error."""
    parser = argparse.ArgumentParser(prog="reread.py", description=__doc__)
    parser.add_argument("verification", type=int, help="the verification's number")
    given = parser.parse_args(arguments)
    return drive(
        f"penstock verification {given.verification}",
        lambda open_context: run_reread(read_settings(os.environ), given.verification, open_context),
    )


if __name__ == "__main__":
    sys.exit(main())
