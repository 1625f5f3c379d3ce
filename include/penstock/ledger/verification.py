"""Verifications in the ledger: what is compared, what is read again, and the faults, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, TypeVar

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from decimal import Decimal

    from penstock.ledger.connection import Connection
    from penstock.ledger.statements import Pieces
    from penstock.model.log import Isolation

T = TypeVar("T")

_statements = Statements("ledger/verification")


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of a generation; the ranges are pairs of offsets."""

    generation: int
    partition: int
    origin: int
    position: int
    covered: list[tuple[int, int]]
    lost: list[tuple[int, int]]
    gaps: list[tuple[int, int]]
    counted: int


@dataclass(frozen=True, slots=True, order=True)
class CountedLeaf:
    """A leaf of the target: the loads in it that may have rows, and when all of them were last counted."""

    from_load: int
    until_load: int
    loads: int
    rows: int
    counted_at: datetime | None = field(compare=False)


# All loads, also of leaves that no load names.
ALL_LOADS = (CountedLeaf(0, 2**63 - 1, 0, 0, None),)


@dataclass(frozen=True, slots=True)
class OddLoad:
    """A load that contradicts the ranges it covers."""

    load_id: int
    generation_id: int
    message: str


@dataclass(frozen=True, slots=True)
class CoveringLoad:
    """A load that covers a range, its declaration as JSON text, and the leaf that holds its rows."""

    load_id: int
    generation_id: int
    declaration: str
    leaf: str | None


@dataclass(frozen=True, slots=True)
class OrphanedRows:
    """Rows of a load that covers nothing."""

    load_id: int
    partition: int
    rows: int
    from_offset: int
    until_offset: int

    @property
    def range(self) -> Range:
        """From the first to the last of the rows."""
        return Range(self.partition, self.from_offset, self.until_offset)


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A chunk as it was read when it was loaded. `log_hash` is None if no fingerprint was taken then."""

    load_id: int
    attempt: int
    task: int
    partition: int
    from_offset: int
    until_offset: int
    records: int
    log_hash: int | None
    reader: str
    isolation: Isolation

    @property
    def range(self) -> Range:
        """The offsets."""
        return Range(self.partition, self.from_offset, self.until_offset)


@dataclass(frozen=True, slots=True)
class RequestedChunk(StagedChunk):
    """A chunk to read again; `covered` is None if its rows are not compared."""

    topic: str
    covered: list[tuple[int, int]] | None
    refused: list[int] | None


@dataclass(frozen=True, slots=True)
class RequestedDeclaration:
    """A declaration as JSON text, with its loads."""

    declaration: str
    loads: list[int]


@dataclass(frozen=True, slots=True)
class RereadChunk:
    """The sums of a chunk that was read again."""

    load_id: int
    task: int
    records: int
    log_hash: int
    rows: int
    row_hash: int


@dataclass(frozen=True, slots=True)
class CoveredSum:
    """The rows of the target in a chunk, and the sum of their hashes."""

    load_id: int
    task: int
    rows: int
    row_hash: Decimal


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A fault as the ledger stores it."""

    kind: str
    generation_id: int | None
    load_id: int | None
    partition: int | None
    from_offset: int | None
    until_offset: int | None
    told: str


@dataclass(frozen=True, slots=True)
class QuarantinedOffset:
    """A quarantined offset, and whether PostgreSQL refused its row."""

    offset: int
    refused: bool


def read_partitions(connection: Connection, pipeline: str) -> list[PartitionRow]:
    """Read the partitions whose offsets are not simply all covered, with the ranges that are covered, lost or a gap."""
    return _statements.fetch_all(connection, PartitionRow, "read_partitions", pipeline=pipeline)


def find_leaves(connection: Connection, pipeline: str) -> list[CountedLeaf]:
    """Find the leaves of a pipeline, and when the loads in them were counted."""
    return _statements.fetch_all(connection, CountedLeaf, "find_leaves", pipeline=pipeline)


def mark_counted(connection: Connection, verification_id: int, load_ids: Sequence[int]) -> None:
    """Record that a verification found all rows of loads as published."""
    _statements.execute(connection, "mark_counted", verification_id=verification_id, loads=list(load_ids))


def count_again(connection: Connection, pipeline: str, loads: Sequence[tuple[int, int]]) -> None:
    """Let the next verification count loads of a pipeline, from one load up to, and without, another."""
    ranges = [f"[{first},{until})" for first, until in loads]
    _statements.execute(connection, "count_again", pipeline=pipeline, loads=ranges)


def find_odd_loads(connection: Connection, pipeline: str, leaves: Sequence[CountedLeaf]) -> list[OddLoad]:
    """Find loads of some leaves that contradict the ranges they cover."""
    return _statements.fetch_all(connection, OddLoad, "find_odd_loads", pipeline=pipeline, loads=_write_loads(leaves))


def find_covering_loads(connection: Connection, pipeline: str, leaves: Sequence[CountedLeaf]) -> list[CoveringLoad]:
    """Find the loads of some leaves that cover a range of a pipeline."""
    where = {"pipeline": pipeline, "loads": _write_loads(leaves)}
    return _statements.fetch_all(connection, CoveringLoad, "find_covering_loads", **where)


def find_declarations(connection: Connection, pipeline: str) -> list[str]:
    """Find the different declarations of the loads that cover a range, as JSON text."""
    return _statements.fetch_values(connection, str, "find_declarations", pipeline=pipeline)


def _write_loads(leaves: Sequence[CountedLeaf]) -> str:
    return "{" + ",".join(f"[{leaf.from_load},{leaf.until_load})" for leaf in leaves) + "}"


