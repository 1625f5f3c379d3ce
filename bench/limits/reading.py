"""The limit of reading: two plain processes, each over half of the partitions, that discard every record."""

from __future__ import annotations

import json
import os
import sys
import time

from bench.limits.workers import WORKERS, run_workers
from bench.records import PARTITIONS
from penstock.kafka.readers.contract import End, Source
from penstock.kafka.readers.native import read_chunks
from penstock.model.ranges import Chunk, Range


def read_share(worker: int) -> tuple[int, float, float]:
    """Read every partition of this worker; return the number of records, the start and the end."""
    began = time.time()
    source = Source({"bootstrap.servers": os.environ["BENCH_KAFKA"]}, os.environ["BENCH_TOPIC"], "read_committed")
    until = int(os.environ["BENCH_RECORDS"]) // PARTITIONS
    count = 0
    for partition in range(worker, PARTITIONS, WORKERS):
        for _, part in read_chunks(source, [Chunk(partition, Range(partition, 0, until))]):
            count += 0 if isinstance(part, End) else len(part.offsets)
    return count, began, time.time()


if __name__ == "__main__":
    json.dump(run_workers(read_share), sys.stdout)
