"""Where a log was cut: no record is read twice, and none that is new is passed over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.decide.find_truncation import bisect_cut
from penstock.kafka.first_records import First
from penstock.model.ranges import Range


@st.composite
def cuts(draw: st.DrawFn) -> tuple[set[int], int, int, int]:
    """Offsets with rows, where the search starts, the offset of the cut, and where the log ends now."""
    low = draw(st.integers(0, 20))
    cut = draw(st.integers(low, low + 60))
    end = draw(st.integers(cut, cut + 40))
    rows = draw(st.sets(st.integers(low, end + 30)))
    return rows, low, cut, end


@given(cuts())
def test_every_row_below_the_cut_agrees_and_none_above_it_does_wherever_rows_are_missing(
    world: tuple[set[int], int, int, int],
) -> None:
    rows, low, cut, end = world
    asked: list[int] = []

    def find_row(low: int, at: int, high: int) -> First | None:
        below = [row for row in rows if low <= row <= at]
        above = [row for row in rows if at < row < high]
        return First(max(below), 0) if below else First(min(above), 0) if above else None

    def agrees(row: First) -> bool:
        asked.append(row.offset)
        return row.offset < cut

    found = bisect_cut(find_row, agrees, Range(0, low, end))

    assert low <= found <= max(low, cut)
    assert not [row for row in rows if found <= row < cut], "a record would be loaded twice"
    assert len(asked) <= 2 + 2 * (end - low + 1).bit_length()


def test_a_log_that_has_not_grown_since_it_was_cut_is_told_by_one_look() -> None:
    asked: list[int] = []

    def agrees(row: First) -> bool:
        asked.append(row.offset)
        return True

    def find_row(low: int, at: int, high: int) -> First | None:
        return First(at, 0) if low <= at < high else None

    assert bisect_cut(find_row, agrees, Range(0, 0, 1_000_000)) == 1_000_000
    assert asked == [999_999]
