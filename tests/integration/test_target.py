"""The target and its leaves beside what other people do in the database: names, indexes, locks."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COLUMNS, declare
from fix_loads import Bind, plan_rows, stage_rows
from loading_process import locked, query
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.errors import PenstockError
from penstock.ledger.connection import connect, open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.load.publish import publish_load
from penstock.load.stage import begin_staging
from penstock.model.ranges import Range
from penstock.target.postgres import locks
from penstock.target.postgres.chunks import quote_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.declaration.pipeline import Pipeline

LONGER = {**COLUMNS, "more": {"type": "text", "path": "$.more"}}


def publish(db: str, bound: Bind, start: int, until: int, pipeline: Pipeline | None = None) -> int:
    """A load of partition 0 with a row for each offset."""
    load_id = stage_rows(db, [Range(0, start, until)], pipeline=pipeline)
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    publish_load(db, bound(db), load_id)
    return load_id


def plan(db: str, pipeline: Pipeline) -> int:
    """The next load of partition 0, planned."""
    with connect(db) as connection:
        return plan_rows(connection, pipeline, [Range(0, 100, 200)]).load_id


@pytest.fixture
def loaded(db: str, bound: Bind) -> str:
    """A database whose target has two leaves and an index."""
    publish(db, bound, 0, 50, declare("topic", indexes=[["id"]]))
    publish(db, bound, 50, 100, declare("topic", indexes=[["id"]]))
    return db


def indexes(db: str) -> list[str]:
    """The columns of the target's own indexes, as PostgreSQL writes them."""
    found = query(db, "select indexdef from pg_indexes where schemaname = 'analytics' and tablename = 'orders'")
    return sorted(definition.partition(" USING ")[2] for (definition,) in found)


def test_two_indexes_that_would_get_one_name_both_exist(db: str) -> None:
    columns = {name: {"type": "text", "path": f"$.{name}"} for name in ("a_b", "c", "a", "b_c")} | COLUMNS
    pipeline = declare("topic", columns=columns, indexes=[["a_b", "c"], ["a", "b_c"]])

    begin_staging(db, plan(db, pipeline))

    assert indexes(db) == ["btree (a, b_c)", "btree (a_b, c)"]


def test_an_index_on_the_same_columns_serves_under_any_name(loaded: str) -> None:
    with psycopg.connect(loaded) as connection:
        connection.execute("alter index analytics.orders_id_idx rename to by_number")
        connection.execute("create index orders_note_idx on analytics.orders (note) where id > 5")

    begin_staging(loaded, plan(loaded, declare("topic", indexes=[["id"], ["note"]])))

    assert indexes(loaded) == ["btree (id)", "btree (note)", "btree (note) WHERE (id > 5)"]


def test_a_target_that_fits_is_prepared_without_a_lock_on_its_leaves(loaded: str) -> None:
    load_id = plan(loaded, declare("topic", indexes=[["id"]]))

    with locked(loaded, "lock table analytics.orders in share row exclusive mode"):
        assert begin_staging(f"{loaded}?options=-c%20statement_timeout%3D20s", load_id) == 1


@pytest.mark.parametrize(
    "taken",
    [
        "create table {0}.orders_load_{1} ()",
        "create domain {0}.orders_load_{1} as int",
        "create table {0}.load_{1}_1_pkey ()",
    ],
)
def test_a_name_that_the_next_leaf_would_get_does_not_stop_a_publish(loaded: str, bound: Bind, taken: str) -> None:
    [(last,)] = query(loaded, "select max(load_id) from penstock.load")
    with psycopg.connect(loaded) as connection:
        connection.execute(taken.format("analytics", last + 1).encode())

    publish(loaded, bound, 100, 150)

    assert query(loaded, "select count(*), count(distinct _load_id) from analytics.orders") == [(150, 3)]


def test_a_table_named_like_the_kept_rows_does_not_stop_a_rollback(loaded: str, bound: Bind) -> None:
    load_id = publish(loaded, bound, 100, 150)
    with psycopg.connect(loaded) as connection:
        connection.execute(f"create table analytics.load_{load_id} ()".encode())

    roll_back(loaded, load_id, "tester", "it was wrong")
    with psycopg.connect(loaded) as connection:
        connection.execute(f"create table analytics.orders_load_{load_id} ()".encode())
    undo_rollback(loaded, load_id, "tester", "it was right")

    assert query(loaded, "select count(*), count(distinct _load_id) from analytics.orders") == [(150, 3)]


@contextmanager
def reading_all_the_while(db: str) -> Iterator[list[int]]:
    """Readers come one after the other, and none of them waits for 3 s; how many rows each saw."""
    seen: list[int] = []
    failed: list[Exception] = []
    ended = threading.Event()

    def read() -> None:
        try:
            with psycopg.connect(db, autocommit=True) as connection:
                connection.execute("set lock_timeout = '3s'")
                while not ended.is_set():
                    row = connection.execute("select count(*) from analytics.orders").fetchone()
                    seen.append(row[0] if row else -1)
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
    assert not failed
    assert seen


def add_a_column(db: str) -> Any:
    planned = query(db, "select load_id from penstock.load where state = 'planned'")
    load_id = planned[0][0] if planned else plan(db, declare("topic", columns=LONGER, indexes=[["id"]]))
    return begin_staging(db, load_id)


def take_a_load_out(db: str) -> Any:
    [(newest,)] = query(db, "select max(load_id) from penstock.load where state = 'published'")
    return roll_back(db, newest, "tester", "it was wrong")


@pytest.mark.parametrize("change", [add_a_column, take_a_load_out])
@pytest.mark.parametrize("read", ["analytics.orders", "only analytics.orders", "analytics.orders_load_2"])
def test_no_reader_waits_behind_a_long_one_and_the_refusal_names_the_long_one(
    monkeypatch: pytest.MonkeyPatch, loaded: str, change: Any, read: str
) -> None:
    monkeypatch.setattr(locks, "TRY_SECONDS", 6)
    with psycopg.connect(loaded, application_name="a report") as long:
        long.execute(f"select count(*) from {read}".encode())
        with reading_all_the_while(loaded) as seen, pytest.raises(PenstockError) as refused:
            change(loaded)
        assert set(seen) == {100}
        told = str(refused.value)
        assert f"session {long.info.backend_pid} (role" in told
        assert "application a report, in a transaction since 20" in told
        assert "last statement: select count(*) from" in told
        assert f"select pg_terminate_backend({long.info.backend_pid})" in refused.value.next_step

    change(loaded)


def test_the_words_of_a_refusal_come_from_no_line_that_shows_the_row(db: str) -> None:
    with psycopg.connect(db) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("""select '{"m": "ERROR: s3cr3t", bad}'::json""")
    assert "ERROR: s3cr3t" in str(caught.value), "PostgreSQL shows the row"
    assert quote_refusal(caught.value) == "invalid input syntax for type json (SQLSTATE 22P02)"
