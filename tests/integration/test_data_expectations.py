"""Penstock's own expectations, each on rows that must fail it and on rows that pass, on PostgreSQL and on Spark."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from penstock import (
    ExpectBusinessIdUnique,
    ExpectFresh,
    ExpectKeyInOnePartition,
    ExpectKeyOrderWithinPartition,
    ExpectRecordTimeNear,
    ExpectSameWhenReadAgain,
    ExpectSequenceWithoutGaps,
    ExpectVolumeAsUsual,
)
from penstock.quality.data.batch import PostgresBatch
from penstock.quality.gx import get_context
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

# The engine's fixture is requested by name, which the automatic mark does not see.
pytestmark = pytest.mark.services

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = ("customer", "order_id", "version", "seen", "_load_id", "_partition", "_offset", "_timestamp")
TYPES = ("text", "bigint", "bigint", "timestamptz", "bigint", "int", "bigint", "timestamptz")

Row = tuple[Any, ...]


def row(partition: int, offset: int, customer: str | None = "ann", **given: Any) -> Row:
    """A row of load 7, whose version and time rise with its offset."""
    values = {
        "customer": customer,
        "order_id": 1000 * partition + offset,
        "version": offset,
        "seen": NOON + timedelta(seconds=offset),
        "_load_id": 7,
        "_partition": partition,
        "_offset": offset,
        "_timestamp": NOON + timedelta(seconds=offset),
    } | given
    return tuple(values[name] for name in COLUMNS)


class Validate(Protocol):
    """Validates an expectation on rows; `earlier` are the rows of the table `analytics.history`."""

    def __call__(self, expectation: Any, rows: Sequence[Row], earlier: Sequence[Row] = ()) -> Any: ...


@pytest.fixture(params=["postgresql", "spark"])
def validate(request: pytest.FixtureRequest) -> Validate:
    if request.param == "postgresql":
        run = _validate_in_postgresql(superuser(request.getfixturevalue("db")))
    else:
        run = _validate_in_spark(request.getfixturevalue("spark"))

    def validate(expectation: Any, rows: Sequence[Row], earlier: Sequence[Row] = ()) -> Any:
        with warnings.catch_warnings(action="ignore"):  # of Great Expectations about itself
            result = run(expectation, rows, earlier)
        assert not result.exception_info.get("raised_exception"), result.exception_info
        return result

    return validate


def _validate_in_postgresql(uri: str) -> Validate:
    def validate(expectation: Any, rows: Sequence[Row], earlier: Sequence[Row] = ()) -> Any:
        described = ", ".join(map(" ".join, zip(COLUMNS, TYPES, strict=True)))
        with psycopg.connect(uri) as connection:
            connection.execute("create schema if not exists analytics")
            for table, given in (("batch", rows), ("history", earlier)):
                connection.execute(f"drop table if exists analytics.{table}")
                connection.execute(f"create table analytics.{table} ({described})")
                with connection.cursor().copy(f"copy analytics.{table} from stdin") as copy:
                    for each in given:
                        copy.write_row(each)
                connection.execute(f"analyze analytics.{table}")
        source = get_context(mode="ephemeral").data_sources.add_sql(
            "rows",
            connection_string="postgresql+psycopg://",
            kwargs={"creator": lambda: psycopg.connect(uri), "poolclass": NullPool},
        )
        asset = source.add_table_asset("batch", table_name="batch", schema_name="analytics")
        return asset.add_batch_definition_whole_table("all").get_batch().validate(expectation)

    return validate


def _validate_in_spark(spark: SparkSession) -> Validate:
    def validate(expectation: Any, rows: Sequence[Row], earlier: Sequence[Row] = ()) -> Any:
        written = {"text": "string", "timestamptz": "timestamp"}
        schema = ", ".join(f"`{name}` {written.get(type_, type_)}" for name, type_ in zip(COLUMNS, TYPES, strict=True))
        spark.sql("create database if not exists analytics")
        spark.createDataFrame(list(earlier), schema).createOrReplaceTempView("history")
        if getattr(expectation, "history", None):
            expectation.history = "history"
        frame = spark.createDataFrame(list(rows), schema)
        asset = get_context(mode="ephemeral").data_sources.add_spark("rows").add_dataframe_asset("batch")
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": frame})
        return batch.validate(expectation)

    return validate


def details(result: Any) -> dict[str, Any]:
    return dict(result.result["details"])


def by_partition(result: Any) -> dict[int, dict[str, Any]]:
    return {each["partition"]: each["observed"] for each in details(result)["partitions"]}


RISING = [row(partition, offset, customer) for partition in (0, 1) for offset, customer in enumerate("ababab")]


# The order of a key.


def test_a_rising_value_of_each_key_passes(validate: Validate) -> None:
    mixed = [*RISING, row(0, 10, None, version=0), row(0, 11, "a", version=None), row(0, 12, "c", version=-5)]
    result = validate(ExpectKeyOrderWithinPartition(key="customer", order_by="version"), mixed)
    assert result.success
    assert details(result) == {"observed": {"late": 0, "partitions": 0}, "partitions": []}


def test_late_records_are_counted_by_partition_with_the_worst_delay(validate: Validate) -> None:
    rows = [*RISING, row(1, 6, "a", version=1), row(1, 7, "a", version=3), row(1, 8, "a", version=9)]
    result = validate(ExpectKeyOrderWithinPartition(key="customer", order_by="version"), rows)
    assert not result.success
    places = [{"partition": 1, "offset": 6, "kind": "late"}, {"partition": 1, "offset": 7, "kind": "late"}]
    assert by_partition(result) == {1: {"late": 2, "worst_delay": 3, "places": places}}
    assert details(result)["observed"] == {"late": 2, "worst_delay": 3, "places": places, "partitions": 1}


def test_an_equal_value_is_not_late(validate: Validate) -> None:
    assert validate(
        ExpectKeyOrderWithinPartition(key="customer", order_by="version"), [*RISING, row(0, 9, "b", version=5)]
    ).success


def test_a_tolerance_admits_small_falls_only(validate: Validate) -> None:
    rows = [*RISING, row(0, 6, "a", version=2), row(0, 7, "b", version=1)]
    result = validate(ExpectKeyOrderWithinPartition(key="customer", order_by="version", tolerance=2), rows)
    assert [place["offset"] for place in details(result)["observed"]["places"]] == [7]


def test_the_order_of_times_has_a_tolerance_in_seconds(validate: Validate) -> None:
    rows = [*RISING, row(0, 6, "a", seen=NOON - timedelta(seconds=26)), row(0, 7, "a", seen=NOON)]
    result = validate(ExpectKeyOrderWithinPartition(key="customer", order_by="seen", tolerance="10s"), rows)
    assert by_partition(result)[0] == {
        "late": 1, "worst_delay": 30, "places": [{"partition": 0, "offset": 6, "kind": "late"}],
    }  # fmt: skip


def test_the_order_of_a_key_is_compared_with_earlier_loads(validate: Validate) -> None:
    earlier = [row(0, 0, "a", version=50, _load_id=3), row(1, 0, "b", version=99, _load_id=3)]
    rows = [row(0, 10, "a", version=40), row(0, 11, "a", version=60), row(0, 12, "b", version=2)]
    expectation = ExpectKeyOrderWithinPartition(key="customer", order_by="version", history="analytics.history")
    result = validate(expectation, rows, earlier)
    assert by_partition(result)[0]["places"] == [{"partition": 0, "offset": 10, "kind": "late"}]
    assert by_partition(result)[0]["worst_delay"] == 10


def test_records_after_the_batch_or_before_the_window_do_not_count(validate: Validate) -> None:
    earlier = [row(0, 20, "a", version=50, _load_id=3), row(0, 1, "a", version=70, _load_id=2)]
    expectation = ExpectKeyOrderWithinPartition(
        key="customer", order_by="version", history="analytics.history", since_load=3
    )
    assert validate(expectation, [row(0, 10, "a", version=40)], earlier).success


# Business ids.


def test_ids_that_come_once_pass(validate: Validate) -> None:
    rows = [*RISING, row(0, 10, order_id=None), row(0, 11, order_id=None)]
    assert validate(ExpectBusinessIdUnique(columns=["order_id"]), rows).success


@pytest.mark.parametrize(
    ("type_", "one", "same", "other"),
    [
        ("text", "a", "a", "a "),
        ("character(3)", "a", "a ", "b"),
        ("bytea", r"\x6162", "ab", "abc"),
        ("numeric", "1.0", "1.00", "1.01"),
        ("double precision", "0", "-0", "1e-300"),
        ("jsonb", '{"a": 1.0}', '{"a": 1.00}', '{"a": "1.0"}'),
        ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "0" * 32),
    ],
)
def test_equal_ids_are_copies_however_they_are_written(db: str, type_: str, one: str, same: str, other: str) -> None:
    found = _ask_for_copies(db, type_, [one, other, same])
    assert [(row["_offset"], row["other_offset"]) for row in found] == [(2, 0)]
    assert _ask_for_copies(db, type_, [one, other]) == []


def test_ids_are_compared_once_and_not_in_each_parallel_worker(db: str) -> None:
    eager = "-c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c min_parallel_table_scan_size=0"
    plan = "\n".join(row["QUERY PLAN"] for row in _ask_for_copies(db, "bigint", range(1000), "explain ", eager))
    scans = [line for line in plan.splitlines() if "Scan on batch" in line]
    assert "CTE suspected" in plan, plan
    assert len(scans) == 3, plan


def _ask_for_copies(db: str, type_: str, ids: Iterable[object], before: str = "", options: str = "") -> list[Any]:
    """Run the query of ExpectBusinessIdUnique on rows with some ids, or explain it."""
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("create schema if not exists analytics")
        connection.execute("drop table if exists analytics.batch")
        connection.execute(
            f"create table analytics.batch (id {type_}, _partition int, _offset bigint, _timestamp timestamptz)"
        )
        with connection.cursor().copy("copy analytics.batch (_partition, _offset, id) from stdin") as copy:
            for offset, id_ in enumerate(ids):
                copy.write_row((0, offset, id_))
        connection.execute("analyze analytics.batch")
    uri = make_conninfo(superuser(db), options=options)
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(uri), poolclass=NullPool)
    with engine.connect() as connected:
        batch = PostgresBatch(connected, sql.Identifier("analytics", "batch"))
        return list(batch.ask(before + ExpectBusinessIdUnique(columns=["id"]).write_query(batch)))


def test_copies_are_told_apart_by_their_distance(validate: Validate) -> None:
    rows = [
        row(0, 0, order_id=1), row(0, 3, order_id=1), row(0, 900, order_id=1), row(0, 5, order_id=2),
        row(1, 950, order_id=2), row(1, 2, order_id=3, customer="x"), row(1, 3, order_id=3, customer="y"),
    ]  # fmt: skip
    result = validate(ExpectBusinessIdUnique(columns=["order_id"], near=100), rows)
    assert by_partition(result) == {
        0: {
            "near_copies": 1, "far_copies": 1, "copies_elsewhere": 0,
            "places": [
                {"partition": 0, "offset": 3, "kind": "near_copies", "other": [0, 0]},
                {"partition": 0, "offset": 900, "kind": "far_copies", "other": [0, 3]},
            ],
        },
        1: {
            "near_copies": 1, "far_copies": 0, "copies_elsewhere": 1,
            "places": [
                {"partition": 1, "offset": 3, "kind": "near_copies", "other": [1, 2]},
                {"partition": 1, "offset": 950, "kind": "copies_elsewhere", "other": [0, 5]},
            ],
        },
    }  # fmt: skip
    assert validate(ExpectBusinessIdUnique(columns=["order_id", "customer"], near=100), rows[-2:]).success


@pytest.mark.parametrize("others", [0, 100])  # few rows are scanned, many are looked up
def test_an_id_of_an_earlier_load_is_a_copy(validate: Validate, others: int) -> None:
    earlier = [row(3, offset, order_id=5000 + offset, _load_id=4) for offset in range(others)]
    earlier += [row(0, 5, order_id=1, _load_id=4), row(1, 6, order_id=2, _load_id=4), row(1, 7, order_id=3, _load_id=3)]
    rows = [row(0, 10, order_id=1), row(0, 11, order_id=2), row(0, 12, order_id=3), row(0, 13, order_id=1)]
    expectation = ExpectBusinessIdUnique(columns=["order_id"], history="analytics.history", since_load=4)
    places = by_partition(validate(expectation, rows, earlier))[0]["places"]
    assert [(place["offset"], place["kind"], place["other"]) for place in places] == [
        (10, "near_copies", [0, 5]), (11, "copies_elsewhere", [1, 6]), (13, "near_copies", [0, 10]),
    ]  # fmt: skip


def test_rows_that_a_replay_replaces_are_not_copies_of_themselves(validate: Validate) -> None:
    earlier = [row(0, offset, order_id=offset, _load_id=4) for offset in range(5)]
    rows = [row(0, offset, order_id=offset) for offset in range(5)]
    expectation = ExpectBusinessIdUnique(columns=["order_id"], history="analytics.history")
    assert validate(expectation, rows, earlier).success


def test_a_text_that_is_an_id_is_found_in_earlier_loads(validate: Validate) -> None:
    expectation = ExpectBusinessIdUnique(columns=["customer"], history="analytics.history")
    result = validate(expectation, [row(0, 10, "x" * 3000)], [row(0, 1, "x" * 3000, _load_id=1)])
    assert details(result)["observed"]["near_copies"] == 1


# Keys in partitions.


def test_keys_with_a_partition_of_their_own_pass(validate: Validate) -> None:
    rows = [row(0, 1, "a"), row(1, 1, "b"), row(0, 2, "a"), row(0, 3, None), row(1, 3, None)]
    assert validate(ExpectKeyInOnePartition(key="customer"), rows).success


def test_a_key_in_two_partitions_names_where_it_moved_and_the_added_ones(validate: Validate) -> None:
    rows = [row(1, 1, "a"), row(0, 5, "a"), row(0, 6, "a"), row(2, 1, "b")]
    result = validate(ExpectKeyInOnePartition(key="customer", added_partitions=[2]), rows)
    assert by_partition(result) == {
        0: {
            "keys_moved": 1, "added_partitions": [2],
            "places": [{"partition": 0, "offset": 5, "kind": "keys_moved", "other": [1, 1]}],
        }
    }  # fmt: skip


def test_a_key_that_was_in_another_partition_in_earlier_loads_has_moved(validate: Validate) -> None:
    earlier = [
        row(0, 1, "a", _load_id=2), row(3, 1, "b", _load_id=2), row(1, 1, "c", _load_id=2), row(2, 1, "d", _load_id=1)
    ]  # fmt: skip
    rows = [row(1, 5, "a"), row(1, 6, "b"), row(1, 7, "c"), row(1, 8, "d"), row(1, 9, "a")]
    expectation = ExpectKeyInOnePartition(key="customer", history="analytics.history", since_load=2)
    places = by_partition(validate(expectation, rows, earlier))[1]["places"]
    assert [(place["offset"], place["other"][0]) for place in places] == [(5, 0), (6, 3)]


# Sequences.


def test_a_sequence_without_gaps_passes_in_any_order_and_with_copies(validate: Validate) -> None:
    rows = [row(0, offset, "a", version=version) for offset, version in enumerate([5, 7, 6, 7, 8])]
    assert validate(ExpectSequenceWithoutGaps(sequence="version", key="customer"), rows).success


def test_missing_numbers_are_counted_and_located(validate: Validate) -> None:
    rows = [row(0, offset, "a", version=version) for offset, version in enumerate([1, 2, 5, 6, 8])]
    rows += [row(0, 9, "b", version=100), row(1, 9, "a", version=1)]
    result = validate(ExpectSequenceWithoutGaps(sequence="version", key="customer"), rows)
    places = [{"partition": 0, "offset": 2, "kind": "gaps"}, {"partition": 0, "offset": 4, "kind": "gaps"}]
    assert by_partition(result) == {0: {"gaps": 2, "widest": 2, "missing": 3, "places": places}}
    assert details(validate(ExpectSequenceWithoutGaps(sequence="version"), rows[:5]))["observed"]["missing"] == 3


@pytest.mark.parametrize("key", ["customer", None])
def test_a_gap_at_the_edge_of_a_load_is_found(validate: Validate, key: str | None) -> None:
    earlier = [row(0, 1, "a", version=4, _load_id=3), row(0, 2, "a", version=9, _load_id=3)]
    rows = [row(0, 5, "a", version=8), row(0, 6, "a", version=9), row(0, 7, "a", version=10)]
    expectation = ExpectSequenceWithoutGaps(sequence="version", key=key, history="analytics.history")
    result = validate(expectation, rows, earlier)
    assert details(result)["observed"]["places"] == [{"partition": 0, "offset": 5, "kind": "gaps"}]
    assert details(result)["observed"]["missing"] == 3
    assert validate(expectation, [row(0, 5, "a", version=10)], earlier).success


# Time and volume.


def test_record_times_near_the_load_pass(validate: Validate) -> None:
    at = (NOON + timedelta(minutes=1)).isoformat()
    expectation = ExpectRecordTimeNear(max_ahead="5m", max_behind="1h", max_disorder="10s", at=at)
    assert validate(expectation, [*RISING, row(0, 9, _timestamp=None)]).success


def test_future_ancient_and_disordered_times_are_counted_apart(validate: Validate) -> None:
    rows = [
        row(0, 1), row(0, 2, _timestamp=NOON + timedelta(hours=2)), row(0, 3),
        row(1, 1, _timestamp=NOON - timedelta(days=40)),
    ]  # fmt: skip
    expectation = ExpectRecordTimeNear(max_ahead="1h", max_behind="30d", max_disorder="1m", at=NOON.isoformat())
    result = by_partition(validate(expectation, rows))
    assert (result[0]["ahead"], result[0]["worst_ahead_seconds"]) == (1, 7200)
    assert (result[0]["disordered"], result[0]["worst_disorder_seconds"]) == (1, 7197)
    assert (result[1]["behind"], result[1]["worst_behind_seconds"]) == (1, 40 * 86_400)
    assert (result[0]["behind"], result[1]["ahead"]) == (0, 0)


def test_the_age_of_the_newest_record_decides_freshness(validate: Validate) -> None:
    expectation = ExpectFresh(within="1h", at=(NOON + timedelta(minutes=60)).isoformat())
    result = validate(expectation, RISING)
    assert (result.success, details(result)["observed"]["age_seconds"]) == (True, 3595)
    assert not validate(ExpectFresh(within="30m", at=expectation.at), RISING).success
    assert validate(ExpectFresh(within="30m"), []).success
    assert not validate(ExpectFresh(within="30m"), RISING).success


def test_an_unusual_number_of_rows_is_found(validate: Validate) -> None:
    usual = ExpectVolumeAsUsual(baseline=[11, 12, 12, 13, 500])
    assert validate(usual, RISING).success
    unusual = validate(usual, [*RISING, *(row(2, offset) for offset in range(10))])
    assert details(unusual)["observed"] == {"rows": 22, "baseline": 5, "usual": 12, "at_least": 6, "at_most": 18}
    assert not unusual.success
    assert validate(ExpectVolumeAsUsual(baseline=[1, 1]), RISING).success


def test_chunks_that_differ_when_read_again_are_named(validate: Validate) -> None:
    chunk = {"partition": 0, "from_offset": 0, "until_offset": 9, "records": 9, "hash": 5, "again_records": 9}
    same, other = {**chunk, "again_hash": 5}, {**chunk, "partition": 2, "again_hash": 6}
    assert validate(ExpectSameWhenReadAgain(share=1, chunks=[same]), RISING).success
    result = validate(ExpectSameWhenReadAgain(share=1, chunks=[same, other]), RISING)
    assert by_partition(result) == {2: {"different": 1, "chunks": [[0, 9]]}}
