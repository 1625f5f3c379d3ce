"""The fast start of Spark's driver: a home of Spark without sources, and an archive of Java's classes.

Both are made once after an installation, by `python -m penstock.spark.class_archive`. The JVM checks whether the
archive fits it and the jars of Spark. A driver without them starts as usual.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import PenstockError
from penstock.spark.submit import (
    CONF,
    LOCAL_CONF,
    PREPARED_HOME,
    PROJECT,
    QUICK_START,
    find_spark_home,
    find_spark_submit,
    make_spark_environment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

ARCHIVE = PROJECT / ".jars" / "spark.jsa"
SECONDS = 300


def make_home(home: Path = PROJECT / PREPARED_HOME) -> None:
    """Make a home of Spark that leads to all of the installed one besides Python's sources."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(find_spark_home() / name)


def make_archive(archive: Path = ARCHIVE) -> None:
    """Run a small Spark job, and archive the classes that it loaded. An earlier archive is replaced in one step."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".warming-") as folder:
        draft = Path(folder) / archive.name
        conf = [word for name, value in (CONF | LOCAL_CONF).items() for word in ("--conf", f"{name}={value}")]
        options = ["--master", "local[1]", "--driver-java-options", f"{QUICK_START} -XX:ArchiveClassesAtExit={draft}"]
        ran = subprocess.run(
            [str(find_spark_submit()), *options, *conf, __file__, "train"],
            env={**os.environ, **make_spark_environment("local")},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if ran.returncode != 0 or not draft.is_file():
            last = (ran.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
            raise PenstockError(
                f"the archive of Spark's classes was not made: {last}",
                next_step=advice.NO_CLASS_ARCHIVE,
            )
        draft.rename(archive)


def train() -> None:
    """Do the work of a driver: open a session, run tasks in Python, and a query as a transform makes them; stop."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, date_trunc

    session = SparkSession.builder.getOrCreate()
    session.sparkContext.parallelize(range(2), 2).mapPartitions(list).collect()
    rows = session.range(2).withColumn("text", col("id").cast("string")).withColumn("key", col("text").cast("binary"))
    rows = rows.withColumn("price", col("id").cast("decimal(12,2)")).withColumn("at", col("id").cast("timestamp"))
    rows = rows.mapInArrow(_same, rows.schema).withColumn("hour", date_trunc("hour", col("at"))).where("id >= 0")
    rows.mapInArrow(_same, rows.schema).collect()
    session.stop()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main() -> int:
    """Make the archive; write one line if that fails."""
    if sys.argv[1:] == ["train"]:
        train()
        return 0
    try:
        make_home()
        make_archive()
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
