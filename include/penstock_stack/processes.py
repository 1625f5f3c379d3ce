"""Processes that outlive the one that started them, and are stopped without ever touching a foreign one.

A process id alone names nothing for long, because the system reuses ids. So a process is known by its id and its start
time, and every process of the stack carries its folder's mark in the environment, which its children inherit.
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
# What programs need to run at all; anything else of our environment, secrets above all, is none of theirs.
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME", "TZ")

# Children of this very process stay zombies until they are waited for, and a dropped Popen warns.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its id, which is its group's id too, and when it started."""

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
    """Start a program in a session of its own, its output appended to `log`; it works in `directory`, or in ours."""
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
    # Until it is waited for, the child keeps its id even when it has ended already.
    started = _start_time(child.pid)
    _children[child.pid] = child
    return Process(child.pid, started)


def is_alive(process: Process) -> bool:
    """Whether this very process runs, and not another that got its id."""
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
    """End the process and its group: SIGTERM, wait, SIGKILL for what is left of the group."""
    if is_alive(process):
        signal_group(process, signal.SIGTERM)
        with suppress(PenstockError):
            await_condition(lambda: not is_alive(process), grace, "the process ends")
    kill(process)


def kill(process: Process) -> None:
    """SIGKILL the process and its group, and wait until they are gone."""
    kill_all(_group(process))


def signal_group(process: Process, number: signal.Signals) -> None:
    """Send a signal to every process of the group that is ours."""
    for member in _group(process):
        with suppress(psutil.NoSuchProcess):
            member.send_signal(number)


def kill_all(members: Iterable[psutil.Process]) -> None:
    """SIGKILL these processes and wait until they are gone."""
    left = []
    for member in members:
        # psutil compares the start time before it sends: an id used again is left alone.
        with suppress(psutil.NoSuchProcess):
            left.append(Process(member.pid, _start_time(member.pid)))
            member.kill()
    await_condition(lambda: not any(is_alive(process) for process in left), 30, "the processes end")
    _wait_for_ended()


def find_marked(folder: Path) -> list[psutil.Process]:
    """All processes that carry this folder's mark, whatever session they moved to.

    Those that overwrite their environment by a title of their own (PostgreSQL's, some of Airflow's) are not among them.
    """
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if candidate.environ().get(MARK) == str(folder) and candidate.pid != os.getpid():
                found.append(candidate)
    return found


def find_working_in(folder: Path, name: str) -> list[psutil.Process]:
    """All processes of this name whose working directory is `folder`."""
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if candidate.name() == name and candidate.cwd() == str(folder):
                found.append(candidate)
    return found


def write_record(path: Path, process: Process) -> None:
    """Write down which process it is, so that a later command finds it; whole or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(process)), encoding="utf-8")
    draft.replace(path)


def read_record(path: Path) -> Process | None:
    """Read what `write_record` wrote; None when there is nothing."""
    try:
        return Process(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def await_condition(condition: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait until the condition holds; say what was waited for when it does not in time."""
    if not wait_until(condition, seconds=timeout, every=0.02):
        raise PenstockError(f"waited {timeout:g} s in vain until {what}.", next_step="look into the logs.")


def await_start(process: Process, ready: Callable[[], bool], timeout: float, what: str, log: Path) -> None:
    """Wait until a service is ready; when its process ends or time runs out, say so with the log's last words."""

    def settled() -> bool:
        return ready() or not is_alive(process)

    try:
        await_condition(settled, timeout, f"{what} is ready")
    except PenstockError as error:
        kill(process)
        raise PenstockError(f"{what} was not ready in {timeout:g} s.", next_step=f"look into {log}.") from error
    if not is_alive(process):
        raise PenstockError(f"{what} did not start: {last_words(log)}", next_step=f"look into {log}.")


def last_words(log: Path) -> str:
    """The last line of a log that says something."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if any(word in line for word in ("FATAL", "ERROR", "Exception"))]
    return (told or lines or ["it said nothing."])[-1]


def _start_time(pid: int) -> float:
    """When a process started: in ticks since boot where the kernel tells, which no change of the clock moves."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.joinpath("self").exists():
        return float(psutil.Process(pid).create_time())
    try:
        # The second field is the program's name in brackets, which may hold blanks and brackets itself.
        return float(stat.read_bytes().rpartition(b")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(pid) from error


def _group(process: Process) -> list[psutil.Process]:
    if psutil.pid_exists(process.pid) and not is_alive(process) and not _is_zombie(process.pid):
        return []  # the id belongs to somebody else now, and so does the group of that id
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getpgid(candidate.pid) == process.pid and _start_time(candidate.pid) >= process.started:
                found.append(candidate)
    return found


def _is_zombie(pid: int) -> bool:
    try:
        found = psutil.Process(pid)
        # A program of many threads shows as a zombie when its first thread has ended; its ports are still held.
        return bool(found.status() == psutil.STATUS_ZOMBIE and found.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return False