def count_rows(connection: Connection, make: Callable[..., T], load_ids: Sequence[int], pieces: Pieces) -> list[T]:
    """Count the rows of loads that are hashed alike, by the ranges they cover.

    The ledger's counts are `expected`, the tables' are `found`.
    """
    where = {"loads": list(load_ids), "first": min(load_ids), "last": max(load_ids)}
    return _statements.fetch_all(connection, make, "count_rows", pieces, **where)


def find_orphans(connection: Connection, pipeline: str, leaf: CountedLeaf, pieces: Pieces) -> list[OrphanedRows]:
    """Find rows of loads of a leaf that cover nothing of a pipeline."""
    where = {"pipeline": pipeline, "first": leaf.from_load, "until": leaf.until_load}
    return _statements.fetch_all(connection, OrphanedRows, "find_orphans", pieces, **where)


def begin_verification(connection: Connection, pipeline: str, actor: str | None, share: float) -> int:
    """Begin a verification."""
    where = {"pipeline": pipeline, "actor": actor, "share": share}
    return _statements.fetch_value(connection, int, "begin_verification", **where)


def end_verification(
    connection: Connection,
    verification_id: int,
    counts: Mapping[str, int],
    faults: Sequence[FaultRow],
    share: float | None = None,
) -> None:
    """End a verification with its counts and its faults; `share` is the share of the chunks with chosen offsets."""
    where = {"verification_id": verification_id}
    rows = [{**asdict(fault), "ordinal": ordinal} for ordinal, fault in enumerate(faults)]
    _statements.execute(connection, "end_verification", **where, **counts, share=share)
    _statements.execute(connection, "record_faults", **where, faults=Jsonb(rows))


def find_chunks_of_attempt(connection: Connection, load_id: int, attempt: int) -> list[StagedChunk]:
    """Find the chunks of an attempt."""
    return _statements.fetch_all(connection, StagedChunk, "find_chunks_of_attempt", load_id=load_id, attempt=attempt)


def find_chunks(connection: Connection, pipeline: str, starts: Mapping[int, int]) -> list[StagedChunk]:
    """Find the chunks of the generation that is loaded now, of loads that still cover some of their offsets.

    Chunks that end before the start of their partition's log are left out.
    """
    where = {"pipeline": pipeline, "partitions": list(starts), "starts": list(starts.values())}
    return _statements.fetch_all(connection, StagedChunk, "find_chunks", **where)


def count_chunks(connection: Connection, pipeline: str) -> int:
    """Count these chunks, also those that the log no longer holds."""
    return _statements.fetch_value(connection, int, "count_chunks", pipeline=pipeline)


def request_chunks(
    connection: Connection, verification_id: int, chunks: Sequence[tuple[int, int, int]], *, compare: bool
) -> None:
    """Request chunks (load, attempt, task) to be read again, and their rows to be compared or not."""
    loads, attempts, tasks = ([chunk[place] for chunk in chunks] for place in range(3))
    _statements.execute(
        connection,
        "request_chunks",
        verification_id=verification_id,
        loads=loads,
        attempts=attempts,
        tasks=tasks,
        compare=compare,
    )


def find_requested_chunks(connection: Connection, verification_id: int) -> list[RequestedChunk]:
    """Find the chunks that a verification wants to read again."""
    where = {"verification_id": verification_id}
    return _statements.fetch_all(connection, RequestedChunk, "find_requested_chunks", **where)


def find_requested_declarations(connection: Connection, verification_id: int) -> list[RequestedDeclaration]:
    """Find the declarations of the chunks whose rows are compared."""
    where = {"verification_id": verification_id}
    return _statements.fetch_all(connection, RequestedDeclaration, "find_requested_declarations", **where)


def record_reread(connection: Connection, verification_id: int, chunks: Sequence[RereadChunk]) -> None:
    """Record what another reader found in chunks."""
    rows = Jsonb([asdict(chunk) for chunk in chunks])
    _statements.execute(connection, "record_reread", verification_id=verification_id, chunks=rows)


def take_reread(connection: Connection, verification_id: int) -> list[RereadChunk]:
    """Read what was found in the requested chunks, and delete the requests."""
    found = _statements.fetch_all(connection, _make_reread, "read_reread", verification_id=verification_id)
    _statements.execute(connection, "forget_reread", verification_id=verification_id)
    return found


def sum_covered(
    connection: Connection, verification_id: int, load_ids: Sequence[int], pieces: Pieces
) -> list[CoveredSum]:
    """Sum the target's rows of the chunks whose rows are compared, for loads whose rows are hashed alike."""
    where = {"verification_id": verification_id, "loads": list(load_ids)}
    return _statements.fetch_all(connection, CoveredSum, "sum_covered", pieces, **where)


def read_quarantined_offsets(connection: Connection, load_id: int, range_: Range) -> list[QuarantinedOffset]:
    """Read the offsets of a range that a load quarantined."""
    where = {"load_id": load_id, **asdict(range_)}
    return _statements.fetch_all(connection, QuarantinedOffset, "read_quarantined_offsets", **where)


def compose_rebuild(pieces: Pieces) -> tuple[str, str, str]:
    """The statements create_rebuilt, hash_rebuilt and compare_rebuilt as text: executors run them without psycopg."""
    names = ("create_rebuilt", "hash_rebuilt", "compare_rebuilt")
    create, hash_, compare = (_statements.compose_text(name, pieces) for name in names)
    return create, hash_, compare


def _make_reread(load_id: int, task: int, records: int, log_hash: int, rows: int, row_hash: Decimal) -> RereadChunk:
    return RereadChunk(load_id, task, records, log_hash, rows, int(row_hash))
