"""Sample orders of a web shop: valid records, aborted records, and broken records."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNTRIES, CURRENCIES = ("DE", "FR", "GB", "IT", "PL", "SE", "US"), ("EUR", "GBP", "USD")
ITEMS = ("lamp", "chair", "kettle", "rug", "mirror", "shelf")
# Each of these records has another reason why it cannot become a row.
BROKEN: tuple[bytes | None, ...] = (
    b'{"id": 1, "amount": 12.',
    b'{"amount": "12.00", "currency": "EUR"}',
    b'{"id": 2, "amount": "99999999999.99"}',
    b'{"id": 3, "ts": "the day before yesterday"}',
    b'{"id": 4, "currency": "E\\u0000R"}',
    b'{"id": 5, "currency": "\xff\xfe"}',
    None,
)


def create_topics(bootstrap: str, partitions: dict[str, int]) -> list[str]:
    """Create the missing topics; return their names."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    present = admin.list_topics(timeout=15).topics
    missing = [NewTopic(name, count, 1) for name, count in partitions.items() if name not in present]
    for created in (admin.create_topics(missing) if missing else {}).values():
        created.result(timeout=30)
    return [topic.topic for topic in missing]


def send(bootstrap: str, topic: str, values: Sequence[bytes | None]) -> None:
    """Send records, and wait until all are acknowledged."""
    _send_all(_connect(bootstrap), topic, values)


def send_transaction(bootstrap: str, topic: str, values: Sequence[bytes | None], *, commit: bool) -> None:
    """Send records in one transaction, and commit or abort it."""
    producer = _connect(bootstrap, **{"transactional.id": "penstock-demo"})
    producer.init_transactions(30)
    producer.begin_transaction()
    _send_all(producer, topic, values)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def make_orders(first: int, count: int) -> list[bytes | None]:
    """Make orders with rising numbers."""
    return [_make_order(number) for number in range(first, first + count)]


def make_log_lines(count: int) -> list[bytes | None]:
    """Make lines of an access log."""
    return [f'127.0.0.1 - "GET /orders/{number} HTTP/1.1" 200'.encode() for number in range(count)]


def _make_order(number: int) -> bytes:
    chance = random.Random(number)  # noqa: S311 - the same orders in every demo
    order = {
        "id": number,
        "customer": {"id": chance.randint(1, 5000), "country": chance.choice(COUNTRIES)},
        "amount": f"{chance.randint(100, 50_000) / 100:.2f}",
        "currency": chance.choice(CURRENCIES),
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "gift wrap": chance.random() < 0.1,
        "items": chance.sample(ITEMS, chance.randint(1, 3)),
    }
    return json.dumps(order).encode()


def _connect(bootstrap: str, **more: str) -> Producer:
    quiet = {"log_level": 0, "enable.idempotence": "true", "linger.ms": "5"}
    return Producer({"bootstrap.servers": bootstrap, **quiet, **more})


def _send_all(producer: Producer, topic: str, values: Sequence[bytes | None]) -> None:
    refused: list[str] = []
    for number, value in enumerate(values):
        producer.produce(
            topic, value, key=str(number), on_delivery=lambda error, _: refused.append(str(error)) if error else None
        )
        producer.poll(0)
        if number % 50_000 == 49_999:
            producer.flush(60)  # its queue holds 100,000 records
    left = producer.flush(60)
    if left or refused:
        reason = refused[0] if refused else "no answer in 60 s"
        raise KafkaError(f"{left + len(refused)} records were not accepted: {reason}", next_step="read kafka.log.")
