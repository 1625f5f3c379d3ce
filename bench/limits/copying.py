"""The limit of writing: two plain processes that COPY Arrow batches made before the clock starts.

The batches are used again and again, so that memory does not limit the number of rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from bench.limits.workers import WORKERS, run_workers
from bench.records import describe_pipeline, make_value
from penstock.declaration.pipeline import Pipeline
from penstock.model.records import Batch
from penstock.records.decoder import Decoder, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH, BATCHES = 10_000, 20


def make_batches(decoder: Decoder) -> list[pa.RecordBatch]:
    """Make batches like a task of Penstock."""
    return [decoder.decode(_make_batch(first)).rows for first in range(0, BATCH * BATCHES, BATCH)]


def _make_batch(first: int) -> Batch:
    values = [make_value(number) for number in range(first, first + BATCH)]
    offsets = np.arange(first, first + BATCH)
    return Batch(0, offsets, np.full(BATCH, 1_700_000_000_000), values, [None] * BATCH, lambda _: [])


def repeat_rows(batches: list[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Repeat these batches up to a number of rows."""
    left = rows
    while left:
        for batch in islice(batches, -(-left // BATCH)):
            yield batch.slice(0, min(left, BATCH))
            left -= min(left, BATCH)


def copy_share(_worker: int) -> tuple[int, float, float]:
    """COPY half of the rows in one transaction."""
    rows = int(os.environ["BENCH_RECORDS"])
    decoder = Decoder(layout_of(Pipeline.model_validate(describe_pipeline("bench", rows))), 1)
    batches = make_batches(decoder)
    began = time.time()
    with closing(dbapi.connect(os.environ["BENCH_DB"])) as connection, closing(connection.cursor()) as cursor:
        reader = pa.RecordBatchReader.from_batches(decoder.schema, repeat_rows(batches, rows // WORKERS))
        cursor.adbc_ingest("copied", reader, mode="append", db_schema_name="peer")
        connection.commit()
    return rows // WORKERS, began, time.time()


if __name__ == "__main__":
    json.dump(run_workers(copy_share), sys.stdout)
