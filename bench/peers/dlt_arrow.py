"""The peer dlt: confluent-kafka, msgspec, Arrow, and dlt's PostgreSQL destination by parquet files and ADBC.

The table has no key: dlt makes none, and would be slower with one.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import dlt
import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4
BATCH = 50_000


class Order(msgspec.Struct):
    """A record's value. The amount stays text until Arrow reads it: it must not pass through a float."""

    id: int
    customer: int
    country: str
    amount: msgspec.Raw
    currency: str
    placed: str
    note: str


def read_tables() -> Iterator[pa.Table]:
    """Read all partitions to their ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["BENCH_KAFKA"],
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(os.environ["BENCH_TOPIC"], number, 0) for number in range(PARTITIONS)])
    decoder = msgspec.json.Decoder(Order)
    waiting: list[Message] = []
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(BATCH, 0.2):
            if message.error() is None:
                waiting.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise RuntimeError(message.error().str())
        if waiting and (len(waiting) >= BATCH or ended == PARTITIONS):
            yield make_table(waiting, decoder)
            waiting = []
    consumer.close()


def make_table(messages: list[Message], decoder: msgspec.json.Decoder[Order]) -> pa.Table:
    """Decode a batch, column by column."""
    orders = [decoder.decode(message.value() or b"") for message in messages]
    amounts = pa.array([bytes(order.amount) for order in orders], pa.binary()).cast(pa.string())
    millis = pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC"))
    return pa.table(
        {
            "id": pa.array([order.id for order in orders], pa.int64()),
            "customer": pa.array([order.customer for order in orders], pa.int64()),
            "country": pa.array([order.country for order in orders], pa.string()),
            "amount": amounts.cast(pa.decimal128(12, 2)),
            "currency": pa.array([order.currency for order in orders], pa.string()),
            "placed": pa.array([order.placed for order in orders], pa.string()).cast(pa.timestamp("us", "UTC")),
            "note": pa.array([order.note for order in orders], pa.string()),
            "partition": pa.array([message.partition() for message in messages], pa.int32()),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": millis.cast(pa.timestamp("us", "UTC")),
        }
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        pipeline = dlt.pipeline(
            pipeline_name="bench",
            destination=dlt.destinations.postgres(credentials=os.environ["BENCH_DB"]),
            dataset_name="peer",
            pipelines_dir=folder,
        )
        pipeline.run(
            dlt.resource(read_tables(), name="records"), loader_file_format="parquet", write_disposition="append"
        )
