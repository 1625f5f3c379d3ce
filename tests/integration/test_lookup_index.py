"""The indexes by which checks look up earlier loads: built with each load, found again, and dropped when unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from declaring import declare
from fix_loads import Bind, stage_rows
from loading_process import query
from penstock import ExpectKeyInOnePartition, ExpectKeyOrderWithinPartition, ExpectSequenceWithoutGaps
from penstock.load.publish import publish_load
from penstock.load.validate import validate_load
from penstock.model.ranges import Range
from penstock.quality.data.batch import PostgresBatch
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Sequence

IDS = {"expect": "expect_business_id_unique", "columns": ["note"], "across": "30d"}
ORDER = {"expect": "expect_key_order_within_partition", "key": "note", "order_by": "id", "across": "30d"}
# The indexes of the target's leaves, without their primary keys, and whether each belongs to an index of the target.
OF_LEAVES = """
select pg_get_indexdef(i.indexrelid) ~ 'hashtextextended', h.inhparent is not null
from pg_inherits l join pg_index i on i.indrelid = l.inhrelid left join pg_inherits h on h.inhrelid = i.indexrelid
where l.inhparent = 'analytics.orders'::regclass and not i.indisprimary
"""
OF_TARGET = """
select substring(pg_get_indexdef(indexrelid) from 'USING btree (.*)') from pg_index
where indrelid = 'analytics.orders'::regclass order by indexrelid
"""


def publish(db: str, bound: Bind, from_offset: int, checks: Sequence[dict[str, Any]]) -> None:
    load_id = stage_rows(db, [Range(0, from_offset, from_offset + 10)], pipeline=declare("topic", checks=checks))
    verdict = validate_load(db, load_id)
    assert verdict.passed, verdict.cause
    publish_load(db, bound(db), load_id)


def test_each_load_brings_its_part_of_the_index_of_a_check_across_loads(db: str, bound: Bind) -> None:
    publish(db, bound, 0, [IDS])
    publish(db, bound, 10, [IDS])
    assert query(db, OF_TARGET) == [("(hashtextextended(note, (0)::bigint))",)]
    assert query(db, OF_LEAVES) == [(True, True), (True, True)]


def test_indexes_follow_the_declared_checks_and_serve_several_of_them(db: str, bound: Bind) -> None:
    publish(db, bound, 0, [IDS])
    publish(db, bound, 10, [IDS, ORDER])
    assert query(db, OF_TARGET) == [("(hashtextextended(note, (0)::bigint), _partition, id) INCLUDE (_load_id)",)]
    assert query(db, OF_LEAVES) == [(True, True), (True, True)]
    publish(db, bound, 20, [{**IDS, "across": None}])
    assert (query(db, OF_TARGET), query(db, OF_LEAVES)) == ([], [])


def test_an_index_of_a_person_on_the_target_is_never_dropped(db: str, bound: Bind) -> None:
    publish(db, bound, 0, [IDS])
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("create index of_ann on analytics.orders (hashtextextended(note, 0))")
    publish(db, bound, 10, [])
    assert query(db, "select relname::text from pg_class where relname = 'of_ann'") == [("of_ann",)]


def test_few_rows_are_looked_up_in_a_long_history_and_many_rows_scan_a_short_one(db: str) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(superuser(db)), poolclass=NullPool)
    with engine.connect() as connection:

        def write_match(rows: int, history_rows: int, leaves: int) -> str:
            connection.execute(text("drop table if exists batch, history"))
            connection.execute(text("create table history (id bigint, _load_id bigint) partition by range (_load_id)"))
            for leaf in range(leaves):
                bounds = f"from ({leaf}) to ({leaf + 1})"
                connection.execute(text(f"create table leaf_{leaf} partition of history for values {bounds}"))
            share = f"select n, n % {leaves} from generate_series(1, {history_rows}) n"
            connection.execute(text(f"insert into history {share}"))
            connection.execute(text(f"create table batch as select n as id from generate_series(1, {rows}) n"))
            connection.execute(text("analyze batch"))
            connection.execute(text("analyze history"))
            batch = PostgresBatch(connection, sql.Identifier("batch"))
            return batch.match("history", "history", ["id"], "s.id = h.id")

        assert "lateral" in write_match(10, 1_000, 1)
        assert "lateral" not in write_match(10, 10, 1)
        assert "lateral" in write_match(10, 1_000, 4)
        assert "lateral" not in write_match(10, 1_000, 100), "each leaf costs a lookup"


@pytest.mark.parametrize(
    "expectation",
    [
        ExpectKeyOrderWithinPartition(key="customer", order_by="version"),
        ExpectSequenceWithoutGaps(key="customer", sequence="version"),
        ExpectKeyInOnePartition(key="customer"),
    ],
    ids=lambda expectation: expectation.expectation_type,
)
def test_the_index_of_a_check_does_not_name_a_page_for_each_staged_row(db: str, expectation: Any) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(superuser(db)), poolclass=NullPool)
    with engine.connect() as connection:
        rows = (
            "select n * 7919 % 30011 as customer, n as version, n % 4 as _partition, n as _offset, now() as _timestamp"
            " from generate_series(1::bigint, 30000) n"
        )
        connection.execute(text(f"create table batch as {rows}"))
        connection.execute(text("create index on batch (customer, _partition, version)"))
        connection.execute(text("analyze batch"))
        connection.execute(text("set random_page_cost = 1.1"))  # as the checks do
        batch = PostgresBatch(connection, sql.Identifier("batch"))
        plan = "\n".join(row["QUERY PLAN"] for row in batch.ask("explain " + expectation.write_query(batch)))
    assert "Seq Scan on batch" in plan
    assert "Index Scan" not in plan


def test_texts_too_long_for_an_index_can_be_ids(db: str, bound: Bind) -> None:
    publish(db, bound, 0, [])
    with psycopg.connect(superuser(db)) as connection:
        # Random texts, because PostgreSQL would compress a repeated one to less than the limit of an index.
        connection.execute(
            "update analytics.orders set note = (select string_agg(md5(random()::text || n), '')"
            " from generate_series(1, 1000) n)"
        )
    publish(db, bound, 10, [IDS])
    assert query(db, OF_LEAVES) == [(True, True), (True, True)]
