"""A command reports a broker that is down in one sentence, without the logs of its Kafka clients."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from declaring import write_declaration
from penstock_stack import ports

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary4711"


@pytest.mark.parametrize("command", ["plan", "status", "doctor"])
def test_a_broker_that_is_down_is_reported_without_the_client_s_log(db: str, tmp_path: Path, command: str) -> None:
    [port] = ports.choose(1)
    kafka = tmp_path / "kafka.properties"
    kafka.write_text(f"bootstrap.servers=127.0.0.1:{port}\nsasl.password={CANARY}\n")
    write_declaration(tmp_path, "orders")
    given = {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": str(kafka), "PENSTOCK_PIPELINES": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", command, "orders"],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )

    told = done.stdout + done.stderr
    assert f"127.0.0.1:{port}" in told
    assert [line for line in done.stderr.splitlines() if "rdkafka" in line or line.startswith("%")] == []
    assert len(done.stderr.splitlines()) <= 3
    assert CANARY not in told
    assert db.partition(":")[2] not in told


@pytest.mark.services
@pytest.mark.parametrize(
    "asking",
    [
        "from penstock.kafka.batches.reader import SecondReader; SecondReader(settings)",
        "from penstock.kafka.leader_epochs import find_truncations; find_truncations(settings, 'orders', {0: (1, 1)})",
        (
            "from penstock.kafka.first_records import read_first_records;"
            " read_first_records(settings, 'orders', {0: 1}, 'read_committed')"
        ),
    ],
)
def test_a_kafka_client_writes_nothing_itself(asking: str) -> None:
    [port] = ports.choose(1)
    # In use the clients wait for an answer for 120 s: they say in the first second what they have to say.
    program = f"""
import penstock.kafka.admin
penstock.kafka.admin.ANSWER_SECONDS = 10
from penstock.errors import KafkaError
settings = {{"bootstrap.servers": "127.0.0.1:{port}", "socket.timeout.ms": "10000"}}
try:
    {asking}
except KafkaError:
    pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
