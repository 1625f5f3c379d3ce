"""The checkers: does the table hold each record of the log once, and do rows and offsets agree at every moment?

The checkers share no code with the product. They read the ledger through its views, and the log with another client.
The producer's account names the records that were sent.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import psycopg

from second_reader import read_visible

if TYPE_CHECKING:
    from types import TracebackType

    from producing import Account

# In one snapshot: the rows of the table, the rows by the ledger and by the totals, the positions, and the ends of the
# coverage.
MISSING_OR_LOCKED = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.LockNotAvailable,
)
AGREEMENT = """
select (select count(*) from {table}),
       (select coalesce(sum(rows), 0) from penstock.covered where pipeline = %(pipeline)s),
       (select coalesce(sum(rows), 0) from {totals}),
       (select coalesce(json_object_agg(partition, position order by partition), '{{}}') from penstock.positions
        where pipeline = %(pipeline)s and position > origin)::text,
       (select coalesce(json_object_agg(partition, until order by partition), '{{}}')
        from (select partition, max(until_offset) as until from penstock.covered
              where pipeline = %(pipeline)s group by partition) c)::text
"""


TOTALS = """
insert into result as r (digit, rows, sum)
select id % 10, sum(sign), sum(sign * id)
from (select id, 1 as sign from added union all select id, -1 from removed) changed
group by 1
on conflict (digit) do update set rows = r.rows + excluded.rows, sum = r.sum + excluded.sum;
delete from result where rows = 0
"""
EVER = datetime.min.replace(tzinfo=UTC)


def find_faults(db: str, account: Account, pipeline: str = "orders", table: str = "analytics.orders") -> list[str]:
    """Compare table, quarantine and ledger with the records that were sent and with the second reader."""
    with psycopg.connect(db) as connection:
        held = connection.execute(f"select _partition, _offset, id from {table}").fetchall()
        quarantined = connection.execute(
            'select partition, "offset" from penstock.quarantined where pipeline = %s', [pipeline]
        ).fetchall()
        return [
            *_compare_records(account, held, quarantined),
            *_compare_values(account, held),
            *_compare_second_reader(account),
            *_check_tiling(connection, pipeline),
            *_check_accounting(connection, account, pipeline),
        ]


def _compare_records(account: Account, held: list[Any], quarantined: list[Any]) -> list[str]:
    loaded = Counter([(partition, offset) for partition, offset, _ in held] + [tuple(row) for row in quarantined])
    visible = account.visible()
    return [
        *(f"{record} is in the table {times} times" for record, times in loaded.items() if times > 1),
        *(f"{record} is missing" for record in sorted(visible - loaded.keys())),
        *(f"{record} was never committed, and is in the table" for record in sorted(loaded.keys() - visible)),
    ]


def _compare_values(account: Account, held: list[Any]) -> list[str]:
    sent = {(sent.partition, sent.offset): sent.value for sent in account.sent}
    return [
        f"{(partition, offset)} has a different value than the sent record"
        for partition, offset, id_ in held
        if (partition, offset) in sent and json.loads(sent[partition, offset] or b"{}").get("id") != id_
    ]


def _compare_second_reader(account: Account) -> list[str]:
    visible = account.visible()
    read = read_visible(account.bootstrap, account.topic, len(visible))
    odd = {(partition, offset) for partition, offset, _ in read} ^ visible
    return [f"the second reader and the producer do not agree on {record}" for record in sorted(odd)]


def _check_tiling(connection: psycopg.Connection[Any], pipeline: str) -> list[str]:
    covered = connection.execute(
        "select partition, from_offset, until_offset from penstock.covered where pipeline = %s order by 1, 2",
        [pipeline],
    ).fetchall()
    positions = connection.execute(
        "select partition, origin, position from penstock.positions where pipeline = %s", [pipeline]
    ).fetchall()
    faults = []
    for partition, origin, position in positions:
        at = origin
        for _, start, until in (row for row in covered if row[0] == partition):
            if start != at:
                faults.append(f"partition {partition}: coverage does not tile at {at}: next is {start}")
            at = until
        if at != position:
            faults.append(f"partition {partition}: coverage ends at {at}, the position is {position}")
    counted = connection.execute(
        "select o.partition, o.covered, (select coalesce(sum(upper(c.offsets) - lower(c.offsets)), 0)"
        " from penstock.coverage c where c.generation_id = o.generation_id and c.partition = o.partition)"
        " from penstock.position o"
    ).fetchall()
    return faults + [
        f"partition {partition}: {counter} offsets are counted as covered, and {sum_} are covered"
        for partition, counter, sum_ in counted
        if counter != sum_
    ]


def _check_accounting(connection: psycopg.Connection[Any], account: Account, pipeline: str) -> list[str]:
    ranges = connection.execute(
        "select partition, from_offset, until_offset, rows, quarantined, holes from penstock.covered"
        " where pipeline = %s",
        [pipeline],
    ).fetchall()
    visible = account.visible()
    faults = []
    for partition, start, until, rows, quarantined, holes in ranges:
        records = sum((partition, offset) in visible for offset in range(start, until))
        if rows + quarantined != records or holes != until - start - records:
            faults.append(
                f"partition {partition} [{start}, {until}) holds {records} records; the ledger says {rows} rows, "
                f"{quarantined} quarantined, {holes} holes"
            )
    return faults


def describe_results() -> list[dict[str, Any]]:
    """Declare a current table and running totals of orders; `find_result_faults` checks them."""
    return [
        {"table": "analytics.newest", "mode": "upsert", "key": ["id"], "columns": {"note": "note"}},
        {
            "table": "analytics.totals",
            "mode": "sql",
            "key": ["digit"],
            "columns": {"digit": "bigint", "rows": "bigint", "sum": "numeric(38,0)"},
            "statements": TOTALS,
        },
    ]


def find_result_faults(db: str, account: Account) -> list[str]:
    """Compare both results with the values that were sent; timestamps come from the rows of the table."""
    with psycopg.connect(db) as connection:
        timestamps = {
            (partition, offset): timestamp
            for partition, offset, timestamp in connection.execute(
                "select _partition, _offset, _timestamp from analytics.orders"
            )
        }
        newest = connection.execute("select id, note, _partition, _offset from analytics.newest").fetchall()
        totals = connection.execute("select digit, rows, sum from analytics.totals").fetchall()
    wanted, sums = _derive(account, timestamps)
    found = {id_: tuple(row) for id_, *row in newest}
    faults = [f"the newest row of {id_} is {found.get(id_)}, not {wanted.get(id_)}"
              for id_ in sorted(wanted.keys() | found.keys()) if found.get(id_) != wanted.get(id_)]  # fmt: skip
    if {digit: (rows, int(total)) for digit, rows, total in totals} != sums:
        faults.append(f"the totals are {totals}, not {sums}")
    return faults


def _derive(account: Account, timestamps: dict[Any, Any]) -> tuple[dict[int, Any], dict[int, tuple[int, int]]]:
    """The winner of each id, and the rows and the sum of ids by last digit, of the valid records that were sent."""
    visible = account.visible()
    tops: dict[int, dict[int, Any]] = {}
    sums: dict[int, tuple[int, int]] = {}
    for sent in account.sent:
        if (sent.partition, sent.offset) not in visible or not sent.value or not sent.value.startswith(b'{"id"'):
            continue
        value = json.loads(sent.value)
        id_, digit = value["id"], value["id"] % 10
        rows, total = sums.get(digit, (0, 0))
        sums[digit] = (rows + 1, total + id_)
        known = tops.setdefault(id_, {}).setdefault(sent.partition, (sent.offset, value["note"]))
        tops[id_][sent.partition] = max(known, (sent.offset, value["note"]))
    winners = {}
    for id_, by_partition in tops.items():
        partition = max(by_partition, key=lambda each: (timestamps.get((each, by_partition[each][0]), EVER), each))
        offset, note = by_partition[partition]
        winners[id_] = (note, partition, offset)
    return winners, sums


class Watcher:
    """Takes a snapshot every 50 ms, and keeps each one in which rows, offsets and totals disagree."""

    def __init__(
        self, db: str, pipeline: str = "orders", table: str = "analytics.orders", totals: str | None = None
    ) -> None:
        self.db, self.pipeline, self.table = db, pipeline, table
        self.totals = totals or "(select null::bigint as rows where false) t"
        self.compares_totals = totals is not None
        self.snapshots = 0
        self.disagreements: list[str] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=30)
        if error is None:
            assert self.snapshots > 0, "no snapshot was taken"
            assert not self.disagreements, self.disagreements[:3]

    def _watch(self) -> None:
        while not self._done.is_set():
            try:
                with psycopg.connect(
                    self.db, autocommit=True, connect_timeout=5, application_name="watcher"
                ) as connection:
                    connection.execute("set lock_timeout = '100ms'")
                    while not self._done.wait(0.05):
                        self._look(connection)
            except psycopg.OperationalError:
                self._done.wait(0.2)  # the test has stopped the database

    def _look(self, connection: psycopg.Connection[Any]) -> None:
        query = AGREEMENT.format(table=self.table, totals=self.totals)
        try:
            # PostgreSQL plans a query with the partitions of one moment, and runs it in a later snapshot: the lock
            # prevents an attach between the two.
            with connection.transaction():
                connection.execute(f"lock table only {self.table} in share update exclusive mode")
                row = connection.execute(query, {"pipeline": self.pipeline}).fetchone()
        except MISSING_OR_LOCKED:
            return
        assert row
        self.snapshots += 1
        rows, said, counted, positions, covered = row
        if rows != said or positions != covered or (self.compares_totals and rows != counted):
            self.disagreements.append(
                f"{rows} rows, {said} in the ledger, {counted} in the totals; positions {positions}, covered {covered}"
            )
