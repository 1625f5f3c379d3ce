"""The fingerprint of records: independent of their order, different if any record differs."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.records.fingerprint import add_hashes, hash_records, sum_hashes

Record = tuple[int, bytes | None, bytes | None]
parts = st.none() | st.binary(max_size=4)
records = st.lists(st.tuples(st.integers(0, 2**50), parts, parts), max_size=20, unique_by=lambda record: record[0])


def fingerprint(chunk: list[Record]) -> int:
    offsets = np.array([offset for offset, _, _ in chunk], np.int64)
    return sum_hashes(hash_records(offsets, [key for _, key, _ in chunk], [value for *_, value in chunk]))


@given(records, st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_sum_does_not_depend_on_order_and_split(chunk: list[Record], middle: int, order: random.Random) -> None:
    shuffled = order.sample(chunk, len(chunk))
    assert add_hashes(fingerprint(shuffled[:middle]), fingerprint(shuffled[middle:])) == fingerprint(chunk)
    assert -(2**63) <= fingerprint(chunk) < 2**63


@given(records, st.data())
def test_a_changed_or_missing_record_changes_the_fingerprint(chunk: list[Record], data: st.DataObject) -> None:
    assume(chunk)
    place = data.draw(st.integers(0, len(chunk) - 1))
    offset, key, value = chunk[place]
    others = [
        (offset, key, data.draw(parts)),
        (offset, data.draw(parts), value),
        (data.draw(st.integers(0, 2**50)), key, value),
    ]
    for other in others:
        changed = [*chunk[:place], other, *chunk[place + 1 :]]
        assert (fingerprint(changed) == fingerprint(chunk)) == (other == chunk[place])
    assert fingerprint(chunk[:place] + chunk[place + 1 :]) != fingerprint(chunk)


@given(records, st.data())
def test_two_swapped_values_change_the_fingerprint(chunk: list[Record], data: st.DataObject) -> None:
    assume(len(chunk) > 1)
    one, other = data.draw(st.permutations(range(len(chunk))))[:2]
    swapped = list(chunk)
    swapped[one] = (chunk[one][0], chunk[one][1], chunk[other][2])
    swapped[other] = (chunk[other][0], chunk[other][1], chunk[one][2])
    assert (fingerprint(swapped) == fingerprint(chunk)) == (chunk[one][2] == chunk[other][2])


def test_keys_values_nulls_and_empty_texts_are_hashed_differently() -> None:
    found = {fingerprint([(7, key, value)]) for key in (None, b"", b"a") for value in (None, b"", b"a")}
    assert len(found) == 9
