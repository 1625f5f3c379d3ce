"""Produces to a real broker, with an account of the outcome of every record."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError, Message

# Time-outs shorter than the delay of a lost reply, as in configurations tuned for speed.
HASTY: dict[str, int] = {
    "request.timeout.ms": 2000,
    "socket.timeout.ms": 2000,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 10,
}
Outcome = Literal["plain", "committed", "aborted", "open"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that the broker acknowledged."""

    partition: int
    offset: int
    value: bytes | None
    outcome: Outcome


@dataclass(slots=True)
class Account:
    """The producer's account: every acknowledged record, and the outcome of its transaction."""

    bootstrap: str
    topic: str
    sent: list[Sent] = field(default_factory=list)

    def send(
        self,
        values: Iterable[bytes | None],
        *,
        partition: int | None = None,
        key: bytes | None = None,
        timestamp: int = 0,
    ) -> None:
        """Produce without a transaction, and wait for every acknowledgement; a timestamp of 0 means now."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 5})
        self._produce(producer, values, "plain", partition, key, timestamp)

    def send_orders(self, count: int, *, partition: int | None = None, first: int = 0) -> None:
        """Produce `count` valid records."""
        self.send((order(number) for number in range(first, first + count)), partition=partition)

    def transact(
        self, values: Iterable[bytes | None], *, commit: bool, partition: int | None = None, name: str = "t"
    ) -> None:
        """Produce one transaction, and commit or abort it."""
        producer = self.begin(name)
        self._produce(producer, values, "committed" if commit else "aborted", partition, None)
        self._end(producer, name, commit=commit)

    def begin(self, name: str) -> Producer:
        """Open a transaction that the test ends itself."""
        producer = self._start(name)
        producer.begin_transaction()
        return producer

    def leave_open(self, producer: Producer, values: Iterable[bytes | None], *, partition: int | None = None) -> None:
        """Produce in a transaction, and leave it open."""
        self._produce(producer, values, "open", partition, None)

    def settle(self, producer: Producer, name: str, *, commit: bool) -> None:
        """End the transaction of this name, and record the outcome of the records that were left open."""
        self._end(producer, name, commit=commit)
        outcome: Outcome = "committed" if commit else "aborted"
        self.sent = [
            Sent(sent.partition, sent.offset, sent.value, outcome) if sent.outcome == "open" else sent
            for sent in self.sent
        ]

    def delete_before(self, offset: int, partition: int = 0) -> None:
        """Let the log of a partition start at an offset, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (deleted,) = admin.delete_records([TopicPartition(self.topic, partition, offset)]).values()
        deleted.result(120)

    def visible(self) -> set[tuple[int, int]]:
        """The partition and offset of every record that a reader of committed records must see."""
        return {(sent.partition, sent.offset) for sent in self.sent if sent.outcome in ("plain", "committed")}

    def _start(self, name: str) -> Producer:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": f"{self.topic}-{name}"})
        producer.init_transactions(120)
        return producer

    def _end(self, producer: Producer, name: str, *, commit: bool) -> None:
        if commit:
            producer.commit_transaction(120)
        else:
            producer.abort_transaction(120)
        # The broker answers before it writes the markers. The next producer of the name starts when all are written.
        self._start(name)

    def _produce(
        self,
        producer: Producer,
        values: Iterable[bytes | None],
        outcome: Outcome,
        partition: int | None,
        key: bytes | None,
        timestamp: int = 0,
    ) -> None:
        failed: list[KafkaError] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
                return
            self.sent.append(Sent(message.partition() or 0, message.offset() or 0, message.value(), outcome))

        # The client keeps to one partition for some milliseconds: whether each gets records would hang on its speed.
        in_turn = partition is None and key is None
        partitions = len(producer.list_topics(self.topic, 60).topics[self.topic].partitions) if in_turn else 0
        for number, value in enumerate(values, len(self.sent)):
            place = number % partitions if in_turn else partition
            where = {} if place is None else {"partition": place}
            while True:
                try:
                    producer.produce(self.topic, value=value, key=key, timestamp=timestamp, on_delivery=note, **where)
                    break
                except BufferError:
                    producer.poll(0.5)
        left = producer.flush(240)
        assert left == 0, f"{left} records of {self.topic} were not acknowledged in time"
        assert not failed, failed[0].str()


def order(number: int) -> bytes:
    """The value of a valid record."""
    return json.dumps({"id": number, "note": f"order {number}"}).encode()
