"""Reading chunks again with the reader that did not load them.

The records must have the fingerprint that the load recorded, and must give, decoded again, the rows of the target.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from contextlib import ExitStack, closing
from dataclasses import astuple, dataclass, field
from functools import reduce
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock import advice
from penstock.errors import PenstockError, ReadError
from penstock.kafka.readers import native
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.spark import explain_missing_source, find_distant_record, make_batch, open_frame
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.verification import (
    RereadChunk,
    find_requested_chunks,
    find_requested_declarations,
    record_reread,
)
from penstock.model.ranges import Chunk, intersect_ranges
from penstock.records.fingerprint import LogFingerprint
from penstock.spark.error_transport import TaskError, first_words, recover_error
from penstock.target.base import RowSum
from penstock.verify.chunks import BRIDGED, find_spans, group_passes
from penstock.verify.rebuilt_rows import ComparedOffsets, RebuiltTable, make_recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession

    from penstock.ledger.verification import RequestedChunk, StagedChunk
    from penstock.model.ranges import Range
    from penstock.model.records import Batch
    from penstock.settings import Settings
    from penstock.spark.executors import Executors
    from penstock.verify.chunks import Span
    from penstock.verify.rebuilt_rows import Recipe

log = logging.getLogger(__name__)

# The pieces of the log that one Spark job reads: Spark needs longer to plan hundreds of pieces than to read them.
PASSES_PER_JOB = 16
# If so many chunks of a job have a record that Spark cannot hold, all others of the job are read natively too: each of
# them would cost another try of the job. For the same reason nothing between chunks is read after so many such records.
MOST_DISTANT = 3
RESULT_COLUMNS = "place int, records bigint, hash bigint, rows bigint, row_hash string"


@dataclass(frozen=True, slots=True)
class Request:
    """A chunk to read again, with the recipe of its rows and their offsets; None if its rows are not compared."""

    chunk: StagedChunk
    topic: str
    recipe: Recipe | None
    compared: ComparedOffsets | None


@dataclass(slots=True)
class ChunkSums:
    """The fingerprints of the records and rows of a chunk, or of a part of a chunk."""

    log: LogFingerprint = field(default_factory=LogFingerprint)
    rows: RowSum = field(default_factory=RowSum)

    def add(self, other: ChunkSums) -> None:
        """Add the sums of another part."""
        self.log.add(other.log.records, other.log.hash)
        self.rows += other.rows


class ChunkHasher:
    """Computes both fingerprints of chunks, with one session for each declaration."""

    def __init__(self) -> None:
        self._tables: dict[int, RebuiltTable] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def hash_records(self, batches: Iterator[Batch], request: Request) -> ChunkSums:
        """Compute the fingerprints of some records of a chunk."""
        sums = ChunkSums()
        watched = sums.log.watch(batches)
        if request.recipe is None or request.compared is None:
            for _ in watched:
                pass
        else:
            sums.rows = self._open_table(request.recipe).sum_rows(watched, request.compared)
        return sums

    def _open_table(self, recipe: Recipe) -> RebuiltTable:
        load_id = recipe.assignment.load_id
        if load_id not in self._tables:
            self._tables[load_id] = self._stack.enter_context(RebuiltTable(recipe))
        return self._tables[load_id]


def run_reread(settings: Settings, verification_id: int, open_executors: Callable[[], Executors]) -> None:
    """Read the requested chunks of a verification as a Spark driver, and record their sums."""
    requests = read_requests(settings, verification_id, "native")
    spark = open_executors().session
    for source, part in group_by_source(settings, requests):
        record_sums(settings.db, verification_id, part, try_reading(spark, source, part))


def reread_natively(settings: Settings, verification_id: int) -> None:
    """Read the requested chunks that Spark has loaded, in this process, and record their sums."""
    for source, part in group_by_source(settings, read_requests(settings, verification_id, "spark")):
        record_sums(settings.db, verification_id, part, read_natively(source, part))


def read_requests(settings: Settings, verification_id: int, loaded_by: str) -> list[Request]:
    """Read the requested chunks of a verification that one of the readers has loaded."""
    with open_ledger(settings.db) as connection:
        rows = find_requested_chunks(connection, verification_id)
        recipes: dict[int, Recipe] = {}
        for declared in find_requested_declarations(connection, verification_id):
            recipe = make_recipe(settings, read_load(connection, declared.loads[0]))
            recipes |= dict.fromkeys(declared.loads, recipe)
    return [_make_request(row, recipes) for row in rows if row.reader == loaded_by]


def _make_request(row: RequestedChunk, recipes: Mapping[int, Recipe]) -> Request:
    if row.covered is None:
        return Request(row, row.topic, None, None)
    compared = ComparedOffsets(tuple((start, until) for start, until in row.covered), tuple(row.refused or ()))
    return Request(row, row.topic, recipes[row.load_id], compared)


def group_by_source(settings: Settings, requests: Sequence[Request]) -> Iterator[tuple[Source, list[Request]]]:
    """Group the chunks by the source that they are read from."""
    for isolation in sorted({each.chunk.isolation for each in requests}):
        part = [each for each in requests if each.chunk.isolation == isolation]
        yield Source(settings.kafka, part[0].topic, isolation), part


def try_reading(spark: SparkSession, source: Source, requests: Sequence[Request]) -> list[ChunkSums]:
    """Read chunks with Spark; an error of Spark becomes one of Penstock."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return read_with_spark(spark, source, requests)
    except (PySparkException, Py4JError) as failure:
        raise (
            recover_error(str(failure))
            or explain_missing_source(str(failure))
            or ReadError(
                f"topic {source.topic}: Spark could not read the log again: {first_words(str(failure))}",
                ranges=[each.chunk.range for each in requests[:3]],
                next_step=advice.CHECK_BROKERS_THEN_VERIFY,
            )
        ) from failure


