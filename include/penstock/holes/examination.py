"""Names the holes of a pipeline, stretch by stretch.

Every stretch is found, looked up in the log and recorded for itself: whatever stops this in between, the rest is named
by the next run. No transaction is open while Kafka is asked.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.holes.kinds import KINDS, name_holes_by
from penstock.holes.search import cut_stretch, find_generation, find_holes
from penstock.kafka.admin import read_log
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger import hole
from penstock.ledger.connection import open_ledger
from penstock.ledger.hole import UnexplainedHole
from penstock.ledger.load import read_load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.holes.kinds import Kind, Naming
    from penstock.kafka.batches.reader import SecondReader
    from penstock.ledger.connection import Connection
    from penstock.ledger.hole import Stretch
    from penstock.model.log import TopicLog


@dataclass(frozen=True, slots=True)
class HoleRange:
    """Holes next to each other, of one load and kind; `why` says why nothing explains them."""

    load_id: int
    partition: int
    from_offset: int
    until_offset: int
    why: str = ""

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        told = f"load {self.load_id} partition {self.partition} offsets [{self.from_offset}, {self.until_offset})"
        return f"{told}: {self.why}" if self.why else told


@dataclass(frozen=True, slots=True)
class HolesNamed:
    """What was named now by kind; what is unexplained, found now or earlier; and stretches with holes gone by now."""

    pipeline: str
    counts: Mapping[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    unexplained: tuple[HoleRange, ...] = ()
    gone: tuple[HoleRange, ...] = ()
    # Holes at or beyond the log's end, which cannot be named: the log was cut.
    beyond: tuple[HoleRange, ...] = ()


def name_holes(uri: str, kafka_settings: Mapping[str, str], pipeline: Pipeline) -> HolesNamed:
    """Name every hole of the published ranges that is not named yet, and look again at what was unexplained.

    Unexplained holes are told, not raised. Holes of earlier topics stay as they are: nobody can ask their log any more.
    """
    with open_ledger(uri) as connection:
        with connection.transaction():
            generation = find_generation(connection, pipeline.name)
            if generation is None:
                return HolesNamed(pipeline.name)
            where = (generation.pipeline_id, generation.generation_id)
            unnamed, doubtful = hole.find_unnamed(connection, *where), hole.find_unexplained(connection, *where)
        log = read_log(kafka_settings, pipeline.topic, pipeline.isolation)
        refuse_other_identity(pipeline, generation.cluster_id, generation.topic_id, log)
        told = _Told()
        if unnamed or doubtful:
            _ask(connection, kafka_settings, pipeline, log, unnamed, doubtful, told)
        with connection.transaction():
            found = hole.read_unexplained(connection, HoleRange, pipeline.name, generation.generation_id)
            unexplained = tuple(found)
    return HolesNamed(pipeline.name, told.counts, unexplained, tuple(told.gone), tuple(told.beyond))


def count_holes(connection: Connection, pipeline: str) -> list[dict[str, Any]]:
    """How many holes of each kind the covered ranges have, in the topic that is loaded."""
    generation = find_generation(connection, pipeline)
    if generation is None:
        return []
    return hole.count_holes(connection, pipeline, generation.generation_id)


@dataclass(slots=True)
class _Told:
    """What has come of it so far."""

    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    gone: list[HoleRange] = field(default_factory=list)
    beyond: list[HoleRange] = field(default_factory=list)


def _ask(
    connection: Connection,
    kafka_settings: Mapping[str, str],
    pipeline: Pipeline,
    log: TopicLog,
    unnamed: list[Stretch],
    doubtful: list[Stretch],
    told: _Told,
) -> None:
    from penstock.kafka.batches.reader import SecondReader

    with SecondReader(kafka_settings) as reader:
        examination = _Examination(connection, reader, log, reader.is_compacted(pipeline.topic), told)
        for stretch in unnamed:
            examination.name(stretch)
        for stretch in doubtful:
            examination.name(stretch, again=True)


@dataclass(slots=True)
class _Examination:
    """One pass over stretches of one topic."""

    connection: Connection
    reader: SecondReader
    log: TopicLog
    compacted: bool | None
    told: _Told
    declarations: dict[int, Pipeline] = field(default_factory=dict)

    def name(self, stretch: Stretch, *, again: bool = False) -> None:
        """Name the holes of a stretch, window by window.

        What was unexplained and is gone from the log by now stays unexplained.
        """
        declaration = self._read_declaration(stretch.load_id)
        look = partial(self.reader.look, self.log, stretch.partition, isolation=declaration.isolation)
        for window in cut_stretch(stretch):
            with self.connection.transaction():
                holes = find_holes(self.connection, declaration.target, window)
            naming = name_holes_by(look, holes, compacted=self.compacted)
            until = window.until_offset if naming.unread is None else naming.unread
            if not (again and naming.counts["gone"]):
                self._record(replace(window, until_offset=until), naming)
            if until < window.until_offset:
                self.told.beyond.append(_tell(replace(stretch, from_offset=until)))
                return

    def _record(self, stretch: Stretch, naming: Naming) -> None:
        if stretch.from_offset == stretch.until_offset:
            return
        with self.connection.transaction():
            unexplained = [UnexplainedHole(*astuple(found)) for found in naming.unexplained]
            if not hole.record_naming(self.connection, stretch, naming.counts, unexplained):
                return
        for kind, holes in naming.counts.items():
            self.told.counts[kind] += holes
        if naming.counts["gone"]:
            self.told.gone.append(_tell(stretch))

    def _read_declaration(self, load_id: int) -> Pipeline:
        """How the load was made: its target and its isolation are not those of the pipeline's file today."""
        if load_id not in self.declarations:
            with self.connection.transaction():
                self.declarations[load_id] = read_load(self.connection, load_id).declaration
        return self.declarations[load_id]


def _tell(stretch: Stretch) -> HoleRange:
    return HoleRange(stretch.load_id, stretch.partition, stretch.from_offset, stretch.until_offset)
