"""The checks that every reader goes through, with readers that misbehave on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LogLostError, ReadError, WrongUseError
from penstock.kafka.readers.contract import CheckedChunks, End, Source
from penstock.kafka.readers.java_settings import translate_settings
from penstock.model.ranges import Chunk, Range
from penstock.model.records import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.kafka.readers.contract import CheckedChunk

SOURCE = Source({}, "orders", "read_committed")


def batch(*offsets: int, partition: int = 0) -> Batch:
    count = len(offsets)
    return Batch(
        partition, np.array(offsets, np.int64), np.zeros(count, np.int64), [b""] * count, [None] * count, lambda _: []
    )


def check(parts: Iterable[Batch | End], log_start: int = 0) -> CheckedChunk:
    """Let parts through the checks of the chunk [10, 20) of partition 0."""
    checked = CheckedChunks(
        SOURCE, [Chunk(7, Range(0, 10, 20))], lambda partitions: dict.fromkeys(partitions, log_start)
    )
    list(checked.check((7, part) for part in parts))
    return checked.chunks[7]


@given(kept=st.sets(st.integers(10, 19)), cuts=st.sets(st.integers(10, 19)))
def test_records_and_holes_make_up_the_chunk_wherever_the_holes_are(kept: set[int], cuts: set[int]) -> None:
    batches: list[list[int]] = [[]]
    for offset in sorted(kept):
        if offset in cuts:
            batches.append([])
        batches[-1].append(offset)
    checked = check([*(batch(*offsets) for offsets in batches), End(20)])
    assert (checked.records, checked.holes) == (len(kept), 10 - len(kept))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([batch(10, 11)], "ended at offset 12"),
        ([batch(10, 11), End(19)], "ended at offset 19"),
        ([], "ended at offset 10"),
        ([batch(9, 10), End(20)], "do not rise"),
        ([batch(10, 10), End(20)], "do not rise"),
        ([batch(12, 11), End(20)], "do not rise"),
        ([batch(10, 11), batch(11), End(20)], "do not rise"),
        ([batch(19, 20), End(20)], "past the end"),
        ([batch(10, partition=1), End(20)], "partition 1"),
        ([End(20), batch(19)], "continued after its end"),
    ],
)
def test_a_reader_that_strays_from_its_chunk_is_refused(parts: list[Batch | End], told: str) -> None:
    with pytest.raises(ReadError, match=told):
        check(parts)


def test_a_hole_that_the_log_start_has_passed_is_a_loss() -> None:
    with pytest.raises(LogLostError) as caught:
        check([batch(10, 14), End(20)], log_start=12)
    assert caught.value.ranges == (Range(0, 11, 12),)


def test_a_log_start_below_every_hole_or_without_holes_is_no_loss() -> None:
    assert check([batch(10, 11, 14), End(20)], log_start=12).holes == 7
    assert check([batch(*range(10, 20)), End(20)], log_start=99).holes == 0


def test_each_of_two_chunks_must_be_whole_however_their_parts_are_mixed() -> None:
    chunks = [Chunk(0, Range(0, 10, 12)), Chunk(1, Range(1, 5, 8))]
    mixed: list[tuple[int, Batch | End]] = [
        (1, batch(5, partition=1)),
        (0, batch(10)),
        (1, batch(7, partition=1)),
        (1, End(8)),
        (0, batch(11)),
    ]

    def check_both(parts: list[tuple[int, Batch | End]]) -> dict[int, CheckedChunk]:
        checked = CheckedChunks(SOURCE, chunks, lambda partitions: dict.fromkeys(partitions, 0))
        list(checked.check(iter(parts)))
        return checked.chunks

    whole = check_both([*mixed, (0, End(12))])
    assert [(chunk.records, chunk.holes) for chunk in whole.values()] == [(2, 0), (2, 1)]
    with pytest.raises(ReadError, match="ended at offset 12"):
        check_both(mixed)
    with pytest.raises(ReadError, match="partition 1"):
        check_both([(0, batch(10, partition=1))])


def test_settings_are_handed_to_the_java_client_in_its_own_names(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("PEM")
    translated = translate_settings(
        {
            "bootstrap.servers": "b:9092",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'qu"ote\\',
            "ssl.ca.location": str(authority),
            "queued.min.messages": "5",
        }
    )
    assert translated == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="qu\\"ote\\\\";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "PEM",
    }


def test_a_security_setting_without_translation_is_refused() -> None:
    with pytest.raises(WrongUseError, match=r"ssl\.engine\.location"):
        translate_settings({"bootstrap.servers": "b:9092", "ssl.engine.location": "x"})
