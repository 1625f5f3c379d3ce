"""The decoded batches of a group on their way to the table, and the records among them that become no rows."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock import advice
from penstock.errors import PoisonError, StageError
from penstock.model.ranges import Range
from penstock.records.quarantine import estimate_bytes
from penstock.records.rejection import Rejection, reject_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from adbc_driver_manager import Error as AdbcError

    from penstock.kafka.readers.contract import CheckedChunk
    from penstock.records.decoder import Decoded
    from penstock.records.rejection import RejectedRecord
    from penstock.target.assignment import Assignment

# A COPY cannot be interrupted to write to another table: it ends when so much of the quarantine waits.
WAITING_BYTES = 8 * 1024 * 1024
# A table that refuses this many rows of a task, and most of them, does not fit the declaration.
MOST_REFUSED = 1_000
# A value that a message of the server quotes.
QUOTED = re.compile(': ".*')
# Bad values, rows that break a constraint, rows beyond a limit of the server. A full disk (53100) is not one of them.
REFUSALS = ("22", "23", "54", "53200")


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a chunk; `won` is false if another try of the same task had written it."""

    task: int
    rows: int
    quarantined: int
    holes: int
    won: bool
    first_hole: int | None = None  # not known of a chunk that another try has written


class Flow:
    """The decoded batches of a group. The rejected records among them wait until a COPY has ended."""

    def __init__(self, assignment: Assignment, decoded: Iterator[tuple[int, Decoded]]) -> None:
        self.assignment = assignment
        self.decoded = decoded
        self.ended = False
        self.error: BaseException | None = None
        self.rows: Counter[int] = Counter()
        self.quarantined: Counter[int] = Counter()
        self.refused = self.taken = 0  # by PostgreSQL, where rows are copied piece by piece
        self._waiting: list[RejectedRecord] = []
        self._waiting_bytes = 0

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Hand over rows until the quarantine is heavy or the group has ended; an error is kept, for Arrow loses it."""
        try:
            for _, part in self.parts():
                yield part.rows
        except BaseException as error:
            self.error = error
            raise

    def parts(self) -> Iterator[tuple[int, Decoded]]:
        """Hand over what has rows, with the task that accounts for it, until the quarantine is heavy."""
        for task, part in self.decoded:
            self._keep(task, part.rejected)
            self.rows[task] += len(part.rows)
            if len(part.rows):
                yield task, part
            if self._waiting_bytes > WAITING_BYTES:
                return
        self.ended = True

    def refuse(self, task: int, part: Decoded, place: int, words: str) -> None:
        """Quarantine a row that PostgreSQL has refused."""
        offset = part.rows["_offset"][place].as_py()
        index = int(np.searchsorted(part.batch.offsets, offset))
        self.rows[task] -= 1
        self.refused += 1
        self._keep(task, [reject_record(part.batch, index, Rejection("refused_by_database", words))])
        if self.refused > max(MOST_REFUSED, self.taken):
            raise StageError(
                f"PostgreSQL refused {self.refused} rows of a task, and took {self.taken}: {words}.",
                pipeline=self.assignment.pipeline,
                load=self.assignment.load_id,
                next_step=advice.COMPARE_TARGET,
            )

    def sum_up(self, task: int, checked: CheckedChunk) -> Written:
        """The outcome of a chunk that has been written."""
        rows, quarantined = self.rows[task], self.quarantined[task]
        return Written(task, rows, quarantined, checked.holes, won=True, first_hole=checked.first_hole)

    def take_quarantine(self) -> list[RejectedRecord]:
        """Take the rejected records that wait for the quarantine."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _keep(self, task: int, rejected: list[RejectedRecord]) -> None:
        if not rejected:
            return
        if self.assignment.stop_at_poison:
            raise self._refuse_poison(rejected[0], "the pipeline says `poison: stop`")
        self.quarantined[task] += len(rejected)
        limit = self.assignment.max_quarantined
        if limit is not None and self.quarantined.total() > limit:
            raise self._refuse_poison(rejected[-1], f"more than `max_quarantined: {limit}` records")
        self._waiting += rejected
        self._waiting_bytes += sum(map(estimate_bytes, rejected))

    def _refuse_poison(self, record: RejectedRecord, why: str) -> PoisonError:
        return PoisonError(
            f"{why}, and the record at offset {record.offset} cannot become a row: {record.reason}: {record.detail}.",
            pipeline=self.assignment.pipeline,
            load=self.assignment.load_id,
            ranges=[Range(record.partition, record.offset, record.offset + 1)],
            next_step=advice.CORRECT_OR_QUARANTINE,
        )


def is_refusal(sqlstate: str | None, text: str) -> bool:
    """Whether PostgreSQL refused a row for what is in it, and would refuse it again."""
    state = sqlstate or ""
    return state.startswith(REFUSALS) or (state == "XX000" and "memory" in text)


def find_line(error: AdbcError) -> str:
    """The server's sentence, without the lines of context that may show values."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return next((line for line in lines if re.search("ERROR:|FATAL:|PANIC:", line)), lines[0])


def find_words(error: AdbcError) -> str:
    """The server's words for a refusal, without the values that they may quote."""
    words = find_line(error).partition("ERROR:")[2].strip() or "no reason given"
    return f"{QUOTED.sub(': …', words)} (SQLSTATE {error.sqlstate})"
