"""Record batches as Kafka sends them, decoded far enough to know which offsets hold a record.

The header of a batch gives its span, whether it is a transaction marker, and the producer of its transaction. The
records themselves are decoded only in a batch that has lost some to compaction: its header gives their number, and not
their offsets.
"""

from __future__ import annotations

import gzip
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka.record.default_records import DefaultRecordBatch
from kafka.record.legacy_records import LegacyRecordBatch
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import decode_varint

from penstock import advice
from penstock.errors import KafkaError
from penstock.model.log import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEADER = DefaultRecordBatch.HEADER_STRUCT
ABORT = b"\x00\x00"  # the type in the key of an abort marker, after the version
# kafka-python leaves these codecs to other packages; Arrow has them.
STREAMED = {DefaultRecordBatch.CODEC_LZ4: "lz4", DefaultRecordBatch.CODEC_ZSTD: "zstd"}
# Java writes snappy in blocks behind a header of its own; other clients write one block without a header.
XERIAL, XERIAL_HEADER_SIZE = b"\x82SNAPPY\x00", 16


class Aborted(NamedTuple):
    """An aborted transaction, as Kafka lists it beside the records."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch, and its records as they were sent."""

    base_offset: int
    until_offset: int
    attributes: int
    first_timestamp: int
    producer_id: int
    producer_epoch: int
    records: int
    payload: memoryview

    @property
    def is_control(self) -> bool:
        """Whether it is a transaction marker."""
        return bool(self.attributes & DefaultRecordBatch.CONTROL_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether a transaction wrote it."""
        return bool(self.attributes & DefaultRecordBatch.TRANSACTIONAL_MASK)

    @property
    def is_whole(self) -> bool:
        """Whether every offset of its span still has its record."""
        return self.records == self.until_offset - self.base_offset


def split_batches(sent: bytes) -> Iterator[Batch | LegacyRecordBatch]:
    """Split an answer into batches. The last batch may be incomplete; it is left out then."""
    view, place = memoryview(sent), 0
    while place + MemoryRecords.LOG_OVERHEAD <= len(view):
        size = MemoryRecords.LOG_OVERHEAD + int.from_bytes(view[place + 8 : place + 12], "big")
        if place + size > len(view):
            return
        magic = view[place + MemoryRecords.MAGIC_OFFSET]
        piece = view[place : place + size]
        yield LegacyRecordBatch(piece, magic) if magic < 2 else _read_header(piece)
        place += size


def _read_header(piece: memoryview) -> Batch:
    base, _, _, _, _, attributes, last, first_at, _, producer_id, epoch, _, count = HEADER.unpack_from(piece)
    return Batch(base, base + last + 1, attributes, first_at, producer_id, epoch, count, piece[HEADER.size :])


def describe_batches(sent: bytes, aborted: Sequence[Aborted]) -> Iterator[Span]:
    """Describe the content of batches in the order of their offsets. Offsets of no batch are left out.

    Kafka lists the aborted transactions of the batches that it sends. Each ends with its marker, because the producer's
    next transaction may have been committed.
    """
    listed, aborting = deque(sorted(aborted, key=lambda each: each.first_offset)), set[int]()
    for batch in split_batches(sent):
        if not isinstance(batch, Batch):
            yield from (Span(record.offset, record.offset + 1, "record") for record in batch)
            continue
        while listed and listed[0].first_offset < batch.until_offset:
            aborting.add(listed.popleft().producer_id)
        if batch.is_control:
            yield Span(batch.base_offset, batch.until_offset, "marker")
            if _is_abort(batch):
                aborting.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in aborting:
            yield Span(batch.base_offset, batch.until_offset, "aborted")
        else:
            yield from _describe_records(batch)


def _is_abort(batch: Batch) -> bool:
    """Whether a marker ends an aborted transaction. Compaction can remove its record; then the marker ends nothing."""
    if not batch.records:
        return False
    _, place = decode_varint(batch.payload, 0)
    _, place = decode_varint(batch.payload, place + 1)  # after the attributes: the timestamp
    _, place = decode_varint(batch.payload, place)
    _, place = decode_varint(batch.payload, place)
    return bytes(batch.payload[place + 2 : place + 4]) == ABORT


def _describe_records(batch: Batch) -> Iterator[Span]:
    if batch.is_whole:
        yield Span(batch.base_offset, batch.until_offset, "record")
        return
    at = batch.base_offset
    for offset in _read_offsets(batch):
        if offset > at:
            yield Span(at, offset, "removed")
        yield Span(offset, offset + 1, "record")
        at = offset + 1
    if at < batch.until_offset:
        yield Span(at, batch.until_offset, "removed")


def _read_offsets(batch: Batch) -> Iterator[int]:
    """The offsets of the records that are left. Keys and values are skipped."""
    if not batch.records:
        return
    records, place = decompress(batch.attributes & DefaultRecordBatch.CODEC_MASK, batch.payload), 0
    for _ in range(batch.records):
        length, start = decode_varint(records, place)
        _, delta_at = decode_varint(records, start + 1)  # after the attributes: the timestamp
        delta, _ = decode_varint(records, delta_at)
        yield batch.base_offset + delta
        place = start + length


def decompress(codec: int, payload: memoryview) -> bytes:
    """Decompress the records of a batch."""
    if codec == DefaultRecordBatch.CODEC_NONE:
        return bytes(payload)
    if codec == DefaultRecordBatch.CODEC_GZIP:
        return gzip.decompress(payload)
    if codec == DefaultRecordBatch.CODEC_SNAPPY:
        return _decompress_snappy(bytes(payload))
    if codec in STREAMED:
        import pyarrow as pa  # late: rarely needed, and slow to import

        return bytes(pa.input_stream(pa.py_buffer(payload), compression=STREAMED[codec]).read())
    raise KafkaError(
        f"a batch is compressed by codec {codec}, which the second reader does not support.",
        next_step=advice.HOLES_OF_UNKNOWN_CODEC,
    )


def _decompress_snappy(payload: bytes) -> bytes:
    if not payload.startswith(XERIAL):
        return _decompress_block(payload)
    blocks, place = [], XERIAL_HEADER_SIZE
    while place < len(payload):
        size = int.from_bytes(payload[place : place + 4], "big")
        blocks.append(_decompress_block(payload[place + 4 : place + 4 + size]))
        place += 4 + size
    return b"".join(blocks)


def _decompress_block(block: bytes) -> bytes:
    """Decompress a block of snappy. The block begins with its size, seven bits a byte, the lowest bits first."""
    import pyarrow as pa

    size = 0
    for index, byte in enumerate(block):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size))
