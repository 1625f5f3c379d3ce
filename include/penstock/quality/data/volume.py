"""The number of rows of a load, against that of loads at the same hour of past weeks."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.quality.data.base import DataExpectation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.quality.data.base import Finding
    from penstock.quality.data.batch import DataBatch

# Three loads have a median that one unusual load does not move.
LEAST_BASELINE = 3
# The standard deviation of a normal distribution is 1.4826 times its median absolute deviation.
TO_STANDARD_DEVIATION = 1.4826
# A perfectly regular topic has no deviation, and one record more would be unusual: one part in twenty always is usual.
LEAST_SHARE = 0.05


def judge_volume(rows: int, baseline: Sequence[int], deviations: float) -> tuple[bool, dict[str, Any]]:
    """Compare a number of rows with the median of others; the bounds are some robust deviations away from it."""
    observed: dict[str, Any] = {"rows": rows, "baseline": len(baseline)}
    if len(baseline) < LEAST_BASELINE:
        return True, observed | {"needed": LEAST_BASELINE}
    usual = median(baseline)
    spread = TO_STANDARD_DEVIATION * median(abs(each - usual) for each in baseline)
    allowed = deviations * max(spread, LEAST_SHARE * usual, 1)
    observed |= {"usual": int(usual), "at_least": max(0, round(usual - allowed)), "at_most": round(usual + allowed)}
    return abs(rows - usual) <= allowed, observed


class ExpectVolumeAsUsual(DataExpectation):
    """The batch has about as many rows as others before it, given as `baseline`.

    The median of the baseline is the usual number, and the median of the distances from it is the deviation: one
    unusual load in the baseline changes neither. With fewer than three numbers the expectation passes.
    """

    deviations: float = 4
    weeks: int = 4
    baseline: tuple[int, ...] = ()

    sentence: ClassVar[str] = "The number of rows must be within $deviations deviations of the usual number."

    def write_query(self, batch: DataBatch) -> str:
        """Count the rows."""
        return f"select count(*) as records from {batch.table}"

    def judge(self, found: Sequence[Finding]) -> dict[str, Any]:
        """Compare the count with the baseline."""
        usual, observed = judge_volume(found[0]["records"], self.baseline, self.deviations)
        return {"success": usual, "result": {"observed_value": observed["rows"], "details": {"observed": observed}}}
