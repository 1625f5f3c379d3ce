"""The trigger of waiting records: what it stores, what it shares, and that an error of a look ends no trigger."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.airflow import waiting_records
from penstock.airflow.waiting_records import WaitingRecordsTrigger
from penstock.errors import KafkaError
from penstock.model.backlog import Start, Watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from penstock.status.backlog import BacklogLook

ORDERS = WaitingRecordsTrigger("orders", "east", "topic", "read_committed", 10, 60, "22:00-06:00")
CLICKS = WaitingRecordsTrigger("clicks", "east", "topic", "read_committed", 10, None)


def test_a_stored_trigger_is_made_again_with_the_same_arguments() -> None:
    path, arguments = ORDERS.serialize()
    assert path == "penstock.airflow.waiting_records.WaitingRecordsTrigger"
    again = WaitingRecordsTrigger(**arguments)
    assert again.serialize() == (path, arguments)
    assert again.watched == ORDERS.watched


def test_pipelines_of_one_connection_share_a_look() -> None:
    elsewhere = WaitingRecordsTrigger("orders", "west", "topic", "read_committed", 10, None)
    assert ORDERS.shared_stream_key() == CLICKS.shared_stream_key() != elsewhere.shared_stream_key()


def test_each_trigger_fires_for_its_own_pipeline_and_is_watched_meanwhile() -> None:
    async def looks() -> AsyncIterator[dict[str, Start]]:
        for starts in ({"orders": Start("orders", "max_wait", 5)}, {"clicks": Start("clicks", "min_records", 9)}, {}):
            assert set(waiting_records._watched["east"]) == {"orders"}
            yield starts

    async def collect() -> list[Any]:
        return [event.payload async for event in ORDERS.filter_shared_stream(looks())]

    assert asyncio.run(collect()) == [{"pipeline": "orders", "why": "max_wait", "waiting": 5}]
    assert waiting_records._watched["east"] == {}


@pytest.mark.parametrize("error", [KafkaError("Kafka did not answer."), RuntimeError("unexpected")])
def test_a_look_that_fails_finds_nothing_and_the_next_look_follows(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: Iterator[Exception | dict[str, Start]] = iter([error, {"orders": Start("orders", "max_wait", 5)}])

    def look_now(_: BacklogLook, connection: str, watched: list[Watched]) -> dict[str, Start]:
        assert (connection, watched) == ("east", [ORDERS.watched])
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def look_twice() -> list[dict[str, Start]]:
        stream = WaitingRecordsTrigger.open_shared_stream({"kafka": "east"})
        found = [await anext(stream), await anext(stream)]
        await stream.aclose()  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(waiting_records, "_look_now", look_now)
    monkeypatch.setattr(waiting_records, "EVERY", timedelta(0))
    monkeypatch.setitem(waiting_records._watched, "east", {"orders": ORDERS.watched})
    assert asyncio.run(look_twice()) == [{}, {"orders": Start("orders", "max_wait", 5)}]
