"""Both readers fulfil one contract, on a real broker."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.errors import LogLostError, PenstockError, ReadError
from penstock.kafka.admin import read_log
from penstock.kafka.readers import native, reading
from penstock.kafka.readers import spark as spark_reader
from penstock.kafka.readers.contract import CheckedChunk, Source
from penstock.kafka.readers.data_source import register_source
from penstock.model.ranges import Chunk, Range, cut_chunks
from producing import Account, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock.kafka.readers.contract import Part
    from penstock.model.log import Isolation
    from penstock_stack.broker import Broker

    Read = Callable[[Source, Range], tuple[list[tuple[int, bytes | None]], CheckedChunk]]


# The native reader reads by confluent_kafka, or in Rust where that is installed.
READERS = ["native", *(["rust"] if find_spec("penstock_native") else []), "spark"]


@pytest.fixture(params=READERS)
def read(request: pytest.FixtureRequest) -> Read:
    """Read a range through the checks; the offsets and values come back, and what was counted."""
    if request.param == "spark":
        session: SparkSession = request.getfixturevalue("spark")

    def run(source: Source, range_: Range) -> tuple[list[tuple[int, bytes | None]], CheckedChunk]:
        chunk = Chunk(0, range_)
        source = replace(source, rust=request.param == "rust")
        checked = native.open_chunks(source, [chunk])
        parts = _collect(session, source, [chunk]) if request.param == "spark" else native.read_chunks(source, [chunk])
        found = [
            pair for _, batch in checked.check(parts) for pair in zip(batch.offsets.tolist(), batch.values, strict=True)
        ]  # fmt: skip
        return found, checked.chunks[0]

    return run


def _collect(session: SparkSession, source: Source, chunks: Sequence[Chunk]) -> Iterator[Part]:
    spark_reader.check_log(source, chunks)
    table = spark_reader.open_group(session, source, chunks).toArrow()
    yield from spark_reader.read_parts(chunks, iter(table.to_batches()))


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic())


def source_of(account: Account, isolation: Isolation = "read_committed") -> Source:
    return Source({"bootstrap.servers": account.bootstrap}, account.topic, isolation)


def orders(first: int, count: int) -> list[bytes | None]:
    return [order(number) for number in range(first, first + count)]


def end_of(account: Account) -> int:
    return read_log({"bootstrap.servers": account.bootstrap}, account.topic, "read_committed").partitions[0].end


def test_holes_are_counted_anywhere_and_no_aborted_record_is_read(read: Read, account: Account) -> None:
    account.transact(orders(0, 5), commit=False)
    account.transact(orders(5, 5), commit=True)
    account.transact(orders(10, 3), commit=False)
    account.send_orders(4, first=13)
    account.transact(orders(17, 2), commit=False)
    end = end_of(account)
    found, checked = read(source_of(account), Range(0, 0, end))
    assert {(0, offset) for offset, _ in found} == account.visible()
    assert (checked.records, checked.holes) == (9, end - 9)


def test_a_chunk_may_begin_and_end_inside_holes_and_transactions(read: Read, account: Account) -> None:
    account.transact(orders(0, 6), commit=False)
    account.transact(orders(6, 6), commit=True)
    account.transact(orders(12, 6), commit=False)
    end = end_of(account)
    for from_offset in range(0, end, 3):
        until = min(from_offset + 5, end)
        found, checked = read(source_of(account), Range(0, from_offset, until))
        wanted = [offset for _, offset in sorted(account.visible()) if from_offset <= offset < until]
        assert [offset for offset, _ in found] == wanted
        assert checked.holes == until - from_offset - len(wanted)


def test_a_range_without_a_visible_record_is_all_holes(read: Read, account: Account) -> None:
    account.transact(orders(0, 5), commit=False)
    found, checked = read(source_of(account), Range(0, 0, 6))
    assert (found, checked.holes) == ([], 6)
    account.send_orders(3)
    found, checked = read(source_of(account), Range(0, 1, 5))
    assert (found, checked.holes) == ([], 4)


def test_uncommitted_records_are_read_at_that_isolation_level(read: Read, account: Account) -> None:
    account.transact(orders(0, 5), commit=False)
    found, checked = read(source_of(account, "read_uncommitted"), Range(0, 0, 6))
    assert ([offset for offset, _ in found], checked.holes) == ([0, 1, 2, 3, 4], 1)


def test_no_record_after_the_range_is_read(read: Read, account: Account) -> None:
    account.send_orders(100)
    found, _ = read(source_of(account), Range(0, 10, 20))
    assert found == [(offset, order(offset)) for offset in range(10, 20)]


def test_null_values_and_empty_values_differ(read: Read, account: Account) -> None:
    account.send([None, b""])
    found, _ = read(source_of(account), Range(0, 0, 2))
    assert found == [(0, None), (1, b"")]


def test_a_log_start_after_the_range_is_a_loss_with_its_offsets(read: Read, account: Account) -> None:
    account.send_orders(50)
    admin = AdminClient({"bootstrap.servers": account.bootstrap})
    for future in admin.delete_records([TopicPartition(account.topic, 0, 20)]).values():
        future.result(timeout=30)
    with pytest.raises(LogLostError) as caught:
        read(source_of(account), Range(0, 10, 30))
    assert caught.value.ranges == (Range(0, 10, 20),)
    assert "starts at offset 20" in str(caught.value)


def test_a_log_that_ends_within_the_range_fails(read: Read, account: Account) -> None:
    account.send_orders(10)
    with pytest.raises(ReadError, match="end"):
        read(source_of(account), Range(0, 5, 15))


def test_a_range_beyond_the_end_fails(read: Read, account: Account) -> None:
    account.send_orders(10)
    with pytest.raises(ReadError, match="ends at offset 10"):
        read(source_of(account), Range(0, 12, 15))


def test_a_deleted_topic_fails(read: Read, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STALL_SECONDS", 5.0)
    with pytest.raises(PenstockError, match="gone"):
        read(Source({"bootstrap.servers": account.bootstrap}, "gone", "read_committed"), Range(0, 0, 5))


def test_a_missing_partition_fails(read: Read, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STALL_SECONDS", 5.0)
    with pytest.raises(PenstockError):
        read(source_of(account), Range(7, 0, 5))


def test_many_records_are_read_whole_and_in_order(read: Read, account: Account) -> None:
    account.send_orders(30_000)
    found, checked = read(source_of(account), Range(0, 0, 30_000))
    assert [offset for offset, _ in found] == list(range(30_000))
    assert checked.holes == 0


@pytest.mark.parametrize("reader", READERS)
def test_chunks_that_are_read_together_are_whole_with_their_own_holes(
    request: pytest.FixtureRequest, kafka: Broker, make_topic: MakeTopic, reader: str
) -> None:
    account = Account(kafka.bootstrap, make_topic(12))
    for partition in range(12):
        account.send_orders(partition + 1, partition=partition)
        account.transact(orders(0, 3), commit=partition % 2 == 0, partition=partition, name=f"t{partition}")
        account.send_orders(partition % 3, partition=partition)
    source = replace(source_of(account), rust=reader == "rust")
    log = read_log(source.settings, account.topic, "read_committed").partitions
    # Two chunks of each partition, the second begins behind a gap: none may bring what is the other's, or nobody's.
    ranges = [Range(number, 0, 2) for number in log] + [Range(number, 3, part.end) for number, part in log.items()]
    chunks = cut_chunks([range_ for range_ in ranges if len(range_)], 100)
    checked = native.open_chunks(source, chunks)
    parts = (
        _collect(request.getfixturevalue("spark"), source, chunks)
        if reader == "spark"
        else native.read_chunks(source, chunks)
    )
    found = [(batch.partition, offset) for _, batch in checked.check(parts) for offset in batch.offsets.tolist()]

    asked = {
        (range_.partition, offset) for range_ in ranges for offset in range(range_.from_offset, range_.until_offset)
    }
    assert len(found) == len(set(found))
    assert set(found) == account.visible() & asked
    for chunk in chunks:
        within = sum(1 for partition, offset in found if partition == chunk.range.partition
                     and chunk.range.from_offset <= offset < chunk.range.until_offset)  # fmt: skip
        counted = checked.chunks[chunk.task]
        assert (counted.records, counted.holes) == (within, len(chunk.range) - within)


@pytest.mark.parametrize(("first_hole", "lost"), [(4, None), (2, Range(0, 2, 4)), (None, Range(0, 0, 4))])
def test_holes_below_a_new_log_start_are_losses_with_the_spark_reader(
    account: Account, first_hole: int | None, lost: Range | None
) -> None:
    account.send_orders(10)
    account.delete_before(4)
    source, chunks = source_of(account), [Chunk(7, Range(0, 0, 10)), Chunk(8, Range(1, 0, 10))]

    spark_reader.confirm_holes(source, chunks, {})
    if lost is None:
        spark_reader.confirm_holes(source, chunks, {7: first_hole})
        return
    with pytest.raises(LogLostError) as caught:
        spark_reader.confirm_holes(source, chunks, {7: first_hole})
    assert caught.value.ranges == (lost,)


def test_holes_beyond_the_log_s_end_are_refused_with_the_spark_reader(account: Account) -> None:
    account.send_orders(10)

    with pytest.raises(ReadError, match="ends at offset 10"):
        spark_reader.confirm_holes(source_of(account), [Chunk(0, Range(0, 0, 12))], {0: 10})


def test_the_data_source_returns_explicit_ranges(spark: SparkSession, account: Account) -> None:
    account.send_orders(10)
    account.transact(orders(10, 5), commit=False)
    account.send([b"last"], key=b"k")
    register_source(spark, {"bootstrap.servers": account.bootstrap})
    frame = (
        spark.read.format("penstock").option("topic", account.topic).option("ranges", f"[[0, 5, {end_of(account)}]]")
    )
    rows = frame.option("recordsPerChunk", "4").load().orderBy("offset").collect()
    assert [row["offset"] for row in rows] == [5, 6, 7, 8, 9, 16]
    assert (bytes(rows[-1]["key"]), bytes(rows[-1]["value"])) == (b"k", b"last")
    assert account.bootstrap not in str(spark.sparkContext.getConf().getAll())
