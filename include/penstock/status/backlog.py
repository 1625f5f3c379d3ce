"""One look at the waiting records of many pipelines of one cluster: which of them should load now.

A look compares the ends of the logs with the positions. It reads no record and joins no consumer group. It decides
nothing about offsets: the plan of the load does.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from penstock.kafka.ends import Ends
from penstock.ledger.backlog import read_backlogs
from penstock.ledger.connection import open_ledger
from penstock.model.backlog import Backlog, Start, Started, Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from penstock.ledger.backlog import KnownPositions

K = TypeVar("K")


class BacklogLook:
    """Looks again and again at one cluster, and remembers which starts it has reported."""

    def __init__(self) -> None:
        self._settings: Mapping[str, str] = {}
        self._ends: Ends | None = None
        self._started: dict[str, Started] = {}

    def find_starts(
        self, db: str, kafka: Mapping[str, str], watched: Collection[Watched], now: datetime
    ) -> dict[str, Start]:
        """Find the pipelines that should load now. An error means that Kafka or the ledger did not answer."""
        watched = [each for each in watched if each.may_start(now)]
        with closing(open_ledger(db)) as connection:
            known = {each.pipeline: each for each in read_backlogs(connection, [each.pipeline for each in watched])}
        ready = [each for each in watched if not known[each.pipeline].is_busy]
        if not ready:
            return {}
        backlogs = self._measure(self._connect(kafka), ready, known)
        waiting = [each for each in ready if self._is_new(each.pipeline, backlogs[each.pipeline], now)]
        starts = self._find_many(waiting, backlogs) | self._find_old(waiting, backlogs, now)
        for pipeline in starts:
            self._started[pipeline] = Started(now, backlogs[pipeline].positions)
        return starts

    def _measure(
        self, ends: Ends, ready: Collection[Watched], known: Mapping[str, KnownPositions]
    ) -> dict[str, Backlog]:
        partitions = ends.list_partitions(each.topic for each in ready)
        backlogs = {}
        for isolation, pipelines in _group(ready, lambda each: each.isolation).items():
            topics = {each.topic for each in pipelines}
            found = ends.read_ends([place for place in partitions if place[0] in topics], isolation)
            for each in pipelines:
                backlogs[each.pipeline] = Backlog(known[each.pipeline].positions, _of_topic(found, each.topic))
        return backlogs

    def _is_new(self, pipeline: str, backlog: Backlog, now: datetime) -> bool:
        started = self._started.get(pipeline)
        return backlog.waiting > 0 and not (started is not None and started.stays(backlog.positions, now))

    def _find_many(self, waiting: Collection[Watched], backlogs: Mapping[str, Backlog]) -> dict[str, Start]:
        return {
            each.pipeline: Start(each.pipeline, "min_records", backlogs[each.pipeline].waiting)
            for each in waiting
            if each.min_records is not None and backlogs[each.pipeline].waiting >= each.min_records
        }

    def _find_old(
        self, waiting: Collection[Watched], backlogs: Mapping[str, Backlog], now: datetime
    ) -> dict[str, Start]:
        """Find the pipelines whose oldest record waits too long, with one request for each limit that they declare."""
        starts = {}
        for (isolation, max_wait), pipelines in _group(waiting, lambda each: (each.isolation, each.max_wait)).items():
            if max_wait is None or self._ends is None:
                continue
            places = {(each.topic, number) for each in pipelines for number in backlogs[each.pipeline].list_waiting()}
            since = self._ends.find_first_since(places, now - max_wait, isolation)
            for each in pipelines:
                if backlogs[each.pipeline].has_older(_of_topic(since, each.topic)):
                    starts[each.pipeline] = Start(each.pipeline, "max_wait", backlogs[each.pipeline].waiting)
        return starts

    def _connect(self, kafka: Mapping[str, str]) -> Ends:
        if self._ends is None or kafka != self._settings:
            self._ends, self._settings = Ends(kafka), kafka
        return self._ends


def _group(watched: Collection[Watched], key: Callable[[Watched], K]) -> dict[K, list[Watched]]:
    groups: dict[K, list[Watched]] = {}
    for each in watched:
        groups.setdefault(key(each), []).append(each)
    return groups


def _of_topic(offsets: Mapping[tuple[str, int], int], topic: str) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in offsets.items() if name == topic}
