"""The built-in expectations: conditions that every load must meet before it may be published.

Each expectation judges every partition by itself, and its result has the judgements in `details`. All of them judge
one metric, the counts of the attempt, so that the rows are read once. The counts are not an argument, because Great
Expectations copies arguments many times: those of 1,000 partitions took a second.
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
    """An expectation that judges each partition of an attempt by itself."""

    load_id: int
    attempt: int

    metric_dependencies: ClassVar[tuple[str, ...]] = (STAGED_COUNTS,)
    success_keys: ClassVar[tuple[str, ...]] = ("load_id", "attempt")
    args_keys: ClassVar[tuple[str, ...]] = ("load_id", "attempt")

    @classmethod
    @abstractmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Judge one partition; the observed figures are the reason."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,  # noqa: ARG002
        execution_engine: SqlAlchemyExecutionEngine | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        counts = metrics[STAGED_COUNTS].result()
        judged = {each.partition: self.judge(each) for each in counts.partitions}
        failed = [partition for partition, (success, _) in judged.items() if not success]
        partitions = [
            {"partition": partition, "success": success, "observed": observed}
            for partition, (success, observed) in judged.items()
        ]
        return {
            "success": not failed,
            "result": {"observed_value": f"{len(failed)} of {len(judged)}", "details": {"partitions": partitions}},
        }


class ExpectOffsetsToBeInPlan(PartitionsExpectation):
    """Every staged row has an offset within the ranges of the load's plan. Counted in the staged table."""

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the rows outside."""
        observed = {"rows": counts.rows, "outside": counts.rows_outside}
        return counts.rows_outside == 0, observed | _offsets(counts, "sample_rows_outside")


class ExpectOffsetsToBeUnique(PartitionsExpectation):
    """No offset is staged twice, nor both staged and quarantined.

    A valid unique index on exactly (_partition, _offset), both not null, proves that no offset is staged twice, because
    PostgreSQL compared every row to build the index. On a table without that index the offsets are counted. Offsets
    both staged and quarantined are counted by a join of the quarantine with the staged table.
    """

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the offsets that occur twice."""
        observed = {"twice": counts.twice, "quarantined_too": counts.in_both, "by": "key" if counts.keyed else "count"}
        return counts.twice == counts.in_both == 0, observed | _offsets(counts, "sample_twice")


class ExpectOffsetsToRiseStrictly(PartitionsExpectation):
    """The log was read in rising order, each offset once, and no offset of the plan was left out.

    The staged rows do not show the order of reading, because a table has no order and concurrent COPYs mix the rows.
    The chunks show it, which the tasks recorded together with their rows: sorted, each chunk of a partition begins no
    earlier than the end of the chunk before it, and the chunks fill the plan's ranges. Within a chunk the reader
    refuses an offset that does not rise. ExpectOffsetsToBeUnique proves that no two rows share an offset.
    """

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Count the chunks that overlap, and the offsets that no chunk or several chunks read."""
        observed = {"chunks": counts.chunks, "overlapping": counts.overlapping, "unread": counts.unread}
        return counts.overlapping == counts.unread == 0, observed


class ExpectOffsetsToBeAccountedFor(PartitionsExpectation):
    """In every range of the plan, rows + quarantined + holes + filtered = until - from.

    Rows are counted in the staged table, quarantined records in the quarantine. Only the holes are the readers' count,
    because a hole leaves no trace in a table, and the filtered records the account of the transform.
    """

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Compare the sum with the plan."""
        observed: dict[str, Any] = {
            "planned": counts.planned,
            "rows": counts.rows,
            "quarantined": counts.quarantined,
            "holes": counts.holes,
            "filtered": counts.filtered,
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
    """A live load starts at the end of the load before it: each position still equals the start of the plan."""

    @classmethod
    def judge(cls, counts: PartitionCounts) -> Judgement:
        """Compare the position with the plan. A partition outside the plan has no start to compare."""
        fresh = counts.from_offset is None or counts.position == counts.from_offset
        return fresh, {"from": counts.from_offset, "position": counts.position}


def _offsets(counts: PartitionCounts, sample: str) -> dict[str, Any]:
    found = counts.samples.get(sample, ())
    return {"offsets": list(found)} if found else {}


# The order matters to people: the first failed expectation is the cause of the hold.
EVERY_LOAD: tuple[type[PartitionsExpectation], ...] = (
    ExpectOffsetsToBeInPlan,
    ExpectOffsetsToBeUnique,
    ExpectOffsetsToRiseStrictly,
    ExpectQuarantineToBeInPlan,
    ExpectOffsetsToBeAccountedFor,
)
LIVE_LOADS: tuple[type[PartitionsExpectation], ...] = (*EVERY_LOAD, ExpectPositionToBeFresh)
