"""Kept Spark: a Spark Connect server that runs before, during and after a load, instead of a driver for each load.

All loads of one version of this package share one session of the server. A session has a Python daemon of its own,
which takes 2 s to start, and Spark 4.2 keeps the daemon after the session has ended.
"""

from __future__ import annotations

import logging
import socket
import tempfile
import uuid
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from penstock import advice
from penstock.errors import PenstockError, StageError, WrongUseError
from penstock.spark.error_transport import TaskError, first_words, recover_error
from penstock.spark.executors import find_first_failure
from penstock.spark.submit import CONF, TRIES, find_rust, hash_package, zip_package

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.settings import Settings
    from penstock.spark.executors import Work

# The conf of the session that a server started without `penstock serve-spark` may not have.
SESSION = {name: CONF[name] for name in ("spark.sql.unionOutputPartitioning", "spark.sql.sources.useV1SourceList")}
# The session's mark that it has the package.
SHIPPED = "spark.penstock.shipped"
USER = "penstock"
CONNECT_SECONDS = 5.0
# A client whose server is out of reach gives up after about 25 s. By default it tries for 10 minutes.
RETRIES, LONGEST_PAUSE_MILLISECONDS = 10, 4_000
RESULT = "number int, task int, won boolean, error string"
RESULT_SCHEMA = pa.schema([("number", pa.int32()), ("task", pa.int32()), ("won", pa.bool_()), ("error", pa.string())])
MORE_THAN_CORES = 100_000


