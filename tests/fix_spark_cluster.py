"""A real standalone cluster of Spark: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock.spark.submit import find_spark_submit
from penstock_stack import ports
from penstock_stack.processes import await_condition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKERS = 2


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the master, after both workers are registered."""
    folder = tmp_path_factory.mktemp("spark_cluster")
    master_port, *others = ports.choose(2 + 2 * WORKERS)
    url = f"spark://{ports.LOOPBACK}:{master_port}"
    with ExitStack() as stack:
        place = ["--host", ports.LOOPBACK, "--port", str(master_port), "--webui-port", str(others[0])]
        log = folder / "master.log"
        stack.enter_context(_running(log, "org.apache.spark.deploy.master.Master", *place))
        await_condition(lambda: "I have been elected leader" in log.read_text(), 120, "the master of Spark serves")
        for number in range(WORKERS):
            port, page = others[1 + 2 * number : 3 + 2 * number] if number == 0 else others[-2:]
            work = folder / f"worker{number}"
            options = ["--host", ports.LOOPBACK, "--port", str(port), "--webui-port", str(page), "--cores", "1"]
            options += ["--memory", "1g", "--work-dir", str(work), url]
            stack.enter_context(
                _running(folder / f"worker{number}.log", "org.apache.spark.deploy.worker.Worker", *options)
            )
        await_condition(
            lambda: log.read_text().count("Registering worker") == WORKERS, 120, f"{WORKERS} workers are registered"
        )
        yield url


@contextmanager
def _running(log: Path, *words: str) -> Iterator[None]:
    """Run a class of Spark until the block ends."""
    command = find_spark_submit().parent / "spark-class"
    environment = os.environ | {"SPARK_HOME": str(command.parents[1]), "PYSPARK_PYTHON": sys.executable}
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(command), *words], stdout=output, stderr=subprocess.STDOUT, env=environment, stdin=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)
