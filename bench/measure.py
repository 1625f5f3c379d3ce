"""Measures one command: time, CPU and memory of the command and all its descendants.

Run as a program of its own between the benchmark and the command: it adopts the orphans of the command (on Linux),
so that it misses no process's CPU. Its own time and memory are not in the figures.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.25
REAP_SECONDS = 20.0
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a command. `peak_bytes` is the largest sum seen of the resident memory of all its processes."""

    exit_code: int
    started_at: float
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def measure(command: list[str], output: Path, log: Path, environment: dict[str, str]) -> Usage:
    """Run a command to its end: its stdout goes to `output`, its stderr to `log`."""
    result = output.with_suffix(".usage")
    wrapped = [sys.executable, "-m", "bench.measure", str(result), "--", *command]
    with output.open("wb") as out, log.open("ab") as err:
        subprocess.run(wrapped, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, check=True)
    return Usage(**json.loads(result.read_text(encoding="utf-8")))


class Sampler(threading.Thread):
    """Samples the memory and the CPU of this process's descendants four times a second.

    PySpark's daemon ignores the end of its workers: what they used is in no parent's account, and only seen here.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.peak = 0
        self.used: dict[tuple[int, float], float] = {}

    def run(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, self.look())

    def look(self) -> int:
        """Note the CPU of each descendant, and sum their resident memory. Shared pages count for each of them."""
        total = 0
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                times = process.cpu_times()
                self.used[process.pid, process.create_time()] = times.user + times.system
                total += process.memory_info().rss
        return total


def run_measured(command: list[str]) -> Usage:
    """Run the command, wait for all its descendants, and add up."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sampler = Sampler()
    sampler.start()
    started_at, clock = time.time(), time.monotonic()
    process = subprocess.Popen(command)
    exit_code = process.wait()
    seconds = time.monotonic() - clock
    reap_descendants()
    sampler.ended.set()
    sampler.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Each source is incomplete: the first misses processes whose end was not reported, the second the last moments
    # of every process.
    cpu_seconds = max(used.ru_utime + used.ru_stime, sum(sampler.used.values()))
    return Usage(exit_code, started_at, seconds, cpu_seconds, sampler.peak)


def reap_descendants() -> None:
    """Wait for the orphans of the command, and kill those that do not end."""
    end = time.monotonic() + REAP_SECONDS
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    for child in psutil.Process().children(recursive=True):
                        with suppress(psutil.NoSuchProcess):
                            child.kill()
                time.sleep(0.02)


def main() -> int:
    """Measure the command behind `--`, and write its usage into the file before it."""
    result, _, *command = sys.argv[1:]
    usage = run_measured(command)
    Path(result).write_text(json.dumps(asdict(usage)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
