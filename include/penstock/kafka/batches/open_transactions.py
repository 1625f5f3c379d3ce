"""Transactions that are open, and hold back whatever stands behind their first record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafka import errors
from kafka.structs import TopicPartition

from penstock.errors import KafkaError, WrongUseError
from penstock.kafka.admin import read_logs
from penstock.kafka.batches.reader import SecondReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka.admin import KafkaAdminClient

    from penstock.kafka.batches.record_batch import Batch

NOT_LISTED = (
    "the transactional id: Kafka lists none of this producer (the right Describe on transactional ids is missing, or "
    "no coordinator knows the producer any more, and nobody will end the transaction)"
)
NOT_ASKED = "the transactional id: Kafka did not list transactions"
FORGOTTEN = "who will end it: the coordinator of the transactional id knows of no open transaction in this partition"
BY_THE_RECORD = "since when exactly: the time is that of the first record, which the producer may have set"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The first open transaction of a partition. `unknown` says what Kafka did not tell, and why."""

    topic: str
    partition: int
    first_offset: int  # the last stable offset, where loads end
    high_watermark: int
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: str | None
    began_at: datetime | None
    unknown: tuple[str, ...] = ()

    @property
    def held_back(self) -> int:
        """How many offsets nobody can load until it ends."""
        return self.high_watermark - self.first_offset


def find_open_transactions(kafka_settings: Mapping[str, str], topics: Iterable[str]) -> list[OpenTransaction]:
    """Find the partitions whose last stable offset stays behind an open transaction, and whose transaction it is."""
    names = sorted(set(topics))
    if not names:
        return []
    ends = read_logs(kafka_settings, dict.fromkeys(names, "read_uncommitted"))
    stable = read_logs(kafka_settings, dict.fromkeys(names, "read_committed"))
    behind = {
        TopicPartition(topic, number): (partition.end, ends[topic].partitions[number].end)
        for topic in names
        for number, partition in stable[topic].partitions.items()
        if number in ends[topic].partitions and partition.end < ends[topic].partitions[number].end
    }
    if not behind:
        return []
    try:
        reader = SecondReader(kafka_settings)
    except (KafkaError, WrongUseError) as error:  # other settings may be needed; that records wait is known without it
        return [_leave_unnamed(place, *offsets, error.what) for place, offsets in behind.items()]
    with reader:
        found = [_identify(reader, place, *offsets) for place, offsets in behind.items()]
    return [each for each in found if each is not None]


def _identify(reader: SecondReader, place: TopicPartition, first_offset: int, end: int) -> OpenTransaction | None:
    try:
        return _read_transaction(reader, place, first_offset, end)
    except KafkaError as error:  # the right to read may be missing
        return _leave_unnamed(place, first_offset, end, error.what)


def _leave_unnamed(place: TopicPartition, first_offset: int, end: int, why: str) -> OpenTransaction:
    unknown = (f"whose it is, and since when: {why}",)
    return OpenTransaction(place.topic, place.partition, first_offset, end, None, None, None, None, unknown)


def _read_transaction(
    reader: SecondReader, place: TopicPartition, first_offset: int, end: int
) -> OpenTransaction | None:
    """Whose transaction begins at the last stable offset; None if it has ended meanwhile.

    The batch that stands there tells its producer to whoever may read the topic, of any Kafka.
    """
    batch, stable = reader.read_batch(place, first_offset)
    if batch is None or stable > first_offset or not batch.is_transactional:
        return None
    told = _ask_coordinator(reader.admin, place, batch)
    unknown = (*told.unknown, *((BY_THE_RECORD,) if told.began_ms is None else ()))
    began_ms = batch.first_timestamp if told.began_ms is None else told.began_ms
    return OpenTransaction(
        topic=place.topic,
        partition=place.partition,
        first_offset=first_offset,
        high_watermark=end,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        transactional_id=told.transactional_id,
        began_at=datetime.fromtimestamp(began_ms / 1000, UTC),
        unknown=unknown,
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What the coordinator of a transaction told, and what it did not."""

    transactional_id: str | None
    began_ms: int | None
    unknown: tuple[str, ...]


def _ask_coordinator(admin: KafkaAdminClient, place: TopicPartition, batch: Batch) -> _Told:
    """Ask the brokers for the transaction of a producer: its name, and when it began by their clocks."""
    try:
        listed = admin.list_transactions(producer_id_filters=[batch.producer_id])
        names = [each.transactional_id for part in listed.values() for each in part]
        if not names:
            return _Told(None, None, (NOT_LISTED,))
        described = admin.describe_transactions(names[:1])[names[0]]
    except (errors.KafkaError, ValueError) as error:  # it has no word for a state that is newer than itself
        return _Told(None, None, (f"{NOT_ASKED} ({error})",))
    if place not in described.topic_partitions or described.producer_epoch != batch.producer_epoch:
        return _Told(names[0], None, (FORGOTTEN,))
    return _Told(names[0], described.transaction_start_time_ms, ())
