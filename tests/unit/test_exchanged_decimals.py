"""Short decimals between Python and the JVM: as whole numbers, and back."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.spark_columns import MOST_DIGITS, is_short, to_decimals, to_whole

LARGEST = 10**MOST_DIGITS - 1
WHOLE = st.lists(st.none() | st.integers(-LARGEST, LARGEST))


@given(WHOLE, st.integers(0, MOST_DIGITS), st.integers(0, 5))
def test_a_short_decimal_comes_back_from_its_whole_number(values: list[int | None], scale: int, start: int) -> None:
    type_ = pa.decimal128(MOST_DIGITS, scale)
    decimals = pa.array([None if value is None else Decimal(value).scaleb(-scale) for value in values], type_)
    part = decimals.slice(start)
    whole = to_whole(part)
    assert whole.to_pylist() == values[start:]
    assert to_decimals(whole, type_).equals(part)


@pytest.mark.parametrize(
    ("type_", "short"),
    [
        (pa.decimal128(18, 3), True),
        (pa.decimal128(19, 3), False),
        (pa.decimal256(39, 0), False),
        (pa.int64(), False),
    ],
)
def test_only_a_decimal_that_fits_into_a_long_is_exchanged_as_one(type_: pa.DataType, short: bool) -> None:
    assert is_short(type_) == short
