"""Loads with a transform: its rows, the records that it filters, and the rows that Penstock refuses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.backfill.redrive import redrive
from penstock.backfill.request import ByOffsets
from penstock.errors import RejectedRecordError, TransformError, WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.quarantine import Selection
from penstock.model.ranges import Range
from penstock.model.spans import Span
from penstock.rust_package import find_package
from penstock.status.pipelines import read_status
from privileges import superuser
from producing import Account, order
from whole_loads import Loader, MakeLoader

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

HEAD = "from pyspark.sql import functions as f\nimport pandas as pd\n\n"
COLUMNS = {"id": {"type": "bigint"}, "double_id": {"type": "bigint"}, "note": {"type": "varchar(12)"}}
INPUT = {"id": {"type": "bigint", "required": True}, "note": {"type": "text"}}
DOUBLES = "frame.withColumn('double_id', f.col('id') * 2)"


@dataclass(frozen=True, slots=True)
class Setting:
    """A topic, its producer, and a folder of transforms."""

    account: Account
    folder: Path
    make_loader: MakeLoader

    def write(self, body: str, before: str = "") -> str:
        """Write a transform that returns an expression over `frame`, and name it."""
        text = f"{HEAD}{dedent(before)}\n\ndef made(frame):\n    return {body}\n"
        (self.folder / "rows.py").write_text(text)
        return "rows:made"

    def loader(self, body: str = DOUBLES, before: str = "", **changes: Any) -> Loader:
        """A loader of a pipeline with this transform."""
        declared = {"columns": COLUMNS, "input": INPUT, "transform": self.write(body, before), **changes}
        loader = self.make_loader(self.account.topic, **declared)
        loader.transforms = self.folder
        return loader


@pytest.fixture
def setting(kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader, tmp_path: Path) -> Setting:
    return Setting(Account(kafka.bootstrap, make_topic(partitions=2)), tmp_path, make_loader)


def counts(loader: Loader, load_id: int) -> Any:
    return loader.query(f"select rows, quarantined, holes, filtered from penstock.loads where load_id = {load_id}")[0]


def filtered(loader: Loader) -> list[tuple[int, int]]:
    return loader.query('select partition, "offset" from penstock.filtered_records order by 1, 2')


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_transform_makes_columns_and_its_filtered_records_are_named(setting: Setting, reader: str) -> None:
    for partition in (0, 1):
        setting.account.send_orders(100, partition=partition, first=100 * partition)
    loader = setting.loader(f"{DOUBLES}.where('id % 10 <> 3')", reader=reader)
    load_id = loader.load()

    assert counts(loader, load_id) == (180, 0, 0, 20)
    assert filtered(loader) == [(partition, offset) for partition in (0, 1) for offset in range(3, 100, 10)]
    assert loader.query("select count(*), sum(id), sum(double_id) from analytics.orders") == [
        (180, sum(n for n in range(200) if n % 10 != 3), 2 * sum(n for n in range(200) if n % 10 != 3))
    ]
    sha256 = hashlib.sha256((setting.folder / "rows.py").read_bytes()).hexdigest()
    assert loader.query("select transform_sha256 from penstock.loads") == [(sha256,)]
    verified = loader.verify()
    assert verified.faults == ()
    assert (verified.chunks_reread, verified.rows_compared) == (verified.chunks, 0)


def test_a_transform_gets_the_same_columns_by_both_record_paths(setting: Setting) -> None:
    columns = {
        "id": "bigint", "small": "smallint", "note": "varchar(9)", "price": "numeric(12,3)", "wide": "numeric(38,20)",
        "ratio": "double precision", "on": "boolean", "day": "date", "clock": "time", "at": "timestamptz",
        "key": "uuid", "more": "jsonb", "raw": "bytea",
    }  # fmt: skip
    full = (
        b'{"id": 1, "small": -7, "note": "\xc3\xa4b", "price": -12.5, "wide": "0.00000000000000000001", "ratio": 1e-3,'
        b' "on": true, "day": "1969-12-31", "clock": "23:59:59.000001", "at": "2024-05-06T07:08:09.5+02:00",'
        b' "key": "0188e6a2-0000-7000-8000-00000000002a", "more": {"a": [1, null]}, "raw": "AQL/"}'
    )
    others = [
        b'{"id": 2}',
        b'{"\\u0069d": 3}',
        b"no JSON",
        b'{"id": 4, "price": 1e40}',
        b'{"id": 5, "note": "\\u00e4"}',
    ]
    setting.account.send([full, *others], partition=0)
    declared = {name: {"type": type_} for name, type_ in columns.items()}
    found = {}
    for path in ("rust", "python"):
        target = f"analytics.by_{path}"
        loader = setting.loader(
            "frame.where('id <> 2')", columns=declared, input=declared, name=f"by_{path}", target=target, key="text"
        )
        loader.rust = path == "rust"
        load_id = loader.load()
        rows = loader.query(f"select {', '.join(map(repr_name, columns))}, _offset from {target} order by id")
        found[path] = (rows, counts(loader, load_id), loader.query("select log_hash from penstock.stage_task")[-1:])
        assert loader.query(f"select path from penstock.loads where load_id = {load_id}") == [
            (path if find_package() else "python",)
        ]
    assert found["rust"] == found["python"]
    assert [row[0] for row in found["rust"][0]] == [1, 3, 5]
    assert found["rust"][1] == (3, 2, 0, 1)


def repr_name(name: str) -> str:
    return f'"{name}"'


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_transform_computes_with_decimals_of_any_size(setting: Setting, reader: str) -> None:
    types = {"small": "numeric(1,1)", "most": "numeric(18,4)", "more": "numeric(19,4)", "widest": "numeric(38,0)"}
    columns = {"id": {"type": "bigint"}} | {name: {"type": type_} for name, type_ in types.items()}
    most, more, widest = "9" * 14 + ".9999", "9" * 15 + ".9999", "9" * 38
    setting.account.send(
        [
            b'{"id": 1}',
            f'{{"id": 2, "small": 0.9, "most": {most}, "more": {more}, "widest": {widest}}}'.encode(),
            f'{{"id": 3, "small": -0.9, "most": -{most}, "more": -{more}, "widest": -{widest}}}'.encode(),
            b'{"id": 4, "small": 0, "most": -0.0001, "more": -0.0001, "widest": -1}',
        ],
        partition=0,
    )
    sums = "frame.withColumn('small', -f.col('small')).withColumn('sum', f.col('most') + f.col('more'))"
    loader = setting.loader(sums, input=columns, columns={**columns, "sum": {"type": "numeric(20,4)"}}, reader=reader)
    loader.load()
    rows = loader.query(
        "select small::text, most::text, more::text, widest::text, sum::text from analytics.orders order by id"
    )
    assert rows == [
        (None, None, None, None, None),
        ("-0.9", most, more, widest, "1099999999999999.9998"),
        ("0.9", f"-{most}", f"-{more}", f"-{widest}", "-1099999999999999.9998"),
        ("0.0", "-0.0001", "-0.0001", "-1", "-0.0002"),
    ]


def test_a_transform_keeps_poison_and_holes_apart_from_what_it_filters(setting: Setting) -> None:
    account = setting.account
    account.send_orders(10, partition=0)
    account.send([b"no JSON", b"{}"], partition=0)
    account.transact([b'{"id": 50}', b'{"id": 51}'], commit=False, partition=0)
    account.send_orders(10, partition=0, first=100)
    loader = setting.loader(f"{DOUBLES}.where('id % 2 = 0')")
    load_id = loader.load()

    assert counts(loader, load_id) == (10, 2, 3, 10)
    assert loader.verify().faults == ()
    assert loader.query("select kind, sum(holes) from penstock.holes where holes > 0 group by 1 order by 1") == [
        ("aborted", 2),
        ("marker", 1),
    ]


def test_rows_that_the_target_cannot_hold_are_quarantined_with_their_records(setting: Setting) -> None:
    setting.account.send_orders(200, partition=1)
    long = f"{DOUBLES}.withColumn('note', f.when(f.col('id') == 7, f.lit('x' * 13)).otherwise(f.col('note')))"
    broken = f"{long}.withColumn('doc', f.when(f.col('id') == 8, f.lit('[1')).otherwise(f.lit('[1]')))"
    wide = "f.when(f.col('id') == 9, f.lit('9' * 90)).otherwise(f.lit('1'))"
    loader = setting.loader(
        f"{broken}.withColumn('number', {wide})",
        columns={**COLUMNS, "doc": {"type": "jsonb"}, "number": {"type": "text"}},
        rules=[{"name": "no_twelve", "where": "id <> 12"}],
    )
    load_id = loader.load()

    assert counts(loader, load_id) == (197, 3, 0, 0)
    found = loader.query('select "offset", reason, value from penstock.quarantined order by 1')
    assert [(offset, reason) for offset, reason, _ in found] == [
        (7, "too_long"),
        (8, "refused_by_database"),
        (12, "rule"),
    ]
    assert json.loads(bytes(found[0][2])) == {"id": 7, "note": "order 7"}
    assert loader.verify().faults == ()


def test_a_row_that_postgresql_refuses_is_quarantined_with_its_record(setting: Setting) -> None:
    setting.account.send_orders(50, partition=0)
    wide = ", ".join(f"f.when(f.col('id') == 5, f.lit('{n:030}')).alias('c{n}')" for n in range(600))
    loader = setting.loader(
        f"frame.select('id', '_partition', '_offset', '_timestamp', {wide})",
        columns={"id": {"type": "bigint"}, **{f"c{n}": {"type": "text"} for n in range(600)}},
    )
    load_id = loader.load()

    assert counts(loader, load_id) == (49, 1, 0, 0)
    assert loader.query('select "offset", reason from penstock.quarantined') == [(5, "refused_by_database")]


REFUSALS = {
    "multiplied": (f"{DOUBLES}.union({DOUBLES})", "made more than one row of the record at partition 0 offset 0"),
    "new_offset": (
        f"{DOUBLES}.withColumn('_offset', f.col('_offset') + 1000)",
        "partition 0 offset 1000, which the load does not read",
    ),
    "exchanged": (f"{DOUBLES}.withColumn('_offset', f.lit(19) - f.col('_offset'))", "exchanged the offsets of rows"),
    "later": (
        f"{DOUBLES}.withColumn('_timestamp', f.col('_timestamp') + f.expr('interval 1 second'))",
        "changed `_timestamp` or `_key`",
    ),
    "missing": ("frame", "does not make the declared columns: double_id is missing"),
    "extra": (f"{DOUBLES}.withColumn('more', f.lit(1))", "more is not declared"),
    "type": ("frame.withColumn('double_id', f.col('id') / 2)", "double_id is double where bigint is declared"),
    "no_frame": ("1", "returned int, not a DataFrame"),
    "call": ("frame.where(f.col('unknown') == 1)", "UNRESOLVED_COLUMN"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_transform_that_breaks_its_contract_fails_the_load_in_words(setting: Setting, case: str) -> None:
    body, message = REFUSALS[case]
    for number in range(20):
        setting.account.send([order(number)], partition=0, timestamp=1_700_000_000_000 + number)
    loader = setting.loader(body)
    load = loader.plan()
    assert load is not None
    with pytest.raises(TransformError) as caught:
        loader.stage_rows(load.load_id)

    assert message in str(caught.value)
    assert loader.state(load.load_id) == "failed"
    assert loader.query("select count(*) from penstock.coverage") == [(0,)]


@pytest.mark.parametrize(
    ("before", "declared", "kind", "message"),
    [
        ("frame.select(f.col('note').cast('int')).collect()", {}, TransformError, "raised CAST_INVALID_INPUT at "),
        ("int(frame.first()['note'])", {}, TransformError, "raised ValueError at made, line 7: int(frame."),
        ("frame.count()", {"poison": "stop"}, RejectedRecordError, "the pipeline says `poison: stop`"),
    ],
)
def test_an_action_of_a_transform_fails_as_a_task_does_and_shows_no_value(
    setting: Setting, before: str, declared: dict[str, Any], kind: type[Exception], message: str
) -> None:
    setting.account.send([b'{"id": 1, "note": "secret value"}', b"no JSON"], partition=0)
    loader = setting.loader(**declared)
    path = setting.folder / "rows.py"
    path.write_text(path.read_text().replace("    return", f"    {before}\n    return"))
    load = loader.plan()
    assert load is not None
    with pytest.raises(kind) as caught:
        loader.stage_rows(load.load_id)
    assert message in str(caught.value)
    [(cause,)] = loader.query("select cause from penstock.load")
    assert "secret" not in f"{caught.value} {caught.value.__cause__} {cause}"


def test_a_transform_that_raises_names_its_lines_and_offsets_and_no_value(setting: Setting) -> None:
    setting.account.send_orders(30, partition=0)
    setting.account.send_orders(30, partition=1, first=1000)
    before = """
    @f.udf("bigint")
    def double(number):
        if number == 1007:
            return int("secret value")
        return number * 2
    """
    loader = setting.loader("frame.withColumn('double_id', double('id'))", before)
    load = loader.plan()
    assert load is not None
    with pytest.raises(TransformError) as caught:
        loader.stage_rows(load.load_id)

    assert "the transform rows:made raised ValueError at double, line 8" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "partition 1 offsets [0, 30)" in str(caught.value)


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_transform_may_join_shuffle_rank_and_call_pandas(setting: Setting, reader: str) -> None:
    for partition in (0, 1):
        setting.account.send_orders(500, partition=partition, first=500 * partition)
    before = """
    from pyspark.sql import Window

    def helper(ids):
        return ids * 2

    @f.pandas_udf("bigint")
    def double(ids: pd.Series) -> pd.Series:
        return helper(ids)

    def newest(frame):
        # The frame is read twice: once for the ranks, and once for the rows.
        ranks = frame.select("_partition", "_offset", f.row_number().over(
            Window.partitionBy(f.col("id") % 100).orderBy(f.col("id").desc())).alias("rank"))
        return frame.join(ranks, ["_partition", "_offset"]).where("rank = 1").drop("rank")
    """
    loader = setting.loader("newest(frame).withColumn('double_id', double('id')).repartition(3)", before, reader=reader)
    load_id = loader.load()

    assert counts(loader, load_id) == (100, 0, 0, 900)
    assert loader.query("select min(id), max(id), sum(double_id) from analytics.orders") == [
        (900, 999, 2 * sum(range(900, 1000)))
    ]
    assert loader.verify().faults == ()


@pytest.mark.parametrize("body", [f"{DOUBLES}.where(f.lit(False))", f"{DOUBLES}.limit(3)"])
@pytest.mark.parametrize("reader", ["native", "spark"])
def test_groups_that_spark_need_not_read_are_accounted_for_too(setting: Setting, body: str, reader: str) -> None:
    for partition in (0, 1):
        setting.account.send([b"no JSON"], partition=partition)
        setting.account.send_orders(20, partition=partition)
    loader = setting.loader(body, reader=reader)
    load_id = loader.load()

    rows, quarantined, holes, left_out = counts(loader, load_id)
    assert (rows + left_out, quarantined, holes) == (40, 2, 0)
    assert rows == (3 if "limit" in body else 0)
    assert loader.verify().faults == ()


def test_a_replay_of_a_part_keeps_the_filtered_records_of_the_rest(setting: Setting) -> None:
    setting.account.send_orders(100, partition=0)
    loader = setting.loader(f"{DOUBLES}.where('id % 2 = 0')")
    loader.load()
    [replay] = loader.backfill(ByOffsets((Span(0, 25, 50),)), replace=True)

    assert loader.query(
        f"select from_offset, until_offset, rows, holes, filtered, load_id = {replay} from penstock.covered order by 1"
    ) == [(0, 25, 13, 0, 12, False), (25, 50, 12, 0, 13, True), (50, 100, 25, 0, 25, False)]
    assert filtered(loader) == [(0, offset) for offset in range(1, 100, 2)]
    assert loader.verify().faults == ()


def test_poison_stop_fails_the_load_at_a_row_that_the_target_cannot_hold(setting: Setting) -> None:
    setting.account.send_orders(20, partition=0)
    loader = setting.loader(f"{DOUBLES}.withColumn('note', f.lit('x' * 13))", poison="stop")
    load = loader.plan()
    assert load is not None
    with pytest.raises(RejectedRecordError, match="poison: stop"):
        loader.stage_rows(load.load_id)


def test_a_changed_file_is_run_as_it_is_now(setting: Setting) -> None:
    setting.account.send_orders(10, partition=0)
    loader = setting.loader()
    loader.load()
    setting.write("frame.withColumn('double_id', triple('id'))", "triple = f.udf(lambda n: 3 * n, 'bigint')")
    setting.account.send_orders(10, partition=0, first=10)
    loader.load()

    assert loader.query("select sum(double_id) from analytics.orders") == [
        (2 * sum(range(10)) + 3 * sum(range(10, 20)),)
    ]
    assert loader.query("select count(distinct transform_sha256) from penstock.loads") == [(2,)]
    with open_ledger(loader.db) as connection:
        [status] = read_status(connection, loader.settings.kafka, [loader.pipeline])
    newest = hashlib.sha256((setting.folder / "rows.py").read_bytes()).hexdigest()
    assert (status.transform, status.transform_sha256) == ("rows:made", newest)


def test_a_redrive_of_a_pipeline_with_a_transform_is_refused_in_words(setting: Setting) -> None:
    loader = setting.loader()
    with pytest.raises(WrongUseError, match="a redrive runs without Spark"):
        redrive(loader.settings, loader.pipeline, Selection("orders"), "tester", print)


def test_a_row_that_somebody_changes_is_found_by_its_fingerprint(setting: Setting) -> None:
    setting.account.send_orders(20, partition=0)
    loader = setting.loader()
    loader.load()
    with psycopg.connect(superuser(loader.db)) as connection:
        connection.execute("update analytics.orders set double_id = 1 where id = 5")

    [fault] = loader.verify().faults
    assert (fault.kind, fault.range) == ("rows_changed", Range(0, 0, 20))
