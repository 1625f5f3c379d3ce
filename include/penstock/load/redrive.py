"""Staging records of the quarantine as a load: the same step, with another source than the log."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from penstock.kafka.readers.contract import End, OpenGroup
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.redrive import read_records
from penstock.load.stage import begin_staging, finish_attempt
from penstock.load.task import stage_group
from penstock.model.ranges import Chunk
from penstock.model.records import Batch
from penstock.records.quarantine import read_headers
from penstock.target.assignment import make_assignment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.kafka.readers.contract import Part
    from penstock.ledger.redrive import StoredRecord
    from penstock.model.load import Load
    from penstock.settings import Settings

RECORDS_AT_ONCE = 500


def stage_records(settings: Settings, load_id: int) -> None:
    """Stage the records of a redrive from the quarantine. A record that is rejected again is quarantined again.

    The limits of the declaration on rejected records protect loads of the log, so they do not count here.
    """
    attempt = begin_staging(settings.db, load_id)
    if attempt is None:
        return
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    chunks = [Chunk(task, range_) for task, range_ in enumerate(load.ranges)]
    assignment = replace(make_assignment(settings, load, attempt), stop_at_rejection=False, max_quarantined=None)
    group = OpenGroup(
        open=lambda: nullcontext(_read_parts(settings.db, load, chunks)),
        find_log_starts=None,
        can_open_again=True,
        is_retry=False,
    )
    stage_group(assignment, chunks, group)
    finish_attempt(settings.db, load, attempt, chunks)


def _read_parts(db: str, load: Load, chunks: Sequence[Chunk]) -> Iterator[Part]:
    """Read the records of each chunk in batches. The checks of readers refuse a chunk with a missing record."""
    with closing(open_ledger(db)) as connection:
        waiting = iter(chunks)
        chunk = next(waiting)
        after = (-1, -1)
        while records := read_records(connection, load.load_id, after, RECORDS_AT_ONCE):
            connection.commit()
            after = (records[-1].partition, records[-1].offset)
            for _, run in groupby(records, key=lambda record: _find_chunk(chunks, record)):
                batch = list(run)
                while not _holds(chunk, batch[0]):
                    yield chunk.task, End(chunk.range.until_offset)
                    chunk = next(waiting)
                yield chunk.task, _make_batch(batch)
        yield chunk.task, End(chunk.range.until_offset)
        for chunk in waiting:
            yield chunk.task, End(chunk.range.until_offset)


def _find_chunk(chunks: Sequence[Chunk], record: StoredRecord) -> int:
    """Find the chunk of a record by halving: the chunks are in the order of partitions and offsets."""
    low, high = 0, len(chunks)
    while high - low > 1:
        middle = (low + high) // 2
        start = chunks[middle].range
        if (start.partition, start.from_offset) <= (record.partition, record.offset):
            low = middle
        else:
            high = middle
    return low


def _holds(chunk: Chunk, record: StoredRecord) -> bool:
    range_ = chunk.range
    return range_.partition == record.partition and range_.from_offset <= record.offset < range_.until_offset


def _make_batch(records: Sequence[StoredRecord]) -> Batch:
    return Batch(
        partition=records[0].partition,
        offsets=np.array([record.offset for record in records], np.int64),
        timestamps=np.array([record.millis for record in records], np.int64),
        values=[record.value for record in records],
        keys=[record.key for record in records],
        headers=lambda index: read_headers(records[index].headers),
    )
