"""Batches as brokers send them, written byte by byte or by kafka-python's own writer."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from penstock.errors import KafkaError
from penstock.kafka.batches.record_batch import HEADER, Aborted, Batch, decompress, describe_batches, split_batches
from penstock.model.log import Content, Span, tile_spans

TRANSACTIONAL, CONTROL = 0x10, 0x20
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def write_batch(
    base: int,
    deltas: Sequence[int],
    *,
    span: int | None = None,
    attributes: int = 0,
    producer: int = -1,
    key: bytes | None = b"k",
) -> bytes:
    """A batch of records at these distances from its base; `span` is what the batch had before compaction."""
    records = b"".join(write_record(delta, key) for delta in deltas)
    codec = attributes & 7
    if codec == GZIP:
        records = gzip.compress(records)
    elif codec == SNAPPY:
        records = bytes(pa.Codec("snappy").compress(records, asbytes=True))
    elif codec in (LZ4, ZSTD):
        records = bytes(pa.Codec("lz4" if codec == LZ4 else "zstd").compress(records, asbytes=True))
    last = (len(deltas) if span is None else span) - 1
    header = HEADER.pack(
        base, HEADER.size - 12 + len(records), 0, 2, 0, attributes, last, 1000, 1000, producer, 3, 0, len(deltas)
    )
    return bytes(header) + records


def write_record(delta: int, key: bytes | None, value: bytes = b"v" * 100) -> bytes:
    written = b"\x00" + varint(700) + varint(delta)
    written += varint(-1) if key is None else varint(len(key)) + key
    written += varint(len(value)) + value + varint(0)
    return varint(len(written)) + written


def write_marker(offset: int, producer: int, *, commit: bool) -> bytes:
    key = struct.pack(">hh", 0, int(commit))
    return write_batch(offset, [0], attributes=TRANSACTIONAL | CONTROL, producer=producer, key=key)


def varint(number: int) -> bytes:
    zigzag, written = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        written.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*written, zigzag])


def describe(sent: bytes, *aborted: tuple[int, int]) -> list[tuple[int, int, Content]]:
    listed = [Aborted(*each) for each in aborted]
    return [(span.from_offset, span.until_offset, span.content) for span in describe_batches(sent, listed)]


def test_a_batch_of_records_is_told_by_its_header_alone() -> None:
    (batch,) = split_batches(write_batch(7, range(3), producer=5, attributes=TRANSACTIONAL))
    assert isinstance(batch, Batch)
    assert (batch.base_offset, batch.until_offset, batch.producer_id, batch.producer_epoch) == (7, 10, 5, 3)
    assert (batch.is_transactional, batch.is_control, batch.is_whole) == (True, False, True)

    assert describe(write_batch(7, range(3), attributes=7)) == [(7, 10, "record")], "a codec that nobody knows"


def test_records_are_aborted_up_to_the_marker_of_their_producer_and_no_further() -> None:
    sent = b"".join([
        write_batch(0, range(2), producer=1, attributes=TRANSACTIONAL),
        write_batch(2, range(2), producer=2, attributes=TRANSACTIONAL),
        write_batch(4, range(1)),
        write_marker(5, 1, commit=False),
        write_marker(6, 2, commit=True),
        write_batch(7, range(2), producer=1, attributes=TRANSACTIONAL),
        write_marker(9, 1, commit=True),
    ])  # fmt: skip
    assert describe(sent, (1, 0)) == [
        (0, 2, "aborted"), (2, 4, "record"), (4, 5, "record"), (5, 6, "marker"), (6, 7, "marker"), (7, 9, "record"),
        (9, 10, "marker"),
    ]  # fmt: skip


def test_a_transaction_that_is_aborted_later_leaves_the_one_before_as_it_was() -> None:
    sent = b"".join([
        write_batch(0, range(2), producer=1, attributes=TRANSACTIONAL),
        write_marker(2, 1, commit=True),
        write_batch(3, range(2), producer=1, attributes=TRANSACTIONAL),
    ])  # fmt: skip
    assert describe(sent, (1, 3)) == [(0, 2, "record"), (2, 3, "marker"), (3, 5, "aborted")]


def test_an_aborted_transaction_that_began_earlier_is_known_by_the_list() -> None:
    assert describe(write_batch(50, range(2), producer=1, attributes=TRANSACTIONAL), (1, 3)) == [(50, 52, "aborted")]


def test_an_aborted_batch_that_compaction_has_thinned_out_stays_aborted() -> None:
    sent = write_batch(0, [1], span=4, producer=1, attributes=TRANSACTIONAL)
    assert describe(sent, (1, 0)) == [(0, 4, "aborted")]


def test_a_marker_whose_record_compaction_took_is_a_marker_and_ends_nothing() -> None:
    sent = write_batch(0, [], span=1, attributes=TRANSACTIONAL | CONTROL, producer=1)
    sent += write_batch(1, range(1), producer=1, attributes=TRANSACTIONAL)
    assert describe(sent, (1, 0)) == [(0, 1, "marker"), (1, 2, "aborted")]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@given(kept=st.sets(st.integers(0, 40)), rest=st.integers(1, 30))
def test_a_batch_that_lost_records_says_which_whatever_its_codec(codec: int, kept: set[int], rest: int) -> None:
    deltas, span = sorted(kept), max(kept, default=0) + rest
    spans = list(describe_batches(write_batch(100, deltas, span=span, attributes=codec), []))

    told = {offset: each.content for each in spans for offset in range(each.from_offset, each.until_offset)}
    assert told == {offset: "record" if offset - 100 in kept else "removed" for offset in range(100, 100 + span)}


def test_snappy_in_the_blocks_of_java_is_read() -> None:
    parts = [b"one " * 1000, b"two " * 2000]
    blocks = [pa.Codec("snappy").compress(part, asbytes=True) for part in parts]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    framed += b"".join(struct.pack(">i", len(block)) + block for block in blocks)

    assert decompress(SNAPPY, memoryview(framed)) == b"".join(parts)


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    whole = write_batch(0, range(3))
    for size in range(1, len(whole)):
        assert describe(whole + whole[:size]) == [(0, 3, "record")]


def test_a_codec_that_nobody_knows_is_an_error_only_where_records_are_missing() -> None:
    with pytest.raises(KafkaError, match="codec 7"):
        describe(write_batch(0, [1], span=3, attributes=7))


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_batches_of_the_format_before_transactions_are_records(codec: int) -> None:
    builder = MemoryRecordsBuilder(1, codec, 10_000, offset=5)
    for value in (b"a", b"b"):
        builder.append(1000, b"k", value)
    builder.close()
    assert describe(bytes(builder.buffer())) == [(5, 6, "record"), (6, 7, "record")]


def test_what_lies_between_batches_is_absent() -> None:
    sent = write_batch(5, range(2)) + write_batch(20, range(1))
    assert list(tile_spans(describe_batches(sent, []), 6, 21)) == [
        Span(6, 7, "record"), Span(7, 20, "absent"), Span(20, 21, "record")
    ]  # fmt: skip