class KeptExecutors:
    """The executors of a kept server, in the session that the loads share."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._failures: list[PenstockError] = []

    @property
    def application(self) -> str:
        return str(self._session.conf.get("spark.app.id"))

    @property
    def session(self) -> SparkSession:
        return self._session

    def open_session(self, conf: Mapping[str, str]) -> SparkSession:
        """Refused by `refuse_transform` before the load begins."""
        raise NotImplementedError

    @cached_property
    def _cores(self) -> int:
        # A range without a number of partitions has one for each core.
        places = self._session.range(0, MORE_THAN_CORES).selectExpr("spark_partition_id() as place")
        return int(places.selectExpr("max(place) as last").toArrow()["last"][0].as_py()) + 1

    def count_cores(self) -> int:
        return self._cores

    def run(self, count: int, work: Work) -> list[tuple[int, bool]]:
        """Run one task for each number; those that fail run again in the next job, as often as Spark tries a task.

        A Connect client cannot read the errors of a task's earlier tries. So a task returns its error, if another try
        may help, and the first error is known.
        """
        outcomes: list[tuple[int, bool]] = []
        left = list(range(count))
        for _ in range(TRIES):
            rows = self._collect(left, work)
            outcomes += [(row["task"], row["won"]) for row in rows if row["error"] is None]
            failed = {row["number"]: recover_error(row["error"]) for row in rows if row["error"] is not None}
            errors = [error for error in failed.values() if error is not None]
            if not errors:
                return outcomes
            self._failures += errors
            left = sorted(failed)
        raise find_first_failure(self, errors[-1])

    def _collect(self, numbers: list[int], work: Work) -> list[dict[str, Any]]:
        frame = self._session.range(0, len(numbers), 1, len(numbers)).mapInArrow(_make_task(numbers, work), RESULT)
        tag = f"penstock-{uuid.uuid4()}"
        self._session.addTag(tag)
        try:
            found: list[dict[str, Any]] = frame.toArrow().to_pylist()
        except Exception:
            raise
        except BaseException:  # Ctrl-C, or the signal by which Airflow ends a task
            self._session.interruptTag(tag)
            raise
        finally:
            self._session.removeTag(tag)
        return found

    def find_failures(self) -> Iterator[PenstockError]:
        yield from self._failures

    def find_failed_tasks(self, count: int) -> set[int]:  # noqa: ARG002
        return set()


def _make_task(numbers: list[int], work: Work) -> object:
    """Make the function that the executors run on the ids of a range: an id is a place in `numbers`."""

    def run(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (numbers[place] for part in parts for place in part["id"].to_pylist()):
            try:
                rows: list[tuple[Any, ...]] = [(number, task, won, None) for task, won in work(iter([number]))]
            except TaskError as error:
                found = recover_error(str(error))
                if found is None or not found.may_retry:
                    raise  # ends the job
                rows = [(number, None, None, str(error))]
            columns = zip(*rows, strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(values, field.type) for values, field in zip(columns, RESULT_SCHEMA, strict=True)],
                schema=RESULT_SCHEMA,
            )

    return run


class _Channel(DefaultChannelBuilder):  # type: ignore[misc]
    """A channel that sends the token without TLS too, as Spark's server expects it: PySpark's own refuses that."""

    def toChannel(self) -> Any:  # noqa: N802, ANN401 - PySpark's name, and a channel of gRPC
        if self.use_ssl:
            return super().toChannel()
        if self.token is not None:
            self.set("authorization", f"Bearer {self.token}")
        return self._insecure_channel(self.endpoint)


@contextmanager
def open_server(settings: Settings) -> Iterator[KeptExecutors]:
    """Connect to the server that the settings name, in the session of this version of the package."""
    # PySpark would write each error to stderr, with all its stack traces. The error is raised anyway.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    channel = _read_address(settings.spark_master)
    _refuse_unreachable(channel)
    try:
        session = _open_session(channel)
    except PySparkException as error:
        raise StageError(
            f"the Spark server {channel.endpoint} refused the session: {first_words(str(error))}",
            next_step=advice.CHECK_SPARK_SERVER,
        ) from None  # its details may hold the token
    try:
        yield KeptExecutors(session)
    finally:
        session.stop()


def _read_address(master: str) -> _Channel:
    try:
        return _Channel(master)
    except (PySparkException, ValueError):  # their texts quote the token
        raise WrongUseError("the address of the Spark server is invalid.", next_step=advice.GIVE_SPARK_SERVER) from None


def _refuse_unreachable(channel: _Channel) -> None:
    host, _, port = channel.endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise StageError(
            f"no Spark server answers at {channel.endpoint}: {error.strerror or error}.",
            next_step=advice.CHECK_SPARK_SERVER,
        ) from error


def _open_session(channel: _Channel) -> SparkSession:
    """Open the shared session. If the server has ended it before, for it was idle for long, open one of its own."""
    package = hash_package()
    channel.set("user_id", channel.userId or USER)
    channel.set("session_id", str(uuid.UUID(bytes=package[:16], version=4)))
    session = _connect(channel)
    try:
        shipped = session.conf.get(SHIPPED, "")
    except PySparkException as error:
        if "SESSION_CLOSED" not in str(error):
            raise
        session.stop()
        channel.set("session_id", str(uuid.uuid4()))
        session, shipped = _connect(channel), ""
    if shipped != package.hex():
        _prepare(session, package.hex())
    return session


def _connect(channel: _Channel) -> SparkSession:
    session = SparkSession.builder.channelBuilder(channel).create()
    session.release_session_on_close = False
    policy = DefaultPolicy(max_retries=RETRIES, max_backoff=LONGEST_PAUSE_MILLISECONDS)
    session.client.set_retry_policies([policy])
    return session


def _prepare(session: SparkSession, package: str) -> None:
    """Ship the package to a new session. Clients that do this at the same time ship the same bytes."""
    if session.version != pyspark.__version__:
        raise WrongUseError(
            f"the server runs Spark {session.version}, and this environment has PySpark {pyspark.__version__}.",
            next_step=advice.USE_SAME_SPARK,
        )
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        session.addArtifacts(str(zip_package(Path(folder))), pyfile=True)
    for path in find_rust():  # Python cannot load it from a zip, and searches the folder of files too
        session.addArtifacts(str(path), file=True)
    for name, value in (SESSION | {SHIPPED: package}).items():
        session.conf.set(name, value)
