"""Open transactions. Records behind the first record of an open transaction cannot be loaded."""

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
    "no coordinator knows the producer, and no producer will end the transaction)"
)
NOT_ASKED = "the transactional id: Kafka did not list transactions"
FORGOTTEN = "its end: the coordinator of the transactional id knows no open transaction in this partition"
BY_THE_RECORD = "its exact begin: the time is that of the first record, and the producer may have set it"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The first open transaction of a partition. `unknown` names the facts that Kafka did not give, and the reasons."""

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
        """The number of offsets that cannot be loaded until it ends."""
        return self.high_watermark - self.first_offset


def find_open_transactions(kafka_settings: Mapping[str, str], topics: Iterable[str]) -> list[OpenTransaction]:
    """Find the partitions whose last stable offset is held back by an open transaction, and its producer."""
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
    except (KafkaError, WrongUseError) as error:  # that records are held back is known without the reader
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
    unknown = (f"its producer and its begin: {why}",)
    return OpenTransaction(place.topic, place.partition, first_offset, end, None, None, None, None, unknown)


def _read_transaction(
    reader: SecondReader, place: TopicPartition, first_offset: int, end: int
) -> OpenTransaction | None:
    """Find the transaction that begins at the last stable offset; None if it has ended meanwhile.

    The batch at that offset names its producer, in every version of Kafka, to every user who may read the topic.
    """
    batch, stable = reader.read_batch(place, first_offset)
    if batch is None or stable > first_offset or not batch.is_transactional:
        return None
    known = _ask_coordinator(reader.admin, place, batch)
    unknown = (*known.unknown, *((BY_THE_RECORD,) if known.began_ms is None else ()))
    began_ms = batch.first_timestamp if known.began_ms is None else known.began_ms
    return OpenTransaction(
        topic=place.topic,
        partition=place.partition,
        first_offset=first_offset,
        high_watermark=end,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        transactional_id=known.transactional_id,
        began_at=datetime.fromtimestamp(began_ms / 1000, UTC),
        unknown=unknown,
    )


@dataclass(frozen=True, slots=True)
class _Coordinated:
    """The facts that the coordinator of a transaction gave, and the unknown ones."""

    transactional_id: str | None
    began_ms: int | None
    unknown: tuple[str, ...]


def _ask_coordinator(admin: KafkaAdminClient, place: TopicPartition, batch: Batch) -> _Coordinated:
    """Ask the brokers for the transaction of a producer: its name, and its begin by their clocks."""
    try:
        listed = admin.list_transactions(producer_id_filters=[batch.producer_id])
        names = [each.transactional_id for part in listed.values() for each in part]
        if not names:
            return _Coordinated(None, None, (NOT_LISTED,))
        described = admin.describe_transactions(names[:1])[names[0]]
    except (errors.KafkaError, ValueError) as error:  # a ValueError if the client does not know the state
        return _Coordinated(None, None, (f"{NOT_ASKED} ({error})",))
    if place not in described.topic_partitions or described.producer_epoch != batch.producer_epoch:
        return _Coordinated(names[0], None, (FORGOTTEN,))
    return _Coordinated(names[0], described.transaction_start_time_ms, ())
