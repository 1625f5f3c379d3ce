"""The trigger that starts a pipeline's DAG when enough records wait, or when a record waits too long.

It runs in Airflow's triggerer. All pipelines of one Kafka connection share one look at the cluster.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from penstock.declaration.starts import parse_hours
from penstock.errors import PenstockError
from penstock.model.backlog import Watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.backlog import Start
    from penstock.status.backlog import BacklogLook

log = logging.getLogger(__name__)
EVERY = timedelta(seconds=10)
# The pipelines whose triggers run in this process, by Kafka connection. The shared look reads them at each turn.
_watched: dict[str, dict[str, Watched]] = {}


def waiting_asset_of(pipeline: Pipeline) -> Asset | None:
    """The asset that wakes a pipeline's DAG; None if only the schedule does."""
    when = pipeline.load_when
    if when is None:
        return None
    trigger = WaitingRecordsTrigger(
        pipeline.name,
        pipeline.kafka,
        pipeline.topic,
        pipeline.isolation,
        when.min_records,
        int(when.longest_wait.total_seconds()) if when.longest_wait else None,
        pipeline.window,
    )
    watcher = AssetWatcher(name=f"{pipeline.name}_waiting", trigger=trigger)
    return Asset(f"penstock://{pipeline.name}/waiting", watchers=[watcher])


class WaitingRecordsTrigger(BaseEventTrigger):  # type: ignore[misc]
    """Starts one pipeline. Its arguments are stored in Airflow's database, and hold no secret."""

    def __init__(
        self,
        pipeline: str,
        kafka: str,
        topic: str,
        isolation: str,
        min_records: int | None,
        max_wait: int | None,
        window: str | None = None,
    ) -> None:
        super().__init__()
        self.arguments = {
            "pipeline": pipeline,
            "kafka": kafka,
            "topic": topic,
            "isolation": isolation,
            "min_records": min_records,
            "max_wait": max_wait,
            "window": window,
        }
        wait = None if max_wait is None else timedelta(seconds=max_wait)
        self.kafka = kafka
        hours = None if window is None else parse_hours(window)
        self.watched = Watched(pipeline, topic, isolation, min_records, wait, hours)  # type: ignore[arg-type]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and its arguments."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments

    def shared_stream_key(self) -> Hashable:
        """Triggers of one Kafka connection share one look."""
        return ("penstock", self.kafka)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look alone. Airflow calls this only if it does not share streams."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.arguments)):
            yield event

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[dict[str, Start]]:
        """Look every few seconds; each look gives the pipelines that should load now."""
        from penstock.status.backlog import BacklogLook

        look = BacklogLook()
        while True:
            yield await _look(look, kwargs["kafka"])
            await asyncio.sleep(EVERY.total_seconds())

    async def filter_shared_stream(self, shared_stream: AsyncIterator[dict[str, Start]]) -> AsyncIterator[TriggerEvent]:
        """Be watched while this runs, and fire when a look names the pipeline."""
        name = self.watched.pipeline
        pipelines = _watched.setdefault(self.kafka, {})
        pipelines[name] = self.watched
        try:
            async for starts in shared_stream:
                if name in starts:
                    yield TriggerEvent(asdict(starts[name]))
        finally:
            # A newer trigger of the pipeline may have replaced this one.
            if pipelines.get(name) is self.watched:
                del pipelines[name]


async def _look(look: BacklogLook, connection_id: str) -> dict[str, Start]:
    """Look once in a thread, because the clients block. An error is logged: the next look or the schedule follows."""
    watched = list(_watched.get(connection_id, {}).values())
    try:
        return await asyncio.to_thread(_look_now, look, connection_id, watched) if watched else {}
    except PenstockError as error:
        log.warning("%s: no look at the waiting records: %s", connection_id, error)
    except Exception as error:
        log.warning("%s: no look at the waiting records: %s", connection_id, type(error).__name__)
    return {}


def _look_now(look: BacklogLook, connection_id: str, watched: list[Watched]) -> dict[str, Start]:
    from penstock.airflow.connections import read_db, read_kafka
    from penstock.ledger.connection import concerning

    with concerning():
        return look.find_starts(read_db(), read_kafka(connection_id), watched, datetime.now(UTC))
