"""The unsafe part of the record path in Rust under valgrind: `make memory` runs this file.

A reader in a process of its own reads a real broker: values, tombstones, broken records, headers, an aborted
transaction, a reading that stops in the middle, batches that outlive their consumer, and a partition that does not
exist. An error of valgrind counts if the crate or librdkafka is in its trace: the others are
of CPython and the loader.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fix_kafka import create_topic
from penstock.declaration.columns import parse_type
from penstock.errors import ReadError
from penstock.kafka.readers.contract import End, Source
from penstock.kafka.readers.native import read_chunks
from penstock.model.ranges import Chunk, Range
from penstock.records.decoder import Layout
from penstock.records.formats.base import Field
from penstock.records.rust import make_encoder
from penstock_stack import ports
from penstock_stack.broker import Broker
from producing import Account

TOPIC, RECORDS = "records", 2_000
TYPES = {"id": "bigint", "note": "text", "amount": "numeric(12,2)", "doc": "jsonb", "at": "timestamptz"}
OWN = re.compile(r"penstock_native|librdkafka")


def main() -> int:
    """Check, and return 1 if valgrind found a fault of ours."""
    if len(sys.argv) > 1:
        read(sys.argv[1])
        return 0
    if shutil.which("valgrind") is None:
        sys.stderr.write("valgrind is missing. Next: install it; on Debian as root: apt-get install valgrind\n")
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Broker(folder / "kafka", *ports.choose(2))
        broker.start()
        try:
            produce(broker.bootstrap)
            log = folder / "valgrind.log"
            command = [
                "valgrind",
                "--error-limit=no",
                "--num-callers=40",
                f"--log-file={log}",
                sys.executable,
                __file__,
            ]
            # Python's own allocator would hide what is read after it was freed.
            subprocess.run([*command, broker.bootstrap], env={**os.environ, "PYTHONMALLOC": "malloc"}, check=True)
        finally:
            broker.kill()
        errors = find_errors(log.read_text(errors="replace"))
    sys.stdout.write(("\n\n".join(errors) or "no fault in penstock_native or librdkafka") + "\n")
    return 1 if errors else 0


def produce(bootstrap: str) -> None:
    """Fill both partitions, with a hole in each."""
    create_topic(bootstrap, TOPIC, 2)
    account = Account(bootstrap, TOPIC)
    for partition in range(2):
        account.send(map(make_value, range(RECORDS // 2)), partition=partition, key=b"k")
        account.transact(map(make_value, range(100)), commit=False, partition=partition)
        account.transact(map(make_value, range(RECORDS // 2)), commit=True, partition=partition)


def make_value(number: int) -> bytes | None:
    """A record that Rust takes, or one that it leaves to the reference."""
    if number % 97 == 5:
        return None
    if number % 50 == 7:
        return b"no json"
    note = "\\ud800" if number % 61 == 3 else "x" * (number % 300) + "ä"
    return (
        f'{{"id": {number}, "note": "{note}", "amount": {number / 4}, "doc": {{"a": [{number}, null]}},'
        ' "at": "2024-01-01T00:00:00Z"}'
    ).encode()


def read(bootstrap: str) -> None:
    """Read by Rust in all the ways in which memory is handed over."""
    source = Source({"bootstrap.servers": bootstrap}, TOPIC, "read_committed", rust=True)
    layout = Layout(tuple(Field(name, parse_type(text), (name,)) for name, text in TYPES.items()))
    chunks = [Chunk(partition, Range(partition, 0, RECORDS)) for partition in range(2)]
    encoder = make_encoder(layout, 7)
    assert encoder is not None, "the record path in Rust is not installed"
    rows = rejected = 0
    for _, part in read_chunks(source, chunks):
        if not isinstance(part, End):
            assert part.run is not None, "another consumer has read"
            encoded = encoder.encode(part)
            rows, rejected = rows + encoded.count, rejected + len(encoded.rejected)
            assert len(list(part.values)) == len(list(part.keys)) == len(part.offsets)
            part.headers(0)
    assert rows > rejected > 0

    stopped = read_chunks(source, chunks)
    next(stopped)
    stopped.close()

    kept = [part for _, part in read_chunks(source, chunks) if not isinstance(part, End)]
    gc.collect()
    assert sum(len(list(part.values)) for part in kept) == rows + rejected
    try:
        list(read_chunks(source, [Chunk(0, Range(9, 0, 5))]))
    except ReadError:
        return
    raise AssertionError("a partition that does not exist was read")


def find_errors(text: str) -> list[str]:
    """Find the errors of valgrind with a frame of ours."""
    plain = re.sub(r"^==\d+== ?", "", text, flags=re.MULTILINE)
    return [
        each for each in re.split(r"\n\s*\n", plain) if OWN.search(each) and re.search(r"^\s+at 0x", each, re.MULTILINE)
    ]


if __name__ == "__main__":
    sys.exit(main())
