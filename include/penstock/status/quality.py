"""The history of a pipeline's checks: the results of its last loads, check by check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import WrongUseError
from penstock.ledger.check_result import read_failures, read_history
from penstock.ledger.pipeline import find_pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.check_result import Failure, HistoryRow
    from penstock.ledger.connection import Connection

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*#@"  # for terminals that cannot show the others


@dataclass(frozen=True, slots=True)
class CheckHistory:
    """One check in the last loads: its result on each load that ran it, the oldest first."""

    expectation: str
    column: str | None
    suite: str | None
    check_id: str | None
    kind: str
    severity: str
    results: tuple[HistoryRow, ...]

    @property
    def failed(self) -> int:
        """The number of loads on which it failed."""
        return sum(not result.success for result in self.results)


@dataclass(frozen=True, slots=True)
class QualityHistory:
    """The checks of a pipeline in its last loads, and what the asked expectation observed where it failed."""

    pipeline: str
    loads: tuple[int, ...]
    checks: tuple[CheckHistory, ...]
    failures: tuple[Failure, ...]


def read_quality(connection: Connection, pipeline: str, last: int, expectation: str | None = None) -> QualityHistory:
    """Read the history of a pipeline's checks, or of one expectation."""
    pipeline_id = find_pipeline(connection, pipeline)
    if pipeline_id is None:
        return QualityHistory(pipeline, (), (), ())
    rows = read_history(connection, pipeline_id, pipeline, last)
    loads = tuple(dict.fromkeys(row.load_id for row in rows))
    if expectation is None:
        return QualityHistory(pipeline, loads, _group(rows), ())
    chosen = [row for row in rows if row.expectation == expectation]
    if rows and not chosen:
        names = ", ".join(sorted({row.expectation for row in rows}))
        raise WrongUseError(
            f"no check {expectation} in the last {len(loads)} loads of {pipeline}; there are: {names}.",
            pipeline=pipeline,
            next_step="name one of these after --expectation, or look at more loads with --last.",
        )
    failures = read_failures(connection, pipeline_id, expectation, last)
    return QualityHistory(pipeline, loads, _group(chosen), tuple(failures))


def _group(rows: Sequence[HistoryRow]) -> tuple[CheckHistory, ...]:
    """Group the results by check; a check whose severity changed has that of the newest load."""
    by_check: dict[tuple[str | None, ...], list[HistoryRow]] = {}
    for row in rows:
        by_check.setdefault((row.expectation, row.column, row.suite, row.check_id), []).append(row)
    return tuple(_make_history(results) for results in by_check.values())


def _make_history(results: Sequence[HistoryRow]) -> CheckHistory:
    newest = results[-1]
    return CheckHistory(
        expectation=newest.expectation,
        column=newest.column,
        suite=newest.suite,
        check_id=newest.check_id,
        kind=newest.kind,
        severity=newest.severity,
        results=tuple(results),
    )


def plot(figures: Sequence[float | None], blocks: str = BLOCKS) -> str:
    """Draw figures as blocks, from zero or the least figure to the greatest; a blank where there is no figure."""
    known = [figure for figure in figures if figure is not None]
    low, high = min([0, *known]), max([0, *known])
    steps = (len(blocks) - 1) / ((high - low) or 1)
    return "".join(" " if figure is None else blocks[round((figure - low) * steps)] for figure in figures)
