"""Reading chunks again by the reader that did not load them.

What it finds must have the fingerprint of the log that was taken then, and the records, decoded again, must give the
rows that the target holds.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock import advice
from penstock.errors import PenstockError, ReadError
from penstock.kafka.readers import native
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.spark import make_batch, open_frame
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.verification import (
    RereadChunk,
    find_requested_chunks,
    find_requested_declarations,
    record_reread,
)
from penstock.model.ranges import Chunk
from penstock.records.fingerprint import LogFingerprint
from penstock.spark.error_transport import TaskError, first_words, recover_error
from penstock.verify.chunks import group_passes, make_staged, span_of
from penstock.verify.rebuilt_rows import Again, Chosen, RowSum, make_recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from penstock.ledger.verification import RequestedChunk
    from penstock.model.records import Batch
    from penstock.settings import Settings
    from penstock.verify.chunks import Staged
    from penstock.verify.rebuilt_rows import Recipe

    Starts = tuple[list[int], list[int]]

# One job of Spark is told so many pieces of the log at once: a plan of hundreds takes longer to make than to run.
PASSES_PER_JOB = 16
FOUND = "place int, records bigint, hash bigint, rows bigint, row_hash string"


@dataclass(frozen=True, slots=True)
class Asked:
    """A chunk to read again, and how its rows are compared; None if they are not."""

    chunk: Staged
    topic: str
    recipe: Recipe | None
    chosen: Chosen | None


@dataclass(slots=True)
class Found:
    """The records and rows of a chunk, or of a part of it, in sums."""

    log: LogFingerprint = field(default_factory=LogFingerprint)
    rows: RowSum = field(default_factory=RowSum)

    def add(self, other: Found) -> None:
        """Add what another part holds."""
        self.log.add(other.log.records, other.log.hash)
        self.rows = RowSum(self.rows.rows + other.rows.rows, self.rows.hash + other.rows.hash)


class Looker:
    """Looks at records: takes both fingerprints. It has one session for each declaration that it meets."""

    def __init__(self) -> None:
        self._opened: dict[int, Again] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def look(self, batches: Iterator[Batch], asked: Asked) -> Found:
        """Take the fingerprints of some records of a chunk."""
        found = Found()
        watched = found.log.watch(batches)
        if asked.recipe is None or asked.chosen is None:
            for _ in watched:
                pass
        else:
            found.rows = self._open(asked.recipe).sum_rows(watched, asked.chosen)
        return found

    def _open(self, recipe: Recipe) -> Again:
        load_id = recipe.assignment.load_id
        if load_id not in self._opened:
            self._opened[load_id] = self._stack.enter_context(Again(recipe))
        return self._opened[load_id]


def run_reread(settings: Settings, verification_id: int, open_context: Callable[[], SparkContext]) -> None:
    """Read the chunks that a verification asks for, as a Spark driver, and put down what was found."""
    from pyspark.sql import SparkSession

    asked = read_asked(settings, verification_id, "native")
    spark = SparkSession(open_context())
    for source, part in group_by_source(settings, asked):
        keep_reread(settings.db, verification_id, part, _try_reading(spark, source, part))


def reread_natively(settings: Settings, verification_id: int) -> None:
    """Read the chunks that a verification asks for and Spark has loaded, in this process."""
    for source, part in group_by_source(settings, read_asked(settings, verification_id, "spark")):
        keep_reread(settings.db, verification_id, part, read_natively(source, part))


def read_asked(settings: Settings, verification_id: int, loaded_by: str) -> list[Asked]:
    """The chunks that a verification asks for, of those that one of the readers has loaded."""
    with open_ledger(settings.db) as connection:
        rows = find_requested_chunks(connection, verification_id)
        recipes: dict[int, Recipe] = {}
        for declared in find_requested_declarations(connection, verification_id):
            recipe = make_recipe(settings, read_load(connection, declared.loads[0]))
            recipes |= dict.fromkeys(declared.loads, recipe)
    return [_make_asked(row, recipes) for row in rows if row.reader == loaded_by]


def _make_asked(row: RequestedChunk, recipes: Mapping[int, Recipe]) -> Asked:
    chunk = make_staged(row)
    if row.covered is None:
        return Asked(chunk, row.topic, None, None)
    covered = tuple((start, until) for start, until in row.covered)
    return Asked(chunk, row.topic, recipes[chunk.load], Chosen(covered, tuple(row.refused or ())))


def group_by_source(settings: Settings, asked: Sequence[Asked]) -> Iterator[tuple[Source, list[Asked]]]:
    """The chunks by the source that they are read from."""
    for isolation in sorted({each.chunk.isolation for each in asked}):
        part = [each for each in asked if each.chunk.isolation == isolation]
        yield Source(settings.kafka, part[0].topic, isolation), part


def _try_reading(spark: SparkSession, source: Source, asked: Sequence[Asked]) -> list[Found]:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return read_with_spark(spark, source, asked)
    except (PySparkException, Py4JError) as failure:
        raise recover_error(str(failure)) or ReadError(
            f"topic {source.topic}: Spark could not read the log again: {first_words(str(failure))}",
            ranges=[each.chunk.range for each in asked[:3]],
            next_step=advice.CHECK_BROKERS_THEN_VERIFY,
        ) from failure


def read_natively(source: Source, asked: Sequence[Asked]) -> list[Found]:
    """Read chunks with the native reader, in this process."""
    found = []
    with Looker() as looker:
        for each in asked:
            chunk = Chunk(each.chunk.task, each.chunk.range)
            with closing(native.read_whole(source, chunk)) as batches:
                found.append(looker.look(batches, each))
    return found


def read_with_spark(spark: SparkSession, source: Source, asked: Sequence[Asked]) -> list[Found]:
    """Read chunks with Spark's own Kafka source; sums need no order, so Spark may cut the log as it likes."""
    found = [Found() for _ in asked]
    chunks = [each.chunk for each in asked]
    passes = group_passes(chunks)
    for first in range(0, len(passes), PASSES_PER_JOB):
        part = passes[first : first + PASSES_PER_JOB]
        frames = [_open_pass(spark, source, chunks, places, number) for number, places in enumerate(part)]
        union = reduce(lambda left, right: left.unionAll(right), frames)
        starts = [_list_starts(chunks, places) for places in part]
        for row in union.mapInArrow(make_looker(asked, starts), FOUND).collect():
            log = LogFingerprint(row["records"], row["hash"])
            found[row["place"]].add(Found(log, RowSum(row["rows"], int(row["row_hash"]))))
    return found


