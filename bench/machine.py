"""The machine and the versions of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from bench.contestants import PEER_PYTHON, PROJECT


def describe_machine() -> dict[str, str]:
    """The machine, the day, and the versions of the measured tools."""
    return {
        "day": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _ask("git", "-C", str(PROJECT), "describe", "--always", "--dirty"),
        "machine": f"{os.cpu_count()} cores ({_read_processor()}), {psutil.virtual_memory().total / 2**30:.0f} GB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "spark": version("pyspark"),
        "dlt": _ask(str(PEER_PYTHON), "-c", "from importlib.metadata import version; print(version('dlt'))"),
    }


def _read_processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
