"""The native reader as a PySpark data source: a DataFrame of explicit ranges, without a pipeline.

register_source(spark, {"bootstrap.servers": "localhost:9092"})
spark.read.format("penstock").option("topic", "orders").option("ranges", "[[0, 100, 200]]").load()
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock import advice
from penstock.errors import WrongUseError
from penstock.kafka.readers import native
from penstock.kafka.readers.contract import Source
from penstock.model.ranges import Chunk, Range, cut_chunks
from penstock.model.records import NO_TIMESTAMP, Batch
from penstock.settings import KAFKA, read_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMA = (
    "partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
RECORDS_PER_CHUNK = 500_000


def register_source(spark: SparkSession, settings: Mapping[str, str] | None = None) -> None:
    """Register the source. Settings travel inside its class, so that no option and no conf shows them."""
    bound = PenstockSource if settings is None else type("BoundSource", (PenstockSource,), {"settings": dict(settings)})
    spark.dataSource.register(bound)


class PenstockSource(DataSource):  # type: ignore[misc]
    """Options: `topic`; `ranges`, JSON such as [[partition, from, until], …]; `isolation`; `recordsPerChunk`."""

    # A source without settings reads PENSTOCK_KAFKA, like every entry point.
    settings: ClassVar[Mapping[str, str] | None] = None

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> ChunkedReader:
        del schema
        settings = self.settings if self.settings is not None else read_kafka(os.environ.get(KAFKA, ""))
        isolation = self.options.get("isolation", "read_committed")
        if isolation not in ("read_committed", "read_uncommitted") or not self.options.get("topic"):
            raise WrongUseError(
                "the data source has no `topic`, or its `isolation` is neither read_committed nor read_uncommitted.",
                next_step=advice.GIVE_TOPIC_AND_ISOLATION,
            )
        size = int(self.options.get("recordsPerChunk", RECORDS_PER_CHUNK))
        chunks = cut_chunks(parse_ranges(self.options.get("ranges")), size)
        return ChunkedReader(Source(settings, self.options["topic"], isolation), chunks)


def parse_ranges(text: str | None) -> list[Range]:
    """Parse [[partition, from, until], …]."""
    try:
        return [Range(*map(int, part)) for part in json.loads(text or "")]
    except (TypeError, ValueError) as error:
        raise WrongUseError(
            "the option `ranges` does not have the form [[partition, from, until], …].",
            next_step=advice.GIVE_RANGES,
        ) from error


class ChunkPartition(InputPartition):  # type: ignore[misc]
    """One chunk as a partition of the DataFrame."""

    def __init__(self, chunk: Chunk) -> None:
        super().__init__(chunk.task)
        self.chunk = chunk


class ChunkedReader(DataSourceReader):  # type: ignore[misc]
    """Reads each chunk in a task of its own, with the checks of a load."""

    def __init__(self, source: Source, chunks: Sequence[Chunk]) -> None:
        self.source = source
        self.chunks = chunks

    def partitions(self) -> Sequence[InputPartition]:
        return [ChunkPartition(chunk) for chunk in self.chunks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with closing(native.read_whole(self.source, partition.chunk)) as batches:
            yield from map(make_rows, batches)


def make_rows(batch: Batch) -> pa.RecordBatch:
    """Make the rows of a frame from a batch of records."""
    places = range(len(batch.offsets))
    columns = [
        [batch.partition] * len(batch.offsets),
        batch.offsets,
        [None if moment == NO_TIMESTAMP else moment * 1000 for moment in batch.timestamps.tolist()],
        batch.keys,
        batch.values,
        [[{"key": name, "value": value} for name, value in batch.headers(place)] or None for place in places],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, ARROW, strict=True)], schema=ARROW
    )
