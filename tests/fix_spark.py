"""A Spark session that the tests share; tests that kill or watch processes start drivers of their own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.spark import submit as submitting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two local cores, with the jars of the Kafka source, that tries a failed task again."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = submitting.CONF | submitting.LOCAL_CONF | {"spark.sql.session.timeZone": "UTC"}
    builder = SparkSession.builder.master("local[2,4]").appName("penstock tests")
    builder = builder.config("spark.jars", ",".join(map(str, submitting.find_spark_jars())))
    builder = builder.config("spark.driver.extraJavaOptions", submitting.QUICK_START)
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
