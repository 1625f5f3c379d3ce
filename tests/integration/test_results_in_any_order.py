"""Results are as exact as the rows, in whatever order loads are published, replaced, taken out, put back or dropped."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from declaring import COLUMNS, declare
from fix_loads import stage_rows
from penstock.backfill.redrive import join_records
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.decide.settle import discard_load
from penstock.errors import PenstockError, WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.generation import open_generation
from penstock.ledger.load import pass_checks, read_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.ledger.redrive import ChosenRecord, plan_records
from penstock.load.publish import publish_in
from penstock.load.results.proof import find_result_faults
from penstock.maintenance.run import maintain
from penstock.model.log import Identity
from penstock.model.ranges import Range
from penstock.target.postgres import levels
from penstock.verify.row_counts import count_loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from fix_postgres import FreshDatabase
    from penstock.model.load import Kind

PARTITIONS = 3
TOTALS = """
insert into result as r (note, rows, sum)
select note, sum(sign), sum(sign * coalesce(id, 0)) from (
    select note, id, 1 as sign from added union all select note, id, -1 from removed) changed
group by note
on conflict (note) do update set rows = r.rows + excluded.rows, sum = r.sum + excluded.sum;
delete from result where rows = 0;
"""
PIPELINE = declare(
    "topic",
    columns={**COLUMNS, "id": {"type": "bigint"}, "op": {"type": "text"}, "part": {"type": "integer"}},
    tombstones="keep",
    key_columns={"part": "$.part", "note": "$.note"},
    results=[
        {"table": "analytics.newest", "mode": "upsert", "key": ["note"], "deleted_when": "op = 'D'"},
        {
            "table": "analytics.newest_of_two",
            "mode": "upsert",
            "key": ["part", "note"],
            "columns": {"number": "id"},
            "deleted_when": "tombstone",
        },
        {
            "table": "analytics.totals",
            "mode": "sql",
            "key": ["note"],
            "columns": {"note": "text", "rows": "bigint", "sum": "numeric(38,0)"},
            "statements": TOTALS,
        },
    ],
)
# Few keys, so that they meet often, some of them in one partition only. Timestamps fall, and some are missing. A fifth
# of the records have no value.
FILL = """
update penstock_stage.load_{0}_1 set
    note = 'key ' || abs(hashint8(_offset * 7 + _partition * 3 + {1})) % 4
           || case when _offset % 3 > 0 then ' of ' || _partition else '' end,
    part = abs(hashint8(_offset + 11)) % 2,
    id = _offset * 100 + {1},
    op = case when abs(hashint8(_offset * 5 + _partition + {1})) % 4 = 0 then 'D' else 'U' end,
    _tombstone = false,
    _timestamp = case when abs(hashint8(_offset * 13 + {1})) % 9 > 0
                 then timestamptz '2026-01-01Z' + abs(hashint8(_offset * 17 + _partition)) % 6 * interval '1 hour' end;
