"""The peer Spark: its Kafka source, from_json, and a JDBC append, as a batch or as a stream of one.

The table is there already, with a primary key over partition and offset: without one a retry doubles rows.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

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


def run_stream(spark: SparkSession) -> None:
    """The same by Structured Streaming: what is available now, in one micro-batch."""
    with tempfile.TemporaryDirectory() as checkpoint:
        records = spark.readStream.format("kafka").options(**KAFKA).load()
        query = decode(records).writeStream.foreachBatch(append).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    session = SparkSession.builder.appName("bench").getOrCreate()
    (run_stream if sys.argv[1] == "stream" else run_batch)(session)
    session.stop()
