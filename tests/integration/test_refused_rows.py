"""Rows whose values PostgreSQL refuses go to the quarantine, and the load continues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer

from penstock.errors import RejectedRecordError, StageError
from penstock.kafka.readers.native import open_group
from penstock.load.task import stage_group
from penstock.model.ranges import cut_chunks
from penstock.target import row_stream
from penstock.target.assignment import make_assignment
from producing import Account
from staging_loads import begin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from staging_loads import Begun

# A page holds 8 KB of a row; a text of 30 bytes is too short to be stored elsewhere.
WIDE = {f"c{place}": {"type": "text"} for place in range(600)}
REFUSED = [7, 8, 3_000, 11_999]


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic())


def wide_row(number: int, filled: int) -> bytes:
    return json.dumps({f"c{place}": f"{number:030}" for place in range(filled)}).encode()


def send_wide(account: Account, count: int, refused: list[int]) -> None:
    account.send(wide_row(number, 600 if number in refused else 1) for number in range(count))


def load_counts(begun: Begun) -> tuple[Any, ...]:
    load = begun.load()
    return load.state, load.rows, load.quarantined, load.holes


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_rows_wider_than_a_page_are_quarantined_and_all_others_staged(
    spark: SparkSession, db: str, account: Account, reader: str
) -> None:
    send_wide(account, 12_000, REFUSED)
    begun = begin(db, account.bootstrap, account.topic, columns=WIDE, reader=reader)
    begun.stage(spark)

    assert load_counts(begun) == ("staged", 12_000 - len(REFUSED), len(REFUSED), 0)
    assert begun.quarantined() == [(0, offset) for offset in REFUSED]
    assert set(begun.staged()) | set(begun.quarantined()) == account.visible()
    kept = begun.query("select distinct reason, detail from penstock.quarantine")
    assert kept == [("refused_by_database", kept[0][1])]
    assert kept[0][1].startswith("row is too big")
    assert "0000" not in kept[0][1]
    assert begun.query('select value from penstock.quarantine order by "offset" limit 1') == [(wide_row(7, 600),)]


def test_a_jsonb_that_exhausts_the_memory_of_a_value_is_quarantined(db: str, account: Account) -> None:
    """40 MiB of digits and commas become more than the 1 GB that PostgreSQL gives one value."""
    producer = Producer(
        {"bootstrap.servers": account.bootstrap, "message.max.bytes": 100_000_000, "compression.type": "gzip"}
    )
    values = [b'{"doc": [1]}', b'{"doc": [' + b",".join([b"1"] * (20 * 2**20)) + b"]}", b'{"doc": [2]}']
    for value in values:
        producer.produce(account.topic, value)
        assert producer.flush(60) == 0
    begun = begin(db, account.bootstrap, account.topic, columns={"doc": {"type": "jsonb"}})
    stage_all(begun)

    assert begun.staged() == [(0, 0), (0, 2)]
    [(reason, detail, size)] = begun.query("select reason, detail, length(value) from penstock.quarantine")
    assert (reason, size) == ("refused_by_database", len(values[1]))
    assert "invalid memory alloc request size" in detail


def stage_all(begun: Begun) -> None:
    """Stage every chunk in this process, as a Spark task does."""
    assignment = make_assignment(begun.settings, begun.load(), begun.attempt)
    chunks = cut_chunks(list(begun.load().ranges), 250_000)
    stage_group(assignment, chunks, open_group(assignment.source, chunks))


def test_poison_stop_and_max_quarantined_apply_to_refused_rows(db: str, account: Account) -> None:
    send_wide(account, 100, [3, 4])
    stopped = begin(db, account.bootstrap, account.topic, name="stopped", columns=WIDE, poison="stop")
    with pytest.raises(RejectedRecordError, match="offset 3 cannot become a row: refused_by_database"):
        stage_all(stopped)
    limited = begin(db, account.bootstrap, account.topic, columns=WIDE, max_quarantined=1)
    with pytest.raises(RejectedRecordError, match="more than `max_quarantined: 1` records"):
        stage_all(limited)
    assert (limited.staged(), limited.quarantined()) == ([], [])


def test_a_table_that_refuses_every_row_stops_the_load(
    db: str, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_stream, "MAX_REFUSED", 50)  # 1,000 in use
    account.send_orders(500)
    begun = begin(db, account.bootstrap, account.topic)
    with psycopg.connect(db) as connection:
        connection.execute(
            f"alter table penstock_stage.load_{begun.load_id}_1 add constraint nothing check (id < 0)".encode()
        )
    with pytest.raises(StageError, match=r"refused 51 rows of a task, and accepted 0: .*violates check constraint"):
        stage_all(begun)
    assert (begun.staged(), begun.quarantined()) == ([], [])


def test_a_retried_task_with_refused_rows_changes_nothing(db: str, account: Account) -> None:
    send_wide(account, 100, [3, 4])
    begun = begin(db, account.bootstrap, account.topic, columns=WIDE)
    stage_all(begun)
    before = begun.staged(), begun.quarantined()
    stage_all(begun)
    assert (
        (begun.staged(), begun.quarantined())
        == before
        == ([(0, n) for n in range(100) if n not in (3, 4)], [(0, 3), (0, 4)])
    )