def read_natively(source: Source, requests: Sequence[Request]) -> list[ChunkSums]:
    """Read chunks with the native reader, in this process."""
    sums = []
    with ChunkHasher() as hasher:
        for each in requests:
            chunk = Chunk(each.chunk.task, each.chunk.range)
            with closing(native.read_whole(source, chunk)) as batches:
                sums.append(hasher.hash_records(batches, each))
    return sums


def read_with_spark(spark: SparkSession, source: Source, requests: Sequence[Request]) -> list[ChunkSums]:
    """Read chunks with Spark's own Kafka source, and those that it cannot read with the native reader."""
    chunks = [each.chunk for each in requests]
    passes = group_passes(find_spans(chunks, range(len(chunks))))
    sums: dict[int, ChunkSums] = {}
    for first in range(0, len(passes), PASSES_PER_JOB):
        sums |= _read_passes(spark, source, requests, passes[first : first + PASSES_PER_JOB])
    return [sums[place] for place in range(len(requests))]


def _read_passes(
    spark: SparkSession, source: Source, requests: Sequence[Request], passes: Sequence[Sequence[Span]]
) -> dict[int, ChunkSums]:
    """Read the chunks of some passes. A chunk with a record that Spark cannot hold is read by the native reader.

    Such a record between chunks is avoided.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    chunks = [each.chunk for each in requests]
    natively: dict[int, ChunkSums] = {}
    avoided: list[Range] = []
    bridged = BRIDGED
    while passes:
        try:
            return natively | _run_job(spark, source, requests, passes)
        except (PySparkException, Py4JError) as failure:
            distant = find_distant_record(str(failure))
            left = [place for spans in passes for span in spans for place in span.places]
            held = [place for place in left if distant and intersect_ranges([chunks[place].range], [distant])]
            if distant is None or not (held or bridged):
                raise
        if not held:
            avoided.append(distant)
            bridged = BRIDGED if len(avoided) < MOST_DISTANT else 0
        elif len(natively) >= MOST_DISTANT:
            held = left
        if held:
            log.warning("topic %s: %d chunks are read natively, for timestamps of records.", source.topic, len(held))
            natively |= zip(held, read_natively(source, [requests[place] for place in held]), strict=True)
        left = [place for place in left if place not in natively]
        passes = group_passes(find_spans(chunks, left, avoided, bridged))
    return natively


def _run_job(
    spark: SparkSession, source: Source, requests: Sequence[Request], passes: Sequence[Sequence[Span]]
) -> dict[int, ChunkSums]:
    """Read the chunks of some passes in one job. Spark may split the log anywhere, because sums need no order."""
    chunks = [each.chunk for each in requests]
    sums = {place: ChunkSums() for spans in passes for span in spans for place in span.places}
    frames = [_open_pass(spark, source, spans, number) for number, spans in enumerate(passes)]
    union = reduce(lambda left, right: left.unionAll(right), frames)
    bounds = [{span.range.partition: list_bounds(chunks, span) for span in spans} for spans in passes]
    for row in union.mapInArrow(make_hasher(requests, bounds), RESULT_COLUMNS).collect():
        found = LogFingerprint(row["records"], row["hash"])
        sums[row["place"]].add(ChunkSums(found, RowSum(row["rows"], int(row["row_hash"]))))
    return sums


def _open_pass(spark: SparkSession, source: Source, spans: Sequence[Span], number: int) -> DataFrame:
    frame = open_frame(spark, source, [span.range for span in spans])
    return frame.selectExpr(f"{number} as pass", "*")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The chunks of a span in the order of their first offsets: their places and offsets.

    `reach` is the end of the longest chunk so far, so that a search finds the first chunk that may hold an offset.
    """

    places: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    reach: tuple[int, ...]

    def find(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Find the chunks that hold offsets from `first` to `last`: place, start and end."""
        for at in range(bisect_right(self.reach, first), bisect_right(self.starts, last)):
            if self.ends[at] > first:
                yield self.places[at], self.starts[at], self.ends[at]


def list_bounds(chunks: Sequence[StagedChunk], span: Span) -> Bounds:
    """List the chunks of a span."""
    ranges = [chunks[place].range for place in span.places]
    ends = tuple(range_.until_offset for range_ in ranges)
    return Bounds(span.places, tuple(range_.from_offset for range_ in ranges), ends, tuple(accumulate(ends, max)))


def make_hasher(
    requests: Sequence[Request], passes: Sequence[Mapping[int, Bounds]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that runs on the executors: it takes records and returns fingerprints of chunks."""

    def hash_parts(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = (piece for part in parts if len(part) for piece in _split(passes, part))
        try:
            with ChunkHasher() as hasher:
                for place, of_chunk in groupby(pieces, key=itemgetter(0)):
                    batches = (make_batch(piece) for _, piece in of_chunk)
                    yield _make_result(place, hasher.hash_records(batches, requests[place]))
        except PenstockError as error:
            raise TaskError(error) from None

    return hash_parts


def _split(passes: Sequence[Mapping[int, Bounds]], part: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a batch by chunk. Spark makes batches of one piece of the log: of one pass and one partition.

    Records between chunks are skipped; a record of two chunks is in the pieces of both.
    """
    bounds = passes[part["pass"][0].as_py()][part["partition"][0].as_py()]
    offsets = part["offset"].to_numpy()
    for place, start, end in bounds.find(int(offsets[0]), int(offsets[-1])):
        first, until = np.searchsorted(offsets, (start, end))
        if first < until:
            yield place, part.slice(first, until - first)


def _make_result(place: int, sums: ChunkSums) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "place": pa.array([place], pa.int32()),
            "records": [sums.log.records],
            "hash": [sums.log.hash],
            "rows": [sums.rows.rows],
            "row_hash": [str(sums.rows.hash)],
        }
    )


def record_sums(db: str, verification_id: int, requests: Sequence[Request], sums: Sequence[ChunkSums]) -> None:
    """Record the sums of chunks."""
    chunks = [
        RereadChunk(chunk.load_id, chunk.task, of_chunk.log.records, of_chunk.log.hash, *astuple(of_chunk.rows))
        for chunk, of_chunk in zip((each.chunk for each in requests), sums, strict=True)
    ]
    with open_ledger(db) as connection:
        record_reread(connection, verification_id, chunks)
