"""The peer Spark: its Kafka source, from_json, and a JDBC append, as a batch or as a stream of one, or a merge.

The table is there already. That of the append has a primary key over partition and offset: without one a retry doubles
rows. That of the merge has one row for each customer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, max_by, struct

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = "id long, customer long, country string, amount decimal(12,2), currency string, placed timestamp, note string"
KAFKA = {
    "kafka.bootstrap.servers": os.environ["BENCH_KAFKA"],
    "subscribe": os.environ["BENCH_TOPIC"],
    "startingOffsets": "earliest",
}
JDBC = {
    "url": os.environ["BENCH_JDBC"] + "&reWriteBatchedInserts=true",
    "driver": "org.postgresql.Driver",
    "dbtable": "peer.records",
    "batchsize": "10000",
}
# A row is replaced by a later one only, so that a batch that is repeated changes nothing.
MERGE = """
insert into peer.newest as n select * from peer.merging order by customer
on conflict (customer) do update set (id, country, amount, currency, placed, note, partition, "offset", "timestamp")
    = (excluded.id, excluded.country, excluded.amount, excluded.currency, excluded.placed, excluded.note,
       excluded.partition, excluded."offset", excluded."timestamp")
where (n."timestamp", n.partition, n."offset") < (excluded."timestamp", excluded.partition, excluded."offset")
"""


def decode(records: DataFrame) -> DataFrame:
    """The columns of the table."""
    parsed = from_json(col("value").cast("string"), SCHEMA).alias("parsed")
    return records.select(parsed, "partition", "offset", "timestamp").select(
        "parsed.*", "partition", "offset", "timestamp"
    )


def append(rows: DataFrame, _batch: int = 0) -> None:
    """Append to the table."""
    rows.write.format("jdbc").options(**JDBC).mode("append").save()


def run_batch(spark: SparkSession) -> None:
    """Read from the earliest to the latest offset, once."""
    append(decode(spark.read.format("kafka").options(**KAFKA).option("endingOffsets", "latest").load()))


def merge(rows: DataFrame, _batch: int) -> None:
    """Write the newest row of each customer beside the table, and merge it there."""
    newest = max_by(struct(*rows.columns), struct("timestamp", "partition", "offset")).alias("newest")
    found = rows.groupBy("customer").agg(newest).select("newest.*")
    found.write.format("jdbc").options(**JDBC, truncate="true").option("dbtable", "peer.merging").mode(
        "overwrite"
    ).save()
    with psycopg.connect(os.environ["BENCH_DB"]) as connection:
        connection.execute("set local work_mem = '128MB'")
        connection.execute(MERGE)


def run_stream(spark: SparkSession, write: Callable[[DataFrame, int], None]) -> None:
    """By Structured Streaming: what is available now, in one micro-batch."""
    with tempfile.TemporaryDirectory() as checkpoint:
        records = spark.readStream.format("kafka").options(**KAFKA).load()
        query = decode(records).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    session = SparkSession.builder.appName("bench").getOrCreate()
    if sys.argv[1] == "batch":
        run_batch(session)
    else:
        run_stream(session, {"stream": append, "merge": merge}[sys.argv[1]])
    session.stop()
