"""Times that people write: with a zone, or refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.errors import WrongUseError
from penstock.model.times import read_time


def test_a_time_with_a_zone_is_read() -> None:
    assert read_time("2026-01-31T01:00:00+01:00") == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(("text", "message"), [("yesterday", "is not a time"), ("2026-01-31", "has no time zone")])
def test_any_other_time_is_refused_with_the_next_step_of_its_place(text: str, message: str) -> None:
    with pytest.raises(WrongUseError, match=message) as refused:
        read_time(text, "write it otherwise.")
    assert refused.value.next_step == "write it otherwise."
