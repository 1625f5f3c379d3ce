"""Rows that leave an attempt's table for the quarantine, with their records.

The staged rows do not hold the records, so these are read from the log again; those of a redrive are in the quarantine
already. Then one transaction moves the rows and changes the counts. A process that dies before it has moved nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from penstock import advice
from penstock.errors import LogLostError, RuleCrashedError
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.places import read_places
from penstock.ledger.check_result import lock_load
from penstock.ledger.connection import connect, open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.quarantine import SetAside, move_to_quarantine, open_set_aside, set_aside
from penstock.ledger.redrive import read_records
from penstock.model.load import LoadState
from penstock.records.quarantine import describe_headers
from penstock.target.postgres.attempt import attempt_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.model.load import Load

    Place = tuple[int, int]
    Kafka = Mapping[str, str]
    Headers = list[dict[str, str]]

log = logging.getLogger(__name__)

# Records are set aside in transactions of this many, because no transaction may be open while Kafka is read.
SET_ASIDE_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a row goes to the quarantine: a rule that it fails, or the place of the first copy of it."""

    reason: Literal["rule", "duplicate"]
    detail: str
    rule: str | None = None
    first: tuple[int, int] | None = None


def move_rows(db: str, kafka: Kafka | None, load: Load, causes: Mapping[Place, Cause]) -> None:
    """Move the rows at some places of a staged load to the quarantine."""
    with connect(db) as connection:
        open_set_aside(connection)
        connection.commit()
        records = _read_again(db, load, causes) if load.kind == "redrive" else _read_records(kafka, load, causes)
        while some := list(islice(records, SET_ASIDE_AT_ONCE)):
            set_aside(connection, some)
            connection.commit()
        lock_load(connection, load.load_id)
        current = read_load(connection, load.load_id)
        if (current.state, current.attempt) != (LoadState.STAGED, load.attempt):
            raise RuleCrashedError(
                f"another process has moved the load to {current.state}; its rules move nothing.",
                pipeline=load.pipeline,
                load=load.load_id,
                next_step=advice.WAIT_FOR_OTHER_PROCESS,
            )
        moved = move_to_quarantine(connection, load, attempt_table(load.load_id, load.attempt))
        connection.commit()
    counts = Counter(cause.rule or cause.reason for cause in causes.values())
    described = ", ".join(f"{name} {rows}" for name, rows in sorted(counts.items()))
    done = "records stay in the quarantine" if load.kind == "redrive" else "rows are moved to the quarantine"
    log.warning("load %d: %d %s: %s.", load.load_id, moved, done, described)


def _read_records(kafka: Kafka | None, load: Load, causes: Mapping[Place, Cause]) -> Iterator[SetAside]:
    if kafka is None:
        raise RuleCrashedError(
            f"{len(causes)} rows go to the quarantine, and no settings of Kafka are known to read their records.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.CORRECT_KAFKA_SETTINGS,
        )
    source = Source(dict(kafka), load.declaration.topic, load.declaration.isolation)
    try:
        for batch, index in read_places(source, list(causes)):
            place = batch.partition, int(batch.offsets[index])
            headers = describe_headers(batch.headers(index))
            yield _make_set_aside(place, causes[place], batch.keys[index], batch.values[index], headers)
    except LogLostError as error:
        error.next_step = advice.DISCARD_THEN_RUN
        raise


def _read_again(db: str, load: Load, causes: Mapping[Place, Cause]) -> Iterator[SetAside]:
    """Read the records of a redrive from the quarantine."""
    with open_ledger(db) as connection:
        after = (-1, -1)
        while records := read_records(connection, load.load_id, after, SET_ASIDE_AT_ONCE):
            connection.commit()
            after = records[-1].partition, records[-1].offset
            for record in records:
                place = record.partition, record.offset
                if place in causes:
                    yield _make_set_aside(place, causes[place], record.key, record.value, record.headers)


def _make_set_aside(place: Place, cause: Cause, key: bytes | None, value: bytes | None, headers: Headers) -> SetAside:
    first_partition, first_offset = cause.first or (None, None)
    return SetAside(
        *place, cause.reason, cause.detail, cause.rule, first_partition, first_offset, key, value, headers
    )  # fmt: skip