def _open_pass(
    spark: SparkSession, source: Source, chunks: Sequence[Staged], places: Sequence[int], number: int
) -> DataFrame:
    frame = open_frame(spark, source, span_of([chunks[place].range for place in places]))
    return frame.selectExpr(f"{number} as pass", "*")


def _list_starts(chunks: Sequence[Staged], places: Sequence[int]) -> dict[int, Starts]:
    """Where the chunks of a pass start, by partition, and their places."""
    starts: dict[int, Starts] = {}
    for place in places:
        range_ = chunks[place].range
        offsets, numbers = starts.setdefault(range_.partition, ([], []))
        offsets.append(range_.from_offset)
        numbers.append(place)
    return starts


def make_looker(
    asked: Sequence[Asked], passes: Sequence[Mapping[int, Starts]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that runs on the executors: records come in, fingerprints of chunks go out."""

    def look(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = (piece for part in parts if len(part) for piece in _split(passes, part))
        try:
            with Looker() as looker:
                for place, of_chunk in groupby(pieces, key=itemgetter(0)):
                    batches = (make_batch(piece) for _, piece in of_chunk)
                    yield _tell_found(place, looker.look(batches, asked[place]))
        except PenstockError as error:
            raise TaskError(error) from None

    return look


def _split(passes: Sequence[Mapping[int, Starts]], part: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The pieces of a batch, by chunk. It is of one pass and one partition: Spark makes no batch of two pieces."""
    first_offsets, places = passes[part["pass"][0].as_py()][part["partition"][0].as_py()]
    numbers = np.searchsorted(np.asarray(first_offsets), part["offset"].to_numpy(), side="right") - 1
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(part)]
    for start, until in pairwise(bounds):
        yield places[numbers[start]], part.slice(start, until - start)


def _tell_found(place: int, found: Found) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "place": pa.array([place], pa.int32()),
            "records": [found.log.records],
            "hash": [found.log.hash],
            "rows": [found.rows.rows],
            "row_hash": [str(found.rows.hash)],
        }
    )


def keep_reread(db: str, verification_id: int, asked: Sequence[Asked], found: Sequence[Found]) -> None:
    """Record what was found in chunks."""
    chunks = [
        RereadChunk(each.chunk.load, each.chunk.task, seen.log.records, seen.log.hash, seen.rows.rows, seen.rows.hash)
        for each, seen in zip(asked, found, strict=True)
    ]
    with open_ledger(db) as connection:
        record_reread(connection, verification_id, chunks)
