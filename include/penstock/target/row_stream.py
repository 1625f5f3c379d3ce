"""The stream of decoded rows from a group of chunks to the attempt's table, and the records that are quarantined."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from penstock import advice
from penstock.errors import RejectedRecordError, StageError
from penstock.model.ranges import Range
from penstock.records.quarantine import estimate_bytes
from penstock.records.rejection import Rejection, reject_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.kafka.readers.contract import CheckedChunk
    from penstock.records.decoder import Decoded
    from penstock.records.rejection import RejectedRecord
    from penstock.target.assignment import Assignment

# The stream of a COPY ends when this many bytes of quarantined records wait, because nothing else can be written to
# PostgreSQL in the middle of a COPY.
MAX_WAITING_BYTES = 8 * 1024 * 1024
# If the table refuses more rows of a task than this, and more than it accepts, then it does not match the declaration.
MAX_REFUSED = 1_000


class Part(Protocol):
    """A batch of a chunk: the number of its rows, and its rejected records."""

    @property
    def count(self) -> int: ...
    @property
    def rejected(self) -> list[RejectedRecord]: ...


P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True)
class WrittenChunk:
    """The counts of a staged chunk; `won` is false if another try of the same task had written it before."""

    task: int
    rows: int
    quarantined: int
    holes: int
    won: bool
    first_hole: int | None = None  # unknown for a chunk that another try has written
    log_hash: int | None = field(default=None, compare=False)  # known for such a chunk only


class RowStream(Generic[P]):
    """The rows of a group of chunks. Rejected records wait until the current COPY has ended."""

    def __init__(self, assignment: Assignment, decoded: Iterator[tuple[int, P]]) -> None:
        self.assignment = assignment
        self.decoded = decoded
        self.ended = False
        self.error: BaseException | None = None
        self.rows: Counter[int] = Counter()
        self.quarantined: Counter[int] = Counter()
        # By PostgreSQL, when rows are copied in pieces.
        self.refused = self.accepted = 0
        self._waiting: list[RejectedRecord] = []
        self._waiting_bytes = 0

    def batches(self: RowStream[Decoded]) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows until `parts` ends. An error is kept in `error`, because Arrow would lose it."""
        try:
            for _, part in self.parts():
                yield part.rows
        except BaseException as error:
            self.error = error
            raise

    def parts(self) -> Iterator[tuple[int, P]]:
        """Yield batches with rows, each with its task, until the group ends or many quarantined records wait."""
        for task, part in self.decoded:
            self._keep(task, part.rejected)
            self.rows[task] += part.count
            if part.count:
                yield task, part
            if self._waiting_bytes > MAX_WAITING_BYTES:
                return
        self.ended = True

    def refuse(self, task: int, part: Decoded, place: int, message: str) -> None:
        """Quarantine the record of a row that PostgreSQL has refused."""
        offset = part.rows["_offset"][place].as_py()
        index = int(np.searchsorted(part.batch.offsets, offset))
        self.rows[task] -= 1
        self.refused += 1
        self._keep(task, [reject_record(part.batch, index, Rejection("refused_by_database", message))])
        if self.refused > max(MAX_REFUSED, self.accepted):
            raise StageError(
                f"PostgreSQL refused {self.refused} rows of a task, and accepted {self.accepted}: {message}.",
                pipeline=self.assignment.pipeline,
                load=self.assignment.load_id,
                next_step=advice.COMPARE_TARGET,
            )

    def accept(self, rows: int) -> None:
        """Count rows that PostgreSQL has accepted."""
        self.accepted += rows

    def describe_chunk(self, task: int, checked: CheckedChunk) -> WrittenChunk:
        """Give the counts of a chunk that has been written."""
        rows, quarantined = self.rows[task], self.quarantined[task]
        return WrittenChunk(task, rows, quarantined, checked.holes, won=True, first_hole=checked.first_hole)

    def take_quarantine(self) -> list[RejectedRecord]:
        """Give the rejected records that wait, and forget them."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _keep(self, task: int, rejected: list[RejectedRecord]) -> None:
        if not rejected:
            return
        if self.assignment.stop_at_rejection:
            raise self._make_rejection_error(rejected[0], "the pipeline says `poison: stop`")
        self.quarantined[task] += len(rejected)
        limit = self.assignment.max_quarantined
        if limit is not None and self.quarantined.total() > limit:
            raise self._make_rejection_error(rejected[-1], f"more than `max_quarantined: {limit}` records")
        self._waiting += rejected
        self._waiting_bytes += sum(map(estimate_bytes, rejected))

    def _make_rejection_error(self, record: RejectedRecord, why: str) -> RejectedRecordError:
        return RejectedRecordError(
            f"{why}, and the record at offset {record.offset} cannot become a row: {record.reason}: {record.detail}.",
            pipeline=self.assignment.pipeline,
            load=self.assignment.load_id,
            ranges=[Range(record.partition, record.offset, record.offset + 1)],
            next_step=advice.CORRECT_OR_QUARANTINE,
        )
