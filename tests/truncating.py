"""Truncate the log of a broker, as an unclean leader election does: the broker starts without its last records."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock_stack.broker import Broker

BATCH_HEADER = 61


def truncate_log(broker: Broker, topic: str, partition: int, offset: int) -> None:
    """Kill a broker, truncate one partition at the batch of an offset, and start it: it recovers the rest."""
    broker.kill()
    folder = broker.folder / "data" / f"{topic}-{partition}"
    (segment,) = folder.glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(find_batch(segment.read_bytes(), offset))
    for made in (path for kind in ("*.index", "*.timeindex", "*.snapshot") for path in folder.glob(kind)):
        made.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        forget_checkpoint(broker.folder / "data" / name, topic, partition)
    broker.start()


def find_batch(data: bytes, offset: int) -> int:
    """Find the byte of a segment at which the batch of an offset begins."""
    at = 0
    while at + BATCH_HEADER <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if base == offset:
            return at
        at += 12 + length
    raise AssertionError(f"no batch begins at offset {offset}")


def forget_checkpoint(path: Path, topic: str, partition: int) -> None:
    """Remove a partition from a checkpoint file, which has a version, a count and a line a partition, or is empty."""
    version, _, *entries = path.read_text().splitlines() or ["0", "0"]
    kept = [entry for entry in entries if not entry.startswith(f"{topic} {partition} ")]
    path.write_text("\n".join([version, str(len(kept)), *kept, ""]))
