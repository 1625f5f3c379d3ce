"""The built-in expectations: what holds for every load before it may be published.

They are expectations of Great Expectations like any other, and may be used in any suite whose batch is the table of
an attempt. Each judges every partition by itself; all of them read one metric, hence one query. The verdicts by
partition are in the result's `details`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.quality.gx import BatchExpectation, SqlAlchemyExecutionEngine
from penstock.quality.metric import STAGED_COUNTS

if TYPE_CHECKING:
    from penstock.quality.counts import PartitionCounts

Judgement = tuple[bool, dict[str, Any]]


class PartitionsExpectation(BatchExpectation):  # type: ignore[misc]
    """An expectation that judges each partition of an attempt."""

    load_id: int
    attempt: int

    metric_dependencies: ClassVar[tuple[str, ...]] = (STAGED_COUNTS,)
    success_keys: ClassVar[tuple[str, ...]] = ("load_id", "attempt")
    args_keys: ClassVar[tuple[str, ...]] = ("load_id", "attempt")

    @classmethod
    @abstractmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Whether one partition is as expected, and the figures that say so."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,  # noqa: ARG002
        execution_engine: SqlAlchemyExecutionEngine | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        judged = {counts.partition: self.judge(counts) for counts in metrics[STAGED_COUNTS]}
        failed = [partition for partition, (success, _) in judged.items() if not success]
        partitions = [
            {"partition": partition, "success": success, "observed": observed}
            for partition, (success, observed) in judged.items()
        ]
        details = {
            "partitions": partitions,
            "row_hashes": {counts.partition: str(counts.row_hash) for counts in metrics[STAGED_COUNTS]},
        }
        return {
            "success": not failed,
            "result": {"observed_value": f"{len(failed)} of {len(judged)}", "details": details},
        }


class ExpectOffsetsToBeInPlan(PartitionsExpectation):
    """Every staged row has an offset within the ranges of the load's plan. Read in the staged table."""

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the rows outside."""
        observed = {"rows": counts.rows, "outside": counts.rows_outside}
        return counts.rows_outside == 0, observed | _offsets(counts, "sample_rows_outside")


class ExpectOffsetsToBeUnique(PartitionsExpectation):
    """No offset is staged twice, nor both staged and quarantined.

    A valid unique index on exactly (_partition, _offset), both not null, proves the first: PostgreSQL looked at every
    row when it built it, and the catalog says so. On a table without that index the offsets are counted instead. The
    second is read in the quarantine, joined with the staged table.
    """

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the offsets that occur twice."""
        observed = {"twice": counts.twice, "quarantined_too": counts.in_both, "by": "key" if counts.keyed else "count"}
        return counts.twice == counts.in_both == 0, observed | _offsets(counts, "sample_twice")


class ExpectOffsetsToRiseStrictly(PartitionsExpectation):
    """The log was read strictly rising, each offset once, with nothing between left out.

    A table has no order, so the order of reading cannot be read in the staged rows: concurrent COPYs mix them. It is
    read where it left a trace, in the chunks that the tasks recorded together with their rows: sorted, each chunk of a
    partition begins no earlier than the one before it ended, and the chunks fill the plan's ranges. Within a chunk it
    is for the reader to refuse an offset that does not rise. That no two rows share one is ExpectOffsetsToBeUnique.
    """

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the chunks that overlap, and the offsets that no chunk (or more than one) read."""
        observed = {"chunks": counts.chunks, "overlapping": counts.overlapping, "unread": counts.unread}
        return counts.overlapping == counts.unread == 0, observed


class ExpectOffsetsToBeAccountedFor(PartitionsExpectation):
    """In every range of the plan, rows + quarantined + holes = until - from.

    Rows are counted in the staged table, quarantined records in the quarantine; only the holes are what the readers
    counted, since a hole leaves nothing behind.
    """

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Add up."""
        observed: dict[str, Any] = {
            "planned": counts.planned,
            "rows": counts.rows,
            "quarantined": counts.quarantined,
            "holes": counts.holes,
            "unaccounted": counts.unaccounted,
        }
        chunks = counts.samples.get("sample_unaccounted", ())
        return counts.unaccounted == 0, observed | ({"chunks": list(chunks)} if chunks else {})


class ExpectQuarantineToBeInPlan(PartitionsExpectation):
    """Every record that the attempt quarantined has an offset within the ranges of the load's plan."""

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the records outside."""
        observed = {"quarantined": counts.quarantined, "outside": counts.quarantined_outside}
        return counts.quarantined_outside == 0, observed | _offsets(counts, "sample_quarantined_outside")


class ExpectPositionToBeFresh(PartitionsExpectation):
    """A live load starts where the one before it ended: the position still is where the partition's plan begins."""

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Compare the position with the plan. A partition that the plan does not hold has no start to compare."""
        fresh = counts.from_offset is None or counts.position == counts.from_offset
        return fresh, {"from": counts.from_offset, "position": counts.position}


def _offsets(counts: PartitionCounts, sample: str) -> dict[str, Any]:
    found = counts.samples.get(sample, ())
    return {"offsets": list(found)} if found else {}


# In the order in which a person wants to read them: the first that fails is the cause of a hold.
EVERY_LOAD: tuple[type[PartitionsExpectation], ...] = (
    ExpectOffsetsToBeInPlan,
    ExpectOffsetsToBeUnique,
    ExpectOffsetsToRiseStrictly,
    ExpectQuarantineToBeInPlan,
    ExpectOffsetsToBeAccountedFor,
)
LIVE_LOADS: tuple[type[PartitionsExpectation], ...] = (*EVERY_LOAD, ExpectPositionToBeFresh)
