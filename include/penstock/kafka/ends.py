"""The ends of many topics in few requests: one for the partitions of all topics, one for their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from penstock.errors import KafkaError
from penstock.kafka.admin import ISOLATION, connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from penstock.kafka.admin import Client
    from penstock.model.log import Isolation

    Partitions = Iterable[tuple[str, int]]
    Offsets = dict[tuple[str, int], int]

# A look that is late is worth nothing: the next one follows in seconds.
ANSWER_SECONDS = 20


class Ends:
    """Asks one cluster for the ends of logs. It keeps its connection between the requests."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._admin: Client = connect(settings)

    def list_partitions(self, topics: Iterable[str]) -> list[tuple[str, int]]:
        """List the partitions of topics; a topic that Kafka does not show is left out."""
        described = self._admin.describe_topics(TopicCollection(sorted(set(topics))), request_timeout=ANSWER_SECONDS)
        found = []
        for topic, future in described.items():
            try:
                description = self._admin.wait_for(future, f"the description of topic {topic}")
            except KafkaError as error:
                # One missing topic must not hide the others, but an outage concerns them all.
                if _is_outage(error.__cause__):
                    raise
                continue
            found += [(topic, partition.id) for partition in description.partitions]
        return found

    def read_ends(self, partitions: Partitions, isolation: Isolation) -> Offsets:
        """Read the ends of partitions; one that does not answer is left out."""
        return self._list(partitions, OffsetSpec.latest(), isolation)

    def find_first_since(self, partitions: Partitions, moment: datetime, isolation: Isolation) -> Offsets:
        """Find the first offset whose record is not older than a moment; a negative number if there is none."""
        return self._list(partitions, OffsetSpec.for_timestamp(int(moment.timestamp() * 1000)), isolation)

    def _list(self, partitions: Partitions, spec: OffsetSpec, isolation: Isolation) -> Offsets:
        wanted: dict[Any, OffsetSpec] = {TopicPartition(*place): spec for place in partitions}
        if not wanted:
            return {}
        listed = self._admin.list_offsets(wanted, isolation_level=ISOLATION[isolation], request_timeout=ANSWER_SECONDS)
        found = {}
        for partition, future in listed.items():
            try:
                answer = self._admin.wait_for(future, "the offsets of topics")
            except KafkaError:
                continue
            found[partition.topic, partition.partition] = int(answer.offset)
        return found


def _is_outage(cause: BaseException | None) -> bool:
    """Whether a request failed for all topics. The client's own errors, such as a time-out, have negative codes."""
    if not isinstance(cause, KafkaException):
        return True
    return bool(cause.args[0].retriable() or cause.args[0].code() < 0)
