"""The facts that a Spark task needs. They reach the executors inside the closure of the task, and on no other way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.kafka.readers.contract import Source
from penstock.records.decoder import layout_of
from penstock.records.rust import can_encode
from penstock.target.postgres.attempt import attempt_table_name

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load
    from penstock.records.decoder import Layout
    from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt at staging one load. The URI may contain a password, so the repr leaves it out."""

    db: str = field(repr=False)
    source: Source
    pipeline: str
    load_id: int
    attempt: int
    table: str
    layout: Layout
    stop_at_rejection: bool
    max_quarantined: int | None
    timeout_seconds: int
    # The most records per second of one task; the driver divides the declared rate by the tasks that run at once.
    records_per_second: float | None = None


def find_obstacle(declared: Pipeline) -> str | None:
    """Find the key of a declaration whose records take the path in Python; None if they can take the path in Rust."""
    if declared.reader != "native":
        return f"reader: {declared.reader}"
    return None if can_encode(declared.value) else f"value: {declared.value}"


def make_assignment(settings: Settings, load: Load, attempt: int) -> Assignment:
    """Make the assignment of an attempt, from the declaration that the load was planned with."""
    declared = load.declaration
    rust = settings.rust and find_obstacle(declared) is None
    return Assignment(
        db=settings.db,
        source=Source(dict(settings.kafka), declared.topic, declared.isolation, rust),
        pipeline=load.pipeline,
        load_id=load.load_id,
        attempt=attempt,
        table=attempt_table_name(load.load_id, attempt),
        layout=layout_of(declared),
        stop_at_rejection=declared.poison == "stop",
        max_quarantined=declared.max_quarantined,
        timeout_seconds=declared.timeout_minutes * 60,
    )
