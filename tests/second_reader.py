"""A second reader of the log that shares no code with Penstock: Kafka's own Java console consumer."""

from __future__ import annotations

import re
import subprocess
from os import pathsep
from typing import TYPE_CHECKING

from penstock.stack.jars import find_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = re.compile(r"^Partition:(\d+)\tOffset:(\d+)\t(.*)$")


def read_visible(bootstrap: str, topic: str) -> Iterator[tuple[int, int, str]]:
    """Read partition, offset and value of every committed record, until none has come for a while."""
    done = subprocess.run(
        [
            "java", "-Dorg.apache.logging.log4j.level=OFF", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
            "--isolation-level", "read_committed", "--timeout-ms", "6000",
            "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true",
        ],
        env={"CLASSPATH": pathsep.join(str(jar) for jar in find_jars("broker")), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert "Exception" not in done.stderr.replace("TimeoutException", ""), done.stderr
    for line in done.stdout.splitlines():
        found = RECORD.match(line)
        assert found, line
        yield int(found[1]), int(found[2]), found[3]
