"""The codecs of record batches: kafka-python leaves most to other packages, and Arrow has them all."""

from __future__ import annotations

import gzip

from kafka.record.default_records import DefaultRecordBatch

from penstock import advice
from penstock.errors import KafkaError

STREAMED = {DefaultRecordBatch.CODEC_LZ4: "lz4", DefaultRecordBatch.CODEC_ZSTD: "zstd"}
# Java cuts snappy into blocks behind a header of its own; other clients send one block without.
XERIAL, XERIAL_HEADER_SIZE = b"\x82SNAPPY\x00", 16


def decompress(codec: int, payload: memoryview) -> bytes:
    """Decompress the records of a batch."""
    if codec == DefaultRecordBatch.CODEC_NONE:
        return bytes(payload)
    if codec == DefaultRecordBatch.CODEC_GZIP:
        return gzip.decompress(payload)
    if codec == DefaultRecordBatch.CODEC_SNAPPY:
        return _decompress_snappy(bytes(payload))
    if codec in STREAMED:
        import pyarrow as pa  # rarely needed, and slow to import

        return bytes(pa.input_stream(pa.py_buffer(payload), compression=STREAMED[codec]).read())
    raise KafkaError(
        f"a batch is compressed by codec {codec}, which the second reader does not know.",
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
    """A block of snappy begins with its size, seven bits a byte, the lowest first."""
    import pyarrow as pa

    size = 0
    for index, byte in enumerate(block):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size))
