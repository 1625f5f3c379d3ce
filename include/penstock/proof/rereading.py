"""Reading chunks again by the reader that did not load them: what it finds must have the fingerprint taken then."""

from __future__ import annotations

from contextlib import closing
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.carrying import first_words
from penstock.errors import ReadError
from penstock.ledger import open_ledger
from penstock.proof.adding_up import run
from penstock.proof.chunks import group_passes, make_staged, span_of
from penstock.proof.records import LogFingerprint, hash_records, sum_hashes
from penstock.ranges import Chunk
from penstock.reading import native
from penstock.reading.contract import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from penstock.proof.chunks import Staged
    from penstock.settings import Settings

    Starts = tuple[list[int], list[int]]

# One job of Spark is told so many pieces of the log at once: a plan of hundreds takes longer to make than to run.
PASSES_PER_JOB = 16
FOUND = "place int, records bigint, hash bigint"
FOUND_ARROW = pa.schema([("place", pa.int32()), ("records", pa.int64()), ("hash", pa.int64())])


def run_reread(settings: Settings, verification_id: int, open_context: Callable[[], SparkContext]) -> None:
    """Read the chunks that a verification asks for, as a Spark driver, and put down what was found."""
    from pyspark.sql import SparkSession

    with open_ledger(settings.db) as connection:
        rows = run(connection, "find_asked", verification_id=verification_id).fetchall()
    chunks = [make_staged(row) for row in rows]
    spark = SparkSession(open_context())
    for isolation in sorted({chunk.isolation for chunk in chunks}):
        source = Source(settings.kafka, rows[0]["topic"], isolation)
        asked = [chunk for chunk in chunks if chunk.isolation == isolation]
        keep_reread(settings.db, verification_id, asked, _try_reading(spark, source, asked))


def _try_reading(spark: SparkSession, source: Source, chunks: Sequence[Staged]) -> list[LogFingerprint]:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return read_with_spark(spark, source, chunks)
    except (PySparkException, Py4JError) as failure:
        raise ReadError(
            f"topic {source.topic}: Spark could not read the log again: {first_words(str(failure))}",
            ranges=[chunk.range for chunk in chunks[:3]],
            next_step="check that the brokers run, then verify again: retention may have passed what was to be read.",
        ) from None


def read_natively(source: Source, chunks: Sequence[Staged]) -> list[LogFingerprint]:
    """Read chunks with the native reader, in this process."""
    found = []
    for staged in chunks:
        chunk = Chunk(staged.task, staged.range)
        fingerprint = LogFingerprint()
        with closing(native.read_chunk(source, chunk)) as read:
            for _ in fingerprint.watch(native.open_chunk(source, chunk).check(read)):
                pass
        found.append(fingerprint)
    return found


def read_with_spark(spark: SparkSession, source: Source, chunks: Sequence[Staged]) -> list[LogFingerprint]:
    """Read chunks with Spark's own Kafka source; sums need no order, so Spark may cut the log as it likes."""
    found = [LogFingerprint() for _ in chunks]
    passes = group_passes(chunks)
    for first in range(0, len(passes), PASSES_PER_JOB):
        part = passes[first : first + PASSES_PER_JOB]
        frames = [_open_pass(spark, source, chunks, places, number) for number, places in enumerate(part)]
        union = reduce(lambda left, right: left.unionAll(right), frames)
        starts = [_list_starts(chunks, places) for places in part]
        for row in union.mapInArrow(make_counter(starts), FOUND).collect():
            found[row["place"]].add(row["records"], row["hash"])
    return found


def _open_pass(
    spark: SparkSession, source: Source, chunks: Sequence[Staged], places: Sequence[int], number: int
) -> DataFrame:
    from penstock.reading.spark import open_frame

    frame = open_frame(spark, source, span_of([chunks[place].range for place in places]))
    return frame.selectExpr(f"{number} as pass", "partition", "offset", "key", "value")


def _list_starts(chunks: Sequence[Staged], places: Sequence[int]) -> dict[int, Starts]:
    """Where the chunks of a pass start, by partition, and their places."""
    starts: dict[int, Starts] = {}
    for place in places:
        range_ = chunks[place].range
        offsets, numbers = starts.setdefault(range_.partition, ([], []))
        offsets.append(range_.from_offset)
        numbers.append(place)
    return starts


def make_counter(
    passes: Sequence[Mapping[int, Starts]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that runs on the executors: records come in, counts and sums of chunks go out."""

    def count(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            if len(part):
                yield _count(passes[part["pass"][0].as_py()][part["partition"][0].as_py()], part)

    return count


def _count(starts: Starts, part: pa.RecordBatch) -> pa.RecordBatch:
    """A batch is of one pass and one partition: Spark makes no batch of two pieces of the log."""
    first_offsets, places = starts
    offsets = part["offset"].to_numpy()
    hashes = hash_records(offsets, part["key"].to_pylist(), part["value"].to_pylist())
    chunk_of_each = np.searchsorted(np.asarray(first_offsets), offsets, side="right") - 1
    within = {number: hashes[chunk_of_each == number] for number in np.unique(chunk_of_each)}
    return pa.RecordBatch.from_pydict(
        {
            "place": [places[number] for number in within],
            "records": [len(found) for found in within.values()],
            "hash": [sum_hashes(found) for found in within.values()],
        },
        schema=FOUND_ARROW,
    )


def keep_reread(db: str, verification_id: int, chunks: Sequence[Staged], found: Sequence[LogFingerprint]) -> None:
    """Put down what was found in chunks."""
    with open_ledger(db) as connection:
        for chunk, fingerprint in zip(chunks, found, strict=True):
            run(
                connection,
                "keep_reread",
                verification_id=verification_id,
                load_id=chunk.load,
                task=chunk.task,
                records=fingerprint.records,
                log_hash=fingerprint.hash,
            )
