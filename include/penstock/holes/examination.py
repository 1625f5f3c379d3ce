"""Naming the holes of a pipeline, stretch by stretch.

Each stretch is found, compared with the log and recorded separately, so that the next run continues after a crash. No
transaction is open during a request to Kafka.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.holes.kinds import KINDS, Hole, find_kinds
from penstock.kafka.admin import read_log
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger import hole
from penstock.ledger.connection import open_ledger
from penstock.ledger.generation import read_newest_generation_of
from penstock.ledger.hole import UnexplainedHole
from penstock.ledger.load import read_load
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.holes.kinds import Kind, Naming
    from penstock.kafka.batches.reader import SecondReader
    from penstock.ledger.connection import Connection
    from penstock.ledger.hole import Stretch
    from penstock.model.log import TopicLog

# The offsets of one window are examined and recorded together. At most half as many holes are in memory.
WINDOW = 250_000
# A rollback or a replay waits while the names of these loads are counted: 50,000 ranges of 1,000 partitions.
LOADS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class HoleRange:
    """Neighbouring holes of one load and kind; `why` is the reason if they are unexplained."""

    load_id: int
    partition: int
    from_offset: int
    until_offset: int
    why: str = ""

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        place = f"load {self.load_id} partition {self.partition} offsets [{self.from_offset}, {self.until_offset})"
        return f"{place}: {self.why}" if self.why else place


@dataclass(frozen=True, slots=True)
class HolesNamed:
    """The holes that this run named, by kind, and all unexplained holes, from earlier runs too."""

    pipeline: str
    counts: Mapping[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    unexplained: tuple[HoleRange, ...] = ()
    # Stretches with holes that the log has deleted by now.
    gone: tuple[HoleRange, ...] = ()
    # Holes at or beyond the log's end. They cannot be named, because the log was truncated.
    beyond: tuple[HoleRange, ...] = ()


def name_holes(
    uri: str, kafka_settings: Mapping[str, str], pipeline: Pipeline, again: list[int] | None = None
) -> HolesNamed:
    """Name the holes of the published ranges that are not named yet, and examine the unexplained ones again.

    A load whose holes were all found named by an earlier run is passed over unless it is one of `again`: None for all.
    Unexplained holes are returned, not raised. Holes of earlier generations are left as they are.
    """
    with open_ledger(uri) as connection:
        with connection.transaction():
            generation = read_newest_generation_of(connection, pipeline.name)
            if generation is None:
                return HolesNamed(pipeline.name)
            where = (generation.pipeline_id, generation.generation_id)
            loads = hole.find_loads_to_name(connection, *where, again)
        unknown = set(loads)
        for first in range(0, len(loads), LOADS_AT_ONCE):
            with connection.transaction():
                unknown -= set(hole.remember_named(connection, loads[first : first + LOADS_AT_ONCE]))
        with connection.transaction():
            unnamed = hole.find_unnamed(connection, sorted(unknown))
            unexplained = hole.find_unexplained(connection, *where)
        log = read_log(kafka_settings, pipeline.topic, pipeline.isolation)
        refuse_other_identity(pipeline, generation.cluster_id, generation.topic_id, log)
        tally = _Tally()
        if unnamed or unexplained:
            _examine(connection, kafka_settings, pipeline, log, unnamed, unexplained, tally)
        with connection.transaction():
            found = hole.read_unexplained(connection, HoleRange, pipeline.name, generation.generation_id)
    return HolesNamed(pipeline.name, tally.counts, tuple(found), tuple(tally.gone), tuple(tally.beyond))


def count_holes(connection: Connection, pipeline: str) -> list[dict[str, Any]]:
    """Count the holes of the covered ranges by kind, in the generation that is loaded now."""
    generation = read_newest_generation_of(connection, pipeline)
    if generation is None:
        return []
    return hole.count_holes(connection, pipeline, generation.generation_id)


@dataclass(slots=True)
class _Tally:
    """The results of a run so far."""

    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    gone: list[HoleRange] = field(default_factory=list)
    beyond: list[HoleRange] = field(default_factory=list)


def _examine(
    connection: Connection,
    kafka_settings: Mapping[str, str],
    pipeline: Pipeline,
    log: TopicLog,
    unnamed: list[Stretch],
    unexplained: list[Stretch],
    tally: _Tally,
) -> None:
    from penstock.kafka.batches.reader import SecondReader

    with SecondReader(kafka_settings) as reader:
        examination = _Examination(connection, reader, log, reader.is_compacted(pipeline.topic), tally)
        for stretch in unnamed:
            examination.name(stretch)
        for stretch in unexplained:
            examination.name(stretch, again=True)


@dataclass(slots=True)
class _Examination:
    """One pass over stretches of one topic."""

    connection: Connection
    reader: SecondReader
    log: TopicLog
    compacted: bool | None
    tally: _Tally
    declarations: dict[int, Pipeline] = field(default_factory=dict)

    def name(self, stretch: Stretch, *, again: bool = False) -> None:
        """Name the holes of a stretch, window by window.

        Unexplained holes stay unexplained if the log has deleted their offsets by now.
        """
        declaration = self._read_declaration(stretch.load_id)
        read_spans = partial(self.reader.read_spans, self.log, stretch.partition, isolation=declaration.isolation)
        for window in _split(stretch):
            with self.connection.transaction():
                target = target_identifier(declaration.target)
                holes = hole.find_holes(self.connection, Hole, target, window)
            naming = find_kinds(read_spans, holes, compacted=self.compacted)
            until = window.until_offset if naming.unread is None else naming.unread
            if not (again and naming.counts["gone"]):
                self._record(replace(window, until_offset=until), naming)
            if until < window.until_offset:
                self.tally.beyond.append(_to_range(replace(stretch, from_offset=until)))
                return

    def _record(self, stretch: Stretch, naming: Naming) -> None:
        if stretch.from_offset == stretch.until_offset:
            return
        with self.connection.transaction():
            unexplained = [UnexplainedHole(*astuple(found)) for found in naming.unexplained]
            if not hole.record_naming(self.connection, stretch, naming.counts, unexplained):
                return
        for kind, holes in naming.counts.items():
            self.tally.counts[kind] += holes
        if naming.counts["gone"]:
            self.tally.gone.append(_to_range(stretch))

    def _read_declaration(self, load_id: int) -> Pipeline:
        """Read the load's own declaration: target and isolation may differ from those of the pipeline's file today."""
        if load_id not in self.declarations:
            with self.connection.transaction():
                self.declarations[load_id] = read_load(self.connection, load_id).declaration
        return self.declarations[load_id]


def _split(stretch: Stretch) -> Iterator[Stretch]:
    """Split a stretch into windows."""
    for start in range(stretch.from_offset, stretch.until_offset, WINDOW):
        yield replace(stretch, from_offset=start, until_offset=min(start + WINDOW, stretch.until_offset))


def _to_range(stretch: Stretch) -> HoleRange:
    return HoleRange(stretch.load_id, stretch.partition, stretch.from_offset, stretch.until_offset)
