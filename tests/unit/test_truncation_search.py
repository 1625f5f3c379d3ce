"""The search for a truncation: no record is loaded twice, and no new record is missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.decide.find_truncation import bisect_truncation
from penstock.kafka.first_records import First
from penstock.model.ranges import Range


@st.composite
def truncations(draw: st.DrawFn) -> tuple[set[int], int, int, int]:
    """Offsets with rows, the start of the search, the offset of the truncation, and the end of the log now."""
    low = draw(st.integers(0, 20))
    truncated_at = draw(st.integers(low, low + 60))
    end = draw(st.integers(truncated_at, truncated_at + 40))
    rows = draw(st.sets(st.integers(low, end + 30)))
    return rows, low, truncated_at, end


@given(truncations())
def test_the_search_finds_the_truncation_wherever_rows_are_missing(
    world: tuple[set[int], int, int, int],
) -> None:
    rows, low, truncated_at, end = world
    compared: list[int] = []

    def find_row(low: int, at: int, high: int) -> First | None:
        below = [row for row in rows if low <= row <= at]
        above = [row for row in rows if at < row < high]
        return First(max(below), 0) if below else First(min(above), 0) if above else None

    def agrees(row: First) -> bool:
        compared.append(row.offset)
        return row.offset < truncated_at

    found = bisect_truncation(find_row, agrees, Range(0, low, end))

    assert low <= found <= max(low, truncated_at)
    assert not [row for row in rows if found <= row < truncated_at], "a record would be loaded twice"
    assert len(compared) <= 2 + 2 * (end - low + 1).bit_length()


def test_a_log_that_has_not_grown_since_its_truncation_needs_one_comparison() -> None:
    compared: list[int] = []

    def agrees(row: First) -> bool:
        compared.append(row.offset)
        return True

    def find_row(low: int, at: int, high: int) -> First | None:
        return First(at, 0) if low <= at < high else None

    assert bisect_truncation(find_row, agrees, Range(0, 0, 1_000_000)) == 1_000_000
    assert compared == [999_999]
