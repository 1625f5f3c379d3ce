"""Both record paths, in Rust and in Python, give PostgreSQL and the ledger the same."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from adbc_driver_postgresql import dbapi
from psycopg import sql

from column_samples import EVERY_SPELLING
from penstock.declaration.columns import parse_type
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.native import open_group, read_whole
from penstock.kafka.readers.rust import BATCH_BYTES
from penstock.load.task import stage_group
from penstock.model.ranges import Chunk, Range, cut_chunks
from penstock.records.decoder import Decoder, Layout, row_types
from penstock.records.formats.base import Field
from penstock.records.rust import make_encoder
from penstock.target.assignment import make_assignment
from penstock.target.postgres.binary_copy import copy_binary
from producing import Account, order
from record_differences import BATCH, make_batch, make_layout, run
from staging_loads import begin

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from staging_loads import Begun

RECORDS = 200_000
# One column of each type, whose records mostly fit.
EVERY_TYPE = Layout(
    tuple(Field(f"c{place}", parse_type(type_), (f"c{place}",)) for place, type_ in enumerate(EVERY_SPELLING))
)
POISON: list[bytes | None] = [
    b"{", b"{}", b'{"id": 99999999999999999999}', b'{"id": 1, "note": "\\u0000"}', b'{"id": 1, "note": "\xff"}', None,
]  # fmt: skip


def test_200_000_random_records_are_read_as_by_the_reference(postgres: object) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it if the test fails
    assert run(RECORDS, seed) > RECORDS // 10


def test_postgresql_gets_the_same_values_of_every_type_from_both_paths(db: str) -> None:
    dice = random.Random(7)
    layouts = [EVERY_TYPE, *(make_layout(dice) for _ in range(20))]
    with psycopg.connect(db, autocommit=True) as connection, closing(dbapi.connect(db)) as adbc:
        for number, layout in enumerate(layouts):
            batch = make_batch(dice, layout, BATCH)
            decoded, encoder = Decoder(layout, 7).decode(batch), make_encoder(layout, 7)
            assert encoder is not None
            encoded = encoder.encode(batch)
            assert [each.offset for each in encoded.rejected] == [each.offset for each in decoded.rejected]
            columns = ", ".join(f'"{name}" {type_.sql}' for name, type_ in row_types(layout).items())
            for path in ("rust", "python"):
                connection.execute(f"create table public.{path}_{number} ({columns})".encode())
            copy_binary(connection, sql.Identifier("public", f"rust_{number}"), list(row_types(layout)), encoded.pieces)
            with closing(adbc.cursor()) as cursor:
                cursor.adbc_ingest(f"python_{number}", decoded.rows, mode="append", db_schema_name="public")
            adbc.commit()
            assert read(connection, f"rust_{number}") == read(connection, f"python_{number}")


def read(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    return connection.execute(f"select t::text from public.{table} t order by _offset".encode()).fetchall()


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic(2))


def stage(begun: Begun, *, rust: bool) -> list[Any]:
    """Stage every chunk in this process by one path, and return the rows, the quarantine and the tasks."""
    assignment = make_assignment(replace(begun.settings, rust=rust), begun.load(), begun.attempt)
    chunks = cut_chunks(list(begun.load().ranges), 500)
    stage_group(assignment, chunks, open_group(assignment.source, chunks))
    name = f"penstock_stage.load_{begun.load_id}_{begun.attempt}"
    tasks = (
        "select task, partition, from_offset, until_offset, rows, quarantined, holes, log_hash from penstock.stage_task"
    )
    quarantine = (
        'select partition, "offset", reason, detail, key, value, headers, record_timestamp from penstock.quarantine'
    )
    return [
        begun.query(f"select id, note, _partition, _offset, _timestamp, _key from {name} order by 3, 4"),
        begun.query(f"{quarantine} where load_id = {begun.load_id} order by 1, 2"),
        begun.query(f"{tasks} where load_id = {begun.load_id} order by 1"),
    ]


def test_a_load_by_rust_equals_the_load_by_python_with_its_quarantine_and_its_sums(db: str, account: Account) -> None:
    account.send_orders(900)
    account.send(POISON, key=b"key")
    account.transact([order(number) for number in range(5)], commit=False)
    account.send_orders(300, partition=1)
    by_rust, by_python = (
        begin(db, account.bootstrap, account.topic, name=name, key="text") for name in ("rust", "python")
    )

    rows, quarantined, tasks = stage(by_rust, rust=True)
    assert [rows, quarantined, tasks] == stage(by_python, rust=False)
    assert (len(rows), len(quarantined)) == (1_200, len(POISON))
    for begun, path in ((by_rust, "rust"), (by_python, "python")):
        found = begun.query(f"select distinct path from penstock.stage_task where load_id = {begun.load_id}")
        assert found == [(path,)]


def test_a_batch_is_bounded_by_its_bytes_whatever_the_size_of_its_records(account: Account) -> None:
    account.send([b"x" * 100] * 3_000 + [b"y" * 500_000] * 40, partition=0)
    source = Source({"bootstrap.servers": account.bootstrap}, account.topic, "read_committed", rust=True)
    sizes = [
        sum(len(value or b"") for value in batch.values) for batch in read_whole(source, Chunk(0, Range(0, 0, 3_040)))
    ]
    assert sum(sizes) == 3_000 * 100 + 40 * 500_000
    # Records are taken by their average size: the first large ones may all be taken at once.
    assert sorted(sizes)[-2] <= BATCH_BYTES + 500_000


def test_an_error_of_the_server_fails_the_task_with_its_message(db: str, account: Account) -> None:
    account.send_orders(100)
    begun = begin(db, account.bootstrap, account.topic)
    assignment = replace(make_assignment(begun.settings, begun.load(), begun.attempt), table="missing")
    chunks = cut_chunks(list(begun.load().ranges), 500)
    with pytest.raises(
        Exception, match=r'PostgreSQL ended the COPY of task 0: .*"penstock_stage.missing" does not exist'
    ):
        stage_group(assignment, chunks, open_group(assignment.source, chunks))


def test_the_ledger_says_which_path_the_records_of_a_load_took(db: str, account: Account, spark: Any) -> None:
    account.send_orders(100)
    for name, rust in (("one", True), ("two", False)):
        begun = begin(db, account.bootstrap, account.topic, name=name)
        replace(begun, settings=replace(begun.settings, rust=rust)).stage(spark)
    assert begun.query("select pipeline, path from penstock.loads order by 1") == [("one", "rust"), ("two", "python")]
