"""The records: JSON of about 150 bytes, determined by their number alone, so that a topic can be used again."""

from __future__ import annotations

from typing import Any

PARTITIONS = 4
# Part of the topic's name, so that records of an older shape are not used.
VERSION = 1
PIPELINE = "bench"
COUNTRIES = (b"DE", b"FR", b"IT", b"ES", b"PL", b"NL", b"SE")
CURRENCIES = (b"EUR", b"USD", b"GBP")
NOTES = (b"ring twice, second floor", b"leave it with the neighbours", b"deliver after six", b"a present, no bill")

COLUMNS: dict[str, dict[str, Any]] = {
    "id": {"type": "bigint", "path": "$.id", "required": True},
    "customer": {"type": "bigint", "path": "$.customer"},
    "country": {"type": "text", "path": "$.country"},
    "amount": {"type": "numeric(12,2)", "path": "$.amount"},
    "currency": {"type": "text", "path": "$.currency"},
    "placed": {"type": "timestamptz", "path": "$.placed"},
    "note": {"type": "text", "path": "$.note"},
}


def name_topic(records: int, *, keyed: bool = False) -> str:
    """Each number of records has a topic of its own."""
    return f"bench_v{VERSION}_{records}{'_keyed' if keyed else ''}"


def make_value(number: int, *, keyed: bool = False) -> bytes:
    """The record of a number. Of partition p, the record at offset n has the number n * PARTITIONS + p.

    A keyed topic has all records of a customer in one partition, as a producer sends them by a key.
    """
    mixed = number * 2_654_435_761 % 4_294_967_296
    customer = mixed % 1_000_003
    if keyed:
        customer = customer // PARTITIONS * PARTITIONS + number % PARTITIONS
    cents = mixed % 9_999_999
    seconds = number // 20
    return (
        b'{"id":%d,"customer":%d,"country":"%b","amount":%d.%02d,"currency":"%b",'
        b'"placed":"2025-%02d-%02dT%02d:%02d:%02d.%03dZ","note":"%b"}'
    ) % (
        number,
        customer,
        COUNTRIES[mixed % 7],
        cents // 100,
        cents % 100,
        CURRENCIES[mixed % 3],
        seconds // 2_419_200 % 12 + 1,
        seconds // 86_400 % 28 + 1,
        seconds // 3_600 % 24,
        seconds // 60 % 60,
        seconds % 60,
        number % 20 * 50,
        NOTES[mixed % 4],
    )


def describe_pipeline(topic: str, records: int) -> dict[str, Any]:
    """Penstock's declaration: all records in one load, and no checks except the built-in ones."""
    return {
        "name": PIPELINE,
        "topic": topic,
        "start": "earliest",
        "max_records_per_partition": records,
        "value": "json",
        "columns": COLUMNS,
        "target": f"analytics.{PIPELINE}",
        "mode": "append",
    }
