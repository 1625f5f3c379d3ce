"""The checkers: does the table hold what the log holds, once, and do rows and offsets agree at every moment?

They share no code with what they check: the ledger is read through its views, the log by another client, and what was
sent is known from the producer's side.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import psycopg

from second_reader import read_visible

if TYPE_CHECKING:
    from types import TracebackType

    from producing import Account

# One snapshot: what the table holds, what the ledger says it holds, and where positions and coverage stand.
MISSING_OR_LOCKED = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.LockNotAvailable,
)
AGREEMENT = """
select (select count(*) from {table}),
       (select coalesce(sum(rows), 0) from penstock.covered where pipeline = %(pipeline)s),
       (select coalesce(json_object_agg(partition, position order by partition), '{{}}') from penstock.positions
        where pipeline = %(pipeline)s and position > origin)::text,
       (select coalesce(json_object_agg(partition, until order by partition), '{{}}')
        from (select partition, max(until_offset) as until from penstock.covered
              where pipeline = %(pipeline)s group by partition) c)::text
"""


def find_faults(db: str, account: Account, pipeline: str = "orders", table: str = "analytics.orders") -> list[str]:
    """Compare table, quarantine and ledger with what was sent and with what the second reader sees."""
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
        *(f"{record} is there {times} times" for record, times in loaded.items() if times > 1),
        *(f"{record} is missing" for record in sorted(visible - loaded.keys())),
        *(f"{record} was never committed, and is there" for record in sorted(loaded.keys() - visible)),
    ]


def _compare_values(account: Account, held: list[Any]) -> list[str]:
    sent = {(sent.partition, sent.offset): sent.value for sent in account.sent}
    return [
        f"{(partition, offset)} holds another value than was sent"
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
    return faults


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


class Watcher:
    """Polls snapshots throughout, and notes each in which rows and offsets do not agree."""

    def __init__(self, db: str, pipeline: str = "orders", table: str = "analytics.orders") -> None:
        self.db, self.pipeline, self.table = db, pipeline, table
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
                self._done.wait(0.2)  # the database is down because a test took it down

    def _look(self, connection: psycopg.Connection[Any]) -> None:
        query = AGREEMENT.format(table=self.table)
        try:
            # PostgreSQL plans a query by the partitions of one moment, and runs it in a later snapshot: nothing
            # may be attached between the two.
            with connection.transaction():
                connection.execute(f"lock table only {self.table} in share update exclusive mode")
                row = connection.execute(query, {"pipeline": self.pipeline}).fetchone()
        except MISSING_OR_LOCKED:
            return
        assert row
        self.snapshots += 1
        rows, said, positions, covered = row
        if rows != said or positions != covered:
            self.disagreements.append(f"{rows} rows, {said} said; positions {positions}, covered {covered}")
