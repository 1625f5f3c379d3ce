"""The consumer of the record path in Rust: by the librdkafka that confluent_kafka has loaded into this process."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError, TopicPartition

from penstock.kafka.readers.contract import End
from penstock.kafka.readers.reading import BATCH_RECORDS, UNREADABLE_HEADERS, Reading
from penstock.model.records import Batch, Headers
from penstock.rust_package import find_package

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.kafka.readers.contract import Source
    from penstock.model.ranges import Chunk

log = logging.getLogger(__name__)

# A batch of records, and its rows beside it, take about this much memory each.
BATCH_BYTES = 4 * 1024 * 1024


class RustConsumer:
    """A consumer with the methods that `Reading` needs."""

    def __init__(self, consumer: Any) -> None:  # noqa: ANN401 - a class of Rust
        self._consumer = consumer

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """Read these partitions, each from an offset."""
        self._consumer.assign([(place.partition, place.offset) for place in places])

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._consumer.unassign([place.partition for place in places])

    def consume(self, most: int, seconds: float) -> list[Any]:
        """Take runs of messages; their bytes are bounded, because the size of a record is not known before."""
        runs: list[Any] = self._consumer.consume(most, BATCH_BYTES, seconds)
        return runs

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def open_rust_consumer(source: Source, settings: Mapping[str, str | int]) -> RustConsumer | None:
    """Make a consumer; None where this way is closed, and the consumer of confluent_kafka is the way."""
    package, library = find_package(), find_library()
    # The client refreshes a token by a callback of Python.
    has_callbacks = any("oauthbearer" in f"{name} {value}".lower() for name, value in settings.items())
    if package is None or library is None or has_callbacks:
        return None
    # As with Python's logging: warnings and errors go to stderr.
    texts = [(name, str(value)) for name, value in {"log_level": 4, **settings}.items()]
    try:
        made = package.Consumer(library, confluent_kafka.libversion()[1], texts, source.topic)
    except RuntimeError as error:  # it names the setting, and quotes no value
        log.info("the consumer in Rust is not used: %s", error)
        return None
    return RustConsumer(made)


def find_library() -> str | None:
    """Find the file of the librdkafka that this process has loaded; None if it is not a file of its own."""
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return None
    found = re.search(r" (/.*/librdkafka[^/\n]*\.so[^/\n]*)$", maps.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None


class RunReading(Reading[Any]):
    """A pass by the consumer in Rust, whose runs hold records of one partition or one message with an error."""

    def split(self, messages: Any) -> Iterable[tuple[int, Any]]:  # noqa: ANN401
        """Each run is of one partition already."""
        return [(run.partition, run) for run in messages]

    def find_records(self, chunk: Chunk, messages: Any) -> tuple[Any, End | None]:  # noqa: ANN401
        """Return the records of the chunk, and its end if a message marks it."""
        if messages.error is not None:
            return [], self.judge(KafkaError(*messages.error), messages.offset, chunk)
        until = chunk.range.until_offset
        first_beyond = messages.cut(until)
        if first_beyond is not None:
            return messages, End(first_beyond)
        return messages, End(until) if messages.last_offset + 1 == until else None

    def judge_others(self, messages: Any) -> None:  # noqa: ANN401
        """Judge messages outside unfinished chunks: records are discarded, errors may concern all chunks."""
        if messages.error is not None:
            self.judge_other(KafkaError(*messages.error))

    def make_batch(self, messages: Any) -> Batch:  # noqa: ANN401
        """Make a batch whose values and keys stay in the memory of librdkafka until they are read."""
        self.wanted = BATCH_RECORDS
        return Batch(
            partition=messages.partition,
            offsets=np.frombuffer(messages.offsets(), np.int64),
            timestamps=np.frombuffer(messages.timestamps(), np.int64),
            values=Parts(messages.value, len(messages)),
            keys=Parts(messages.key, len(messages)),
            headers=lambda index: _decode_headers(messages.headers(index)),
            run=messages,
        )


class Parts(Sequence[bytes | None]):
    """The values or the keys of a run; each is copied when it is read."""

    def __init__(self, read: Any, count: int) -> None:  # noqa: ANN401
        self._read = read
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[bytes | None]: ...
    def __getitem__(self, place: int | slice) -> bytes | Sequence[bytes | None] | None:
        if isinstance(place, slice):
            return [self._read(each) for each in range(*place.indices(self._count))]
        part: bytes | None = self._read(place)
        return part


def _decode_headers(headers: Sequence[tuple[bytes, bytes | None]]) -> Headers:
    try:
        return [(name.decode(), value) for name, value in headers]
    except UnicodeDecodeError:
        return UNREADABLE_HEADERS
