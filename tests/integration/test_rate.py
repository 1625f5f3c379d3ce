"""The declared rate holds for every reader, and for all tasks together."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock import waiting
from penstock.kafka.readers.native import open_group
from penstock.load import stage as staging
from penstock.load.task import stage_group
from penstock.model.ranges import cut_chunks
from penstock.target.assignment import make_assignment
from producing import Account
from staging_loads import begin

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from fix_loaders import Start
    from penstock_stack.broker import Broker


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_load_is_never_read_faster_than_its_rate(start: Start, reader: str) -> None:
    account, loader = start(2, rate=400, reader=reader)
    account.send_orders(800, partition=0)
    account.send_orders(800, partition=1)
    load = loader.plan()
    assert load is not None
    began = time.monotonic()
    loader.stage(load.load_id)
    assert time.monotonic() - began >= 4
    assert loader.publish(load.load_id).rows == 1600


def test_a_task_pauses_for_the_records_that_it_reads(
    db: str, kafka: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(2000)
    begun = begin(db, kafka.bootstrap, account.topic)
    [chunk] = cut_chunks(list(begun.load().ranges), 2000)
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    paced = replace(make_assignment(begun.settings, begun.load(), begun.attempt), records_per_second=100.0)
    stage_group(paced, [chunk], open_group(paced.source, [chunk]))
    assert clock.now == pytest.approx(21)


def test_tasks_that_run_at_once_share_the_rate(
    db: str, kafka: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(kafka.bootstrap, make_topic(4))
    for partition in range(4):
        account.send_orders(10, partition=partition)
    begun = begin(db, kafka.bootstrap, account.topic, rate=120)
    load = begun.load()
    given: list[float | None] = []

    class Reader:
        """A reader that records the rate of a task."""

        def stage_groups(self, _spark: Any, _source: Any, _groups: Any, stage: Any) -> list[tuple[int, bool]]:
            given.append(stage.args[0].records_per_second)
            return []

    monkeypatch.setattr(staging, "find_reader", lambda _: Reader())
    monkeypatch.setattr(staging, "LEAST_GROUP", 10)
    monkeypatch.setattr(staging, "MOST_GROUP", 10)
    assignment = make_assignment(begun.settings, load, begun.attempt)
    for cores in (1, 3, 100):
        spark: Any = SimpleNamespace(count_cores=partial(int, cores))
        staging.stage_chunks(begun.settings, spark, load, assignment, cut_chunks(list(load.ranges), 10))
    assert given == [120, 40, 30]  # four groups never run on more than four cores
