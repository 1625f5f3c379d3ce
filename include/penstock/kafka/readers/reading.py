"""One pass over chunks of different partitions: when chunks end, which errors are final, and when a broker stalls.

The pass is the same for the consumer of confluent_kafka and for that of the record path in Rust.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from confluent_kafka import KafkaError as Code
from confluent_kafka import TopicPartition

from penstock import advice
from penstock.errors import ReadError
from penstock.kafka.readers.contract import End, lost_error
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.kafka.readers.contract import Part, Source
    from penstock.model.ranges import Chunk
    from penstock.model.records import Batch, Headers

HOPELESS = {
    Code.UNKNOWN_TOPIC_OR_PART,
    Code._UNKNOWN_TOPIC,
    Code._UNKNOWN_PARTITION,
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code._AUTHENTICATION,
    Code.SASL_AUTHENTICATION_FAILED,
    Code._FATAL,
}
STALL_SECONDS = 60.0
POLL_SECONDS = 0.1
BATCH_RECORDS = 10_000
BATCH_BYTES = 16 * 1024 * 1024
# The name of a header may be any bytes.
UNREADABLE_HEADERS: Headers = [("headers whose names are not UTF-8", None)]
# Messages of one partition, in the order of their offsets.
M = TypeVar("M", bound=Sized)


class Reading(ABC, Generic[M]):
    """One pass over chunks of different partitions."""

    def __init__(
        self,
        source: Source,
        chunks: Sequence[Chunk],
        consumer: Any,  # noqa: ANN401 - of confluent_kafka, or of Rust
        find_bounds: Callable[[Range], tuple[int, int]],
    ) -> None:
        self.source = source
        self.consumer = consumer
        self.find_bounds = find_bounds
        self.unfinished = {chunk.range.partition: chunk for chunk in chunks}
        self.positions = {chunk.range.partition: chunk.range.from_offset for chunk in chunks}
        self.wanted = 500  # until the size of records is known from the first batch
        self.last_error = ""
        self.progress_at = time.monotonic()

    @abstractmethod
    def split(self, messages: Any) -> Iterable[tuple[int, M]]:  # noqa: ANN401 - what the consumer returns
        """Split messages into runs of one partition."""

    @abstractmethod
    def find_records(self, chunk: Chunk, messages: M) -> tuple[M, End | None]:
        """Return the records of the chunk, and its end if a message marks it."""

    @abstractmethod
    def judge_others(self, messages: M) -> None:
        """Judge messages outside unfinished chunks: records are discarded, errors may concern all chunks."""

    @abstractmethod
    def make_batch(self, messages: M) -> Batch:
        """Make a batch of the records of a chunk."""

    def read(self) -> Iterator[Part]:
        """Read the chunks to their ends."""
        topic = self.source.topic
        self.consumer.assign([TopicPartition(topic, number, start) for number, start in self.positions.items()])
        while self.unfinished:
            messages = self.consumer.consume(min(self._count_left(), self.wanted), POLL_SECONDS)
            finished: list[int] = []
            for partition, run in self.split(messages):
                chunk = self.unfinished.get(partition)
                if chunk is None:
                    self.judge_others(run)
                    continue
                records, end = self.find_records(chunk, run)
                if records:
                    yield chunk.task, self._pass_on(self.make_batch(records))
                    # The task may have paused: that must not count as a stall of the broker.
                    self.progress_at = time.monotonic()
                if end is not None:
                    yield chunk.task, end
                    finished.append(partition)
                    del self.unfinished[partition]
            if self.unfinished and finished:
                # A finished partition would be fetched up to its end, and fill the queue that all partitions share.
                self.consumer.incremental_unassign([TopicPartition(topic, partition) for partition in finished])
            if not messages:
                self._check_stall()

    def _pass_on(self, batch: Batch) -> Batch:
        self.positions[batch.partition] = int(batch.offsets[-1]) + 1
        self.progress_at = time.monotonic()
        return batch

    def _count_left(self) -> int:
        return sum(
            chunk.range.until_offset - self.positions[partition] for partition, chunk in self.unfinished.items()
        )  # fmt: skip

    def judge(self, error: Code, offset: int, chunk: Chunk) -> End | None:
        """Return the end if this error marks it. An error that waiting cannot fix is raised."""
        if error.code() == Code._PARTITION_EOF:
            return End(offset)
        if error.code() == Code._AUTO_OFFSET_RESET:
            raise self._explain_reset(chunk.range)
        if error.code() in HOPELESS:
            raise self._fail(error.str(), chunk.range)
        self.last_error = error.str()
        return None

    def judge_other(self, error: Code | None) -> None:
        """Judge a message outside unfinished chunks."""
        if error is None or error.code() == Code._PARTITION_EOF:
            return
        if error.code() in HOPELESS:
            raise self._fail(error.str())
        self.last_error = error.str()

    def _check_stall(self) -> None:
        if time.monotonic() - self.progress_at > STALL_SECONDS:
            raise self._fail(f"no record for {STALL_SECONDS:.0f} s{self.last_error and ': ' + self.last_error}")

    def _explain_reset(self, range_: Range) -> Exception:
        start, end = self.find_bounds(range_)
        if start > range_.from_offset:
            lost = Range(range_.partition, range_.from_offset, min(start, range_.until_offset))
            return lost_error(self.source.topic, lost, start)
        return self._fail(f"the log ends at offset {end}, and the range starts at {range_.from_offset}", range_)

    def _fail(self, what: str, range_: Range | None = None) -> ReadError:
        ranges = [range_] if range_ else [chunk.range for chunk in self.unfinished.values()]
        return ReadError(
            f"topic {self.source.topic}: reading stopped at offset {self.positions[ranges[0].partition]}: {what}.",
            ranges=ranges,
            next_step=advice.CHECK_BROKERS_THEN_STAGE,
        )
