"""A driver that runs for its submitter: started in a process group of its own, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from penstock.spark.error_transport import DriverOutput

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from penstock.spark.submit import Submission


def run_submission(
    submission: Submission, log: TextIO, resources: ExitStack, begun: Callable[[], object] | None = None
) -> None:
    """Run spark-submit until its job is done, and raise the error of the driver.

    Spark takes another 0.4 s to end, which nobody has to wait for. The process group is killed when the driver has
    ended, or when this call ends by an error; then `resources` are closed. `begun` is called after the start.
    """
    with ExitStack() as stack:
        stack.enter_context(resources)
        process = stack.enter_context(
            subprocess.Popen(
                submission.argv(),
                env={**os.environ, **submission.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        )
        stack.callback(_kill_group, process)
        if begun is not None:
            begun()
        output = DriverOutput()
        log.writelines(output.read_lines(process.stdout or (), until_done=True))
        if output.is_done:
            threading.Thread(target=_await_end, args=(process, stack.pop_all())).start()
        elif exit_code := process.wait():
            raise output.find_error(exit_code)


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _await_end(process: subprocess.Popen[str], stack: ExitStack) -> None:
    with stack:
        for _ in process.stdout or ():  # a full pipe would stop the driver
            pass
        process.wait()
