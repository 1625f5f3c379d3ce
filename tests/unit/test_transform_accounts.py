"""The declaration of a transform, its file, and the account of its offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from declaring import COLUMNS, declare
from penstock.declaration.transforms import find_file
from penstock.errors import DeclarationError, TransformError
from penstock.load.transform.account import PIECE, balance, mark_places, pack_places, unpack_places
from penstock.model.ranges import Range

EXAMPLES = Path(__file__).parents[2] / "include" / "transforms"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transform": "Orders"}, "'Orders' is not a valid transform; allowed: module:function"),
        ({"transform": "../x:y"}, "is not a valid transform"),
        ({"input": COLUMNS}, "has no effect without a transform"),
        ({"transform": "a:b", "input": COLUMNS}, "has no effect on a column that the transform makes"),
        (
            {"transform": "a:b", "input": {"n": {"type": "numeric(39,0)"}}, "columns": {"id": {"type": "bigint"}}},
            "numeric(39,0) has more digits than Spark takes",
        ),
        ({"transform": "a:b", "input": {"_n": {"type": "int"}}, "columns": {"n": {"type": "int"}}}, "begins with _"),
        (
            {"transform": "a:b", "value": "text", "input": {"n": {"type": "int"}}, "columns": {"n": {"type": "int"}}},
            "value: text cannot become integer",
        ),
    ],
)
def test_a_mistake_of_a_transform_is_reported_with_what_is_allowed(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        declare("topic", **changes)
    assert message in str(caught.value)


def test_input_has_the_decoded_columns_and_columns_those_of_the_table() -> None:
    pipeline = declare("topic", transform="a:b", input=COLUMNS, columns={"total": {"type": "bigint"}})
    assert [column.name for column in pipeline.decoded] == ["id", "note"]
    assert type(pipeline).read_kept(pipeline.model_dump_json()) == pipeline


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("sale:in_euros", "the file of the transform sale:in_euros cannot be read; there are: sales"),
        ("sales:in_euro", "no function in_euro (did you mean in_euros?)"),
    ],
)
def test_a_missing_file_or_function_is_found_without_running_the_file(transform: str, message: str) -> None:
    assert find_file("sales:in_euros", EXAMPLES) == EXAMPLES / "sales.py"
    with pytest.raises(DeclarationError) as caught:
        find_file(transform, EXAMPLES)
    assert message in str(caught.value)


def test_a_file_that_is_no_python_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text("x = 1\ndef broken(:\n")
    with pytest.raises(DeclarationError, match=r"rows.py:2: not valid Python"):
        find_file("rows:broken", tmp_path)


def write(
    offsets: list[int], range_: Range, hashes: dict[int, int], refused: list[int] | None = None
) -> dict[str, Any]:
    places = pack_places(mark_places(np.array(offsets, np.int64), range_))
    return {
        "places": places.hex(),
        "hash": sum(hashes[offset] for offset in offsets),
        "refused": {str(offset): ["rule", ""] for offset in refused or []},
    }


@given(
    start=st.integers(0, 10**12),
    kinds=st.lists(
        st.sampled_from(["hole", "filtered", "row", "other row", "refused"]), min_size=1, max_size=3 * PIECE
    ),
)
def test_every_decoded_offset_is_a_row_a_refused_row_or_filtered(start: int, kinds: list[str]) -> None:
    range_ = Range(0, start, start + len(kinds))
    places = {kind: [start + at for at, each in enumerate(kinds) if each == kind] for kind in set(kinds)}
    decoded = [start + at for at, each in enumerate(kinds) if each != "hole"]
    hashes = {offset: (offset * 2_654_435_761) % 2**32 for offset in decoded}
    packed = np.array([hashes[offset] for offset in decoded], "<u4").tobytes()
    one = write(places.get("row", []) + places.get("refused", []), range_, hashes, places.get("refused", []))
    two = write(places.get("other row", []), range_, hashes)
    account = balance(0, range_, pack_places(mark_places(np.array(decoded, np.int64), range_)), packed, [one, two])

    assert account.rows + account.refused + account.filtered == len(decoded)
    assert account.refused == len(places.get("refused", []))
    found = [
        from_ + int(place)
        for from_, bits in account.pieces
        for place in np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    ]
    assert found == places.get("filtered", [])


def test_an_account_that_does_not_balance_names_the_offset() -> None:
    range_, hashes = Range(3, 100, 110), {offset: offset for offset in range(100, 110)}
    decoded = pack_places(mark_places(np.array(range(100, 109), np.int64), range_))
    packed = np.array(range(100, 109), "<u4").tobytes()
    one = write([100, 101], range_, hashes)
    for written, message in (
        ([one, write([101, 102], range_, hashes)], "more than one row of the record at partition 3 offset 101"),
        ([write([109], range_, hashes)], "partition 3 offset 109, which it was not given"),
        ([one | {"hash": one["hash"] + 1}], "changed `_timestamp` or `_key`"),
    ):
        with pytest.raises(TransformError, match=message):
            balance(0, range_, decoded, packed, written)


@given(st.lists(st.booleans(), max_size=100))
def test_places_survive_their_bits(places: list[bool]) -> None:
    range_ = Range(0, 7, 7 + len(places))
    assert unpack_places(pack_places(np.array(places, bool)), range_).tolist() == places
