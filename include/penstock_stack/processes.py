"""Processes that outlive the command that started them, and that a later command stops without stopping any other.

The system reuses process ids, so a process is identified by its id and its start time. The environment of every process
of the stack holds the stack's folder as a mark, which its children inherit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from penstock.errors import PenstockError
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MARK = "PENSTOCK_STACK_FOLDER"
# Programs need these variables to run. Other variables of this process, such as secrets, are not passed on.
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME", "TZ")

# Children of this process stay zombies until they are waited for, and a Popen that is dropped before warns.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its id, which is also its group's id, and its start time."""

    pid: int
    started: float


def start(
    argv: Sequence[str],
    *,
    log: Path,
    folder: Path,
    extra: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Process:
    """Start a program in a session of its own; `log` gets its output, `directory` is its working directory."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {MARK: str(folder), **(extra or {})}
    with log.open("ab") as output:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            cwd=directory,
        )
    # The child keeps its id until it is waited for, also if it has already ended.
    started = _start_time(child.pid)
    _children[child.pid] = child
    return Process(child.pid, started)


def is_alive(process: Process) -> bool:
    """Whether this process runs; another process with the same id does not count."""
    try:
        alive = _start_time(process.pid) == process.started and not _is_zombie(process.pid)
    except psutil.NoSuchProcess:
        alive = False
    if not alive:
        _wait_for_ended()
    return alive


def _wait_for_ended() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]


def stop(process: Process, grace: float = 20.0) -> None:
    """End the process and its group: SIGTERM, wait, SIGKILL for the remaining processes of the group."""
    if is_alive(process):
        signal_group(process, signal.SIGTERM)
        with suppress(PenstockError):
            await_condition(lambda: not is_alive(process), grace, "the process ends")
    kill(process)


def kill(process: Process) -> None:
    """SIGKILL the process and its group, and wait until they have ended."""
    kill_all(_group(process))


def signal_group(process: Process, number: signal.Signals) -> None:
    """Send a signal to every process of the group of this process."""
    for member in _group(process):
        with suppress(psutil.NoSuchProcess):
            member.send_signal(number)


def kill_all(members: Iterable[psutil.Process]) -> None:
    """SIGKILL these processes, and wait until they have ended."""
    left = []
    for member in members:
        # psutil compares the start time before it sends the signal, so a process that reuses the id gets none.
        with suppress(psutil.NoSuchProcess):
            left.append(Process(member.pid, _start_time(member.pid)))
            member.kill()
    await_condition(lambda: not any(is_alive(process) for process in left), 30, "the processes end")
    _wait_for_ended()


def find_marked(folder: Path) -> list[psutil.Process]:
    """Find the processes with this folder's mark in their environment, in any session.

    It does not find processes whose title overwrites their environment (those of PostgreSQL, some of Airflow).
    """
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if candidate.environ().get(MARK) == str(folder) and candidate.pid != os.getpid():
                found.append(candidate)
    return found


def find_working_in(folder: Path, name: str) -> list[psutil.Process]:
    """Find the processes of this name whose working directory is `folder`."""
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if candidate.name() == name and candidate.cwd() == str(folder):
                found.append(candidate)
    return found


def write_record(path: Path, process: Process) -> None:
    """Write the record of a process, so that a later command finds it; the file is whole or missing."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(process)), encoding="utf-8")
    draft.replace(path)


def read_record(path: Path) -> Process | None:
    """Read the record of a process; None if there is no valid record."""
    try:
        return Process(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


class RecordedProcess:
    """A service of one process. Its record is in its folder, so that a later command finds it."""

    folder: Path

    def stop(self, grace: float = 20.0) -> None:
        """Stop it by SIGTERM; kill it after the grace period."""
        process = read_record(self._record)
        if process is not None:
            stop(process, grace)
            self._record.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL it, as a crash does, and wait until it has ended."""
        process = read_record(self._record)
        if process is not None:
            kill(process)

    def pids(self) -> list[int]:
        """The ids of its processes."""
        process = read_record(self._record)
        return [process.pid] if process is not None and is_alive(process) else []

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"


def await_condition(condition: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait until the condition is true; after the timeout raise an error that names the condition."""
    if not wait_until(condition, seconds=timeout, every=0.02):
        raise PenstockError(f"after {timeout:g} s this is still not true: {what}.", next_step="look into the logs.")


def await_start(process: Process, ready: Callable[[], bool], timeout: float, what: str, log: Path) -> None:
    """Wait until a service is ready; if its process ends or time runs out, raise an error that quotes the log."""

    def ready_or_ended() -> bool:
        return ready() or not is_alive(process)

    try:
        await_condition(ready_or_ended, timeout, f"{what} is ready")
    except PenstockError as error:
        kill(process)
        raise PenstockError(f"{what} was not ready in {timeout:g} s.", next_step=f"look into {log}.") from error
    if not is_alive(process):
        raise PenstockError(f"{what} did not start: {last_words(log)}", next_step=f"look into {log}.")


def last_words(log: Path) -> str:
    """The last error in a log, or else its last line."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in ("FATAL", "ERROR", "Exception"))]
    return (errors or lines or ["the log is empty."])[-1]


def _start_time(pid: int) -> float:
    """The start of a process: if /proc exists, in ticks since boot, which do not depend on the clock."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.joinpath("self").exists():
        return float(psutil.Process(pid).create_time())
    try:
        # The second field is the program's name in brackets; the name may hold blanks and brackets.
        return float(stat.read_bytes().rpartition(b")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(pid) from error


def _group(process: Process) -> list[psutil.Process]:
    if psutil.pid_exists(process.pid) and not is_alive(process) and not _is_zombie(process.pid):
        return []  # another process has the id now, so the group of that id is another one
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getpgid(candidate.pid) == process.pid and _start_time(candidate.pid) >= process.started:
                found.append(candidate)
    return found


def _is_zombie(pid: int) -> bool:
    try:
        found = psutil.Process(pid)
        # A program with several threads is shown as a zombie when its first thread has ended; it still holds its ports.
        return bool(found.status() == psutil.STATUS_ZOMBIE and found.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return False
