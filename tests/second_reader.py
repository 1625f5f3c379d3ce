"""A second reader of the log that shares no code with Penstock: Kafka's own Java console consumer."""

from __future__ import annotations

import re
import subprocess
import threading
from contextlib import suppress
from os import pathsep
from typing import IO, TYPE_CHECKING

from penstock_stack.jars import find_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = re.compile(r"^Partition:(\d+)\tOffset:(\d+)\t(.*)$")
# The seconds of silence after which the log counts as read. The first is long, because the group must form and the
# first fetch must be answered. The second begins at the expected number of records, and can be short.
SILENCE, SILENCE_AFTER_ALL = 6.0, 1.5


def read_visible(bootstrap: str, topic: str, expected: int | None = None) -> Iterator[tuple[int, int, str]]:
    """Read partition, offset and value of every committed record, until none arrives for a while.

    After the number of `expected` records the wait is shorter; later records are still read.
    """
    reading = subprocess.Popen(
        [
            "java", "-Dorg.apache.logging.log4j.level=OFF", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
            "--isolation-level", "read_committed", "--timeout-ms", str(int(SILENCE * 1000)),
            "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true",
        ],
        env={"CLASSPATH": pathsep.join(str(jar) for jar in find_jars("broker")), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with reading:
        assert reading.stdout
        assert reading.stderr
        errors: list[str] = []
        listener = threading.Thread(target=errors.extend, args=(reading.stderr,))
        listener.start()
        lines = _read_lines(reading, reading.stdout, expected)
        listener.join()
    said = "".join(errors)
    assert "Exception" not in said.replace("TimeoutException", ""), said
    for line in lines:
        found = RECORD.match(line)
        assert found, line
        yield int(found[1]), int(found[2]), found[3]


def _read_lines(reading: subprocess.Popen[str], stream: IO[str], expected: int | None) -> list[str]:
    """Read all lines, until the reader ends itself, or is ended because all expected lines have arrived."""
    lines: list[str] = []
    ending: threading.Timer | None = None
    for line in stream:
        lines.append(line.rstrip("\n"))
        if expected is not None and len(lines) >= expected:
            if ending is not None:
                ending.cancel()
            ending = threading.Timer(SILENCE_AFTER_ALL, _end, [reading])
            ending.start()
    return lines


def _end(reading: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        reading.kill()