update penstock_stage.load_{0}_1 set _tombstone = true, id = null, op = null
where abs(hashint8(_offset * 19 + _partition + {1})) % 5 = 0
"""
ACTIONS = ("live", "live", "replay", "rollback", "undo", "backfill", "backfill", "redrive", "adopt", "merge", "drop")


class Site:
    """A pipeline with results, and actions on its loads."""

    def __init__(self, db: str) -> None:
        self.db = db
        self.version = 0
        self.has_dropped = False

    def query(self, text: str) -> list[Any]:
        with psycopg.connect(self.db) as connection:
            return connection.execute(text.encode()).fetchall()

    def publish(self, ranges: list[Range], kind: Kind = "live", records: Sequence[ChosenRecord] = ()) -> None:
        """Publish a load. Some records of the log go to the quarantine; a redrive brings `records` back."""
        self.version += 1
        places = [(each.partition, offset) for each in ranges for offset in range(each.from_offset, each.until_offset)]
        quarantined = [] if records else [place for place in places if (place[1] * 3 + self.version) % 5 == 0]
        load_id = stage_rows(self.db, ranges, pipeline=PIPELINE, kind=kind, quarantined=quarantined)
        with open_ledger(self.db) as connection:
            plan_records(connection, load_id, records)
            connection.execute(FILL.format(load_id, self.version).encode())
            pass_checks(connection, read_load(connection, load_id))
        with self.refusing_dropped(), open_ledger(self.db) as connection:
            publish_in(connection, load_id)
            return
        discard_load(self.db, load_id, "ann", "a test")

    @contextmanager
    def refusing_dropped(self) -> Iterator[None]:
        """A change may be refused because it would need rows that were dropped; then it changes nothing."""
        try:
            yield
        except WrongUseError as error:
            if not self.has_dropped or "were dropped (keep_rows_days)" not in error.what:
                raise

    def act(self, action: str, number: int) -> None:
        if action == "live":
            self.publish(self.next_ranges(number))
        elif action in ("replay", "backfill"):
            view = "penstock.covered" if action == "replay" else "penstock.gaps"
            newest = "(select max(generation_id) from penstock.generation)"
            found = self.query(f"select partition, from_offset, until_offset from {view} where generation = {newest} "
                               "order by 1, 2")  # fmt: skip
            if found:
                partition, first, last = found[number % len(found)]
                middle = first + (last - first) // 2
                kind: Kind = "replay" if action == "replay" else "backfill"
                self.publish([Range(partition, first, last if number % 2 else max(middle, first + 1))], kind)
        elif action in ("rollback", "undo"):
            state = "published" if action == "rollback" else "rolled_back"
            loads = self.query(f"select load_id from penstock.load where state = '{state}' order by 1")
            if loads:
                self.decide(action, loads[number % len(loads)][0])
        elif action == "redrive":
            self.redrive(number)
        elif action == "adopt":
            self.adopt()
        elif action == "drop":
            self.drop(number)
        else:
            maintain(self.db, PIPELINE, lambda _: None)

    def prepare_copy(self) -> None:
        """Create a table for copies of dropped rows, and a view of all rows that are published."""
        with psycopg.connect(self.db) as connection:
            connection.execute("create table analytics.copied (like analytics.orders)")
            connection.execute("create view analytics.published as table analytics.orders union table analytics.copied")

    def decide(self, action: str, load_id: int) -> None:
        if action == "rollback":
            with self.refusing_dropped():
                roll_back(self.db, load_id, "ann", "a test")
            return
        with suppress(PenstockError):  # other loads may cover its offsets by now
            undo_rollback(self.db, load_id, "ann", "a test")

    def drop(self, number: int) -> None:
        """Let the rows of all but the newest loads grow old. A copy of the rows that maintenance drops is kept."""
        with psycopg.connect(self.db) as connection:
            connection.execute(
                "update penstock.load set published_at = now() - interval '31 days' "
                "where published_at is not null and load_id <= (select max(load_id) from penstock.load) - %s",
                [number % 3],
            )
            connection.execute("insert into analytics.copied select * from analytics.orders")
        maintain(self.db, PIPELINE.model_copy(update={"keep_rows_days": 30}), lambda _: None)
        with psycopg.connect(self.db) as connection:
            connection.execute(
                "delete from analytics.copied where _load_id not in (select load_id from penstock.dropped_load)"
            )
            self.has_dropped = connection.execute("select from penstock.dropped_load limit 1").fetchone() is not None

    def redrive(self, number: int) -> None:
        found = self.query(
            'select q.load_id, q.partition, q."offset" from penstock.quarantined q join penstock.load l using (load_id)'
            " where load_id not in (select load_id from penstock.dropped_load)"
            " and l.generation_id = (select max(generation_id) from penstock.generation) order by 1, 2, 3"
        )
        if chosen := found[number % 2 :: 1 + number % 3]:
            records = [ChosenRecord(*each) for each in chosen]
            self.publish(join_records(records), "redrive", records)

    def next_ranges(self, number: int) -> list[Range]:
        newest = "(select max(generation_id) from penstock.generation)"
        positions = dict(
            self.query(f"select partition, position from penstock.position where generation_id = {newest}")
        )
        chosen = [partition for partition in range(PARTITIONS) if number >> partition & 1] or [0]
        starts = {partition: positions.get(partition, 0) for partition in chosen}
        return [Range(partition, start, start + 1 + number % 7) for partition, start in starts.items()]

    def adopt(self) -> None:
        with open_ledger(self.db) as connection:
            pipeline_id = lock_pipeline(connection, "orders")
            if pipeline_id is not None:
                self.version += 1
                open_generation(connection, pipeline_id, Identity("c", f"t{self.version}"), epoch=1)


def derive(site: Site, key: str, values: str, deleted: str) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The newest row of each key, and its guards, computed from the rows of the target by the documented rule."""
    rows = site.query(
        f"select {key}, generation_id, _partition, _offset, _timestamp, coalesce({deleted}, false), {values} "
        "from analytics.published join penstock.load on load_id = _load_id"
    )
    by_key: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for name, generation, partition, *row in rows:
        known = by_key[name].setdefault((generation, partition), row)
        if row[0] > known[0]:
            by_key[name][generation, partition] = row
    found, guards = {}, {}
    for name, tops in by_key.items():
        newest = max(generation for generation, _ in tops)
        candidates = {partition: row for (generation, partition), row in tops.items() if generation == newest}
        partition = max(candidates, key=lambda each: (candidates[each][1] is not None, candidates[each][1] or 0, each))
        for each, row in candidates.items():
            if each == partition and not row[2]:
                found[name] = (newest, each, row[0], *row[3:])
            else:
                guards[name, newest, each] = (row[0], row[2])
    return found, guards


def check(site: Site) -> None:
    for table, key, values, sources, deleted in (
        ("newest", "note", "id, op", "id, op", "op = 'D'"),
        ("newest_of_two", "(part, note)::text", "number", "id", "_tombstone"),
    ):
        rows = site.query(f"select {key}, _generation, _partition, _offset, {values} from analytics.{table}")
        [[result_id]] = site.query(f"select result_id from penstock.result where table_name = 'analytics.{table}'")
        guards = site.query(
            f"select {key}, _generation, _partition, _offset, _deleted from penstock_results.guards_{result_id}"
        )
        assert (
            {name: tuple(row) for name, *row in rows},
            {(name, generation, partition): tuple(row) for name, generation, partition, *row in guards},
        ) == derive(site, key, sources, deleted)
    totals = site.query("select note, rows, sum from analytics.totals order by 1")
    assert totals == site.query(
        "select note, count(*), coalesce(sum(id), 0) from analytics.published group by 1 order by 1"
    )


@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 200)), min_size=4, max_size=14))
def test_results_equal_one_load_of_all_rows_after_any_actions(
    fresh_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch, actions: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(levels, "FAN_IN", 2)  # leaves are merged after two loads
    with fresh_database() as db:
        site = Site(db)
        site.publish([Range(0, 0, 5), Range(1, 0, 5)])
        site.prepare_copy()
        check(site)
        for action, number in actions:
            site.act(action, number)
            check(site)
        with open_ledger(db) as connection:
            pipeline_id = lock_pipeline(connection, "orders") or 0
            assert find_result_faults(connection, pipeline_id, PIPELINE.target, 1.0) == []
        assert [fault for _, faults in count_loads(db, "orders") for fault in faults] == []
