"""The next steps of a verification fix its faults."""

from __future__ import annotations

import pytest

from penstock.model.ranges import Range
from penstock.verify.faults import Fault
from penstock.verify.location import OTHER_VALUES
from penstock.verify.run import OTHER_TOPIC, Verified

PLACE = Range(0, 17, 18)


@pytest.mark.parametrize(
    ("fault", "step", "other"),
    [
        (Fault("rows_changed", "…", PLACE, 1, 2), "penstock backfill orders", "earlier"),
        (Fault("rows_changed", "…", PLACE, 1, 1), "restore rows from a backup", "penstock backfill"),
        (
            Fault("rows_changed", f"… {OTHER_VALUES}", PLACE, 1, 2),
            "compare the rows with their records",
            "find out who",
        ),
        (Fault("rows_outside", "…", PLACE, 1, 2), "by hand", "penstock backfill"),
        (Fault("log_changed", OTHER_TOPIC), "penstock adopt orders", "penstock backfill"),
    ],
)
def test_the_next_steps_can_fix_the_fault(fault: Fault, step: str, other: str) -> None:
    steps = " ".join(Verified(1, "orders", 1, 1, 1, 1, 1, 1, {}, (fault,), generation=2).next_steps)
    assert step in steps
    assert other not in steps
