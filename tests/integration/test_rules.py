"""Rules: rows that fail go to the quarantine with their records, and every offset stays accounted for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer
from psycopg import sql

from declaring import COLUMNS, declare
from fix_loads import stage_rows
from loading_process import await_blocked, locked
from penstock import advice
from penstock.declaration.rules import ROW_EXPECTATIONS
from penstock.doctor.services import check_services
from penstock.errors import ReadError, RuleCrashedError
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.places import read_places
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.work_lock import working_on
from penstock.load.run import finish_load
from penstock.load.validate import validate_load
from penstock.model.ranges import Range
from penstock.quality.rules import apply_rules
from penstock.status.pipelines import read_status
from privileges import superuser

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from fix_loaders import Start
    from penstock.load.validate import Verdict
    from penstock_stack.broker import Broker
    from whole_loads import Loader

AMOUNTS = {**COLUMNS, "amount": {"type": "integer"}}
POSITIVE: dict[str, Any] = {"name": "positive_amount", "where": "amount >= 0"}


def amount(number: int, value: int | None) -> bytes:
    return json.dumps({"id": number, "amount": value}).encode()


def validate(loader: Loader, load_id: int) -> Verdict:
    return validate_load(loader.db, load_id, None, loader.settings.kafka)


def stage(loader: Loader) -> int:
    load = loader.plan()
    assert load is not None
    loader.stage_rows(load.load_id)
    return load.load_id


def counts(loader: Loader, load_id: int) -> list[Any]:
    """Rows, quarantined records and holes of a load, of its ranges, of its tasks, and in the quarantine."""
    return loader.query(
        f"select rows, quarantined, holes from penstock.load where load_id = {load_id}"
        f" union all select sum(rows), sum(quarantined), sum(holes) from penstock.load_range where load_id = {load_id}"
        f" union all select sum(rows), sum(quarantined), sum(holes) from penstock.stage_task where load_id = {load_id}"
    )


def quarantined(loader: Loader) -> list[Any]:
    return loader.query('select partition, "offset", reason, rule, detail from penstock.quarantined order by 1, 2')


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_failed_rows_go_to_the_quarantine_with_their_records(start: Start, reader: str) -> None:
    account, loader = start(2, reader=reader, columns=AMOUNTS, rules=[POSITIVE | {"reason": "refunds are elsewhere"}])
    account.send([amount(number, number) for number in range(50)], partition=0)
    account.send([amount(number, number) for number in range(50)], partition=1)
    producer = Producer({"bootstrap.servers": account.bootstrap})
    headers = [("trace", b"abc"), ("raw", b"\xff"), ("none", None)]
    producer.produce(account.topic, amount(7, -5), b"a key", partition=1, headers=headers, timestamp=1_700_000_000_000)
    producer.flush(60)
    account.transact([amount(1, -1)], commit=False, partition=1)
    account.send([b"no JSON", amount(8, None), amount(9, -9)], partition=1)

    load_id = loader.load()

    # The marker of the transaction may be written after the records that were sent later.
    found = loader.query('select reason, rule from penstock.quarantined where partition = 1 order by "offset"')
    assert found == [("rule", "positive_amount"), ("bad_json", None), ("rule", "positive_amount")]
    assert loader.query(
        "select convert_from(key, 'UTF8'), convert_from(value, 'UTF8'), headers,"
        ' extract(epoch from record_timestamp)::int, detail from penstock.quarantined where "offset" = 50'
    ) == [
        (
            "a key",
            amount(7, -5).decode(),
            [{"name": "trace", "text": "abc"}, {"name": "raw", "base64": "/w=="}, {"name": "none"}],
            1_700_000_000,
            "refunds are elsewhere",
        )
    ]
    assert counts(loader, load_id) == [(101, 3, 2)] * 3
    assert loader.query("select count(*) from analytics.orders where amount is null") == [(1,)], "null passes"
    verified = loader.verify()
    assert (verified.faults, verified.rows) == ((), 101)


def test_a_rule_that_fails_too_many_rows_holds_the_load_and_moves_none(start: Start) -> None:
    limits = {"records": 100, "share": 0.1}
    account, loader = start(columns=AMOUNTS, rules=[POSITIVE | {"hold_above": limits}, {"name": "x", "where": "id<99"}])
    account.send([amount(number, -1 if number % 4 == 0 else 1) for number in range(100)])
    load_id = stage(loader)

    verdict = validate(loader, load_id)

    assert not verdict.passed
    assert verdict.cause is not None
    assert verdict.cause.startswith(
        "rule positive_amount: rows 100, failed 25, hold_above 100, hold_above_share 0.1, offsets [[0, 0], [0, 4], "
    )
    assert counts(loader, load_id) == [(100, 0, 0)] * 3
    assert loader.query("select expectation, success from penstock.check_results where kind = 'rule' order by 1") == [
        ("positive_amount", False), ("x", True),
    ]  # fmt: skip


def test_a_row_for_which_a_rule_cannot_be_computed_goes_to_the_quarantine(start: Start) -> None:
    rules = [
        {"name": "share", "where": "100 / amount < 50  -- '%' is an operator: 5 % 3"},
        {"name": "number", "where": "note::int > 0", "reason": "numbers only"},
    ]
    account, loader = start(2, columns=AMOUNTS, rules=rules)
    for partition in (0, 1):
        account.send([amount(number, 10) for number in range(40)], partition=partition)
    secret = json.dumps({"id": 2, "amount": 9, "note": "secret"}).encode()
    account.send([amount(1, 0), secret, amount(3, 1)], partition=1)

    loader.load()

    assert quarantined(loader) == [
        (1, 40, "rule", "share", "the rule share cannot be computed: division by zero (SQLSTATE 22012)"),
        (1, 41, "rule", "number",
         "the rule number cannot be computed: invalid text representation (SQLSTATE 22P02)"),
        (1, 42, "rule", "share",
         "the rule share is not met: 100 / amount < 50  -- '%' is an operator: 5 % 3"),
    ]  # fmt: skip
    assert loader.verify().faults == ()


def test_a_load_whose_rule_cannot_run_is_failed_with_its_cause(start: Start) -> None:
    account, loader = start(columns=AMOUNTS, rules=[{"name": "broken", "where": "no_such_function(amount)"}])
    account.send([amount(1, 1)])
    load_id = stage(loader)
    with pytest.raises(RuleCrashedError) as crashed:
        finish_load(loader.settings, load_id, lambda _: None, StringIO())

    assert read_health(loader) == ("failed", f"load 1 is staged: {crashed.value.what}", advice.CORRECT_RULE)
    assert loader.query("select cause from penstock.loads") == [(crashed.value.what,)]
    with working_on(loader.db, load_id):
        assert read_health(loader)[0] == "loading"
    corrected = replace(loader, pipeline=declare(account.topic, columns=AMOUNTS, rules=[POSITIVE]))
    corrected.load()
    assert read_health(corrected)[0] == "ok"


def read_health(loader: Loader) -> tuple[str, str, str]:
    with open_ledger(loader.db) as connection:
        [found] = read_status(connection, loader.settings.kafka, [loader.pipeline])
    return found.health.state, found.health.cause, found.health.next_step


def test_a_rule_that_crashes_for_most_rows_holds_the_load(start: Start) -> None:
    rule = {"name": "share", "where": "1 / amount = 1", "hold_above": {"records": 5}}
    account, loader = start(columns=AMOUNTS, rules=[rule])
    account.send([amount(number, 0) for number in range(100)])

    verdict = validate(loader, stage(loader))

    assert verdict.cause is not None
    assert "rule share: rows 100, failed at least 6, hold_above 5, offsets [[0, 0], " in verdict.cause


def test_rows_of_two_rules_that_crash_leave_no_row_unjudged(start: Start) -> None:
    rules = [{"name": name, "where": f"1 / {name} > 0", "hold_above": {"records": 1}} for name in ("x", "y")]
    columns = {name: {"type": "bigint"} for name in ("x", "y")}
    account, loader = start(1, columns=columns, rules=rules)
    account.send([json.dumps({"x": x, "y": y}).encode() for x, y in ((0, 1), (1, 0), (-1, 1), (0, 1), (1, 1))])

    verdict = validate(loader, stage(loader))

    assert verdict.cause is not None
    assert "rule x: rows 5, failed at least 2, hold_above 1" in verdict.cause


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("amount >= ", "syntax error"),
        ("amunt > 0", 'column "amunt" does not exist'),
        ("amount", "argument of IS FALSE must be type boolean"),
        ("1 / 0 > amount", "division by zero"),
        ("id in (select load_id from penstock.load)", "permission denied for schema penstock"),
        ("count(*) > 0", "aggregate functions are not allowed in WHERE"),
        ("sum(amount) over () > 0", "window functions are not allowed in WHERE"),
        ("true) is false then 0 when (false", "syntax error"),
        ("true) or (amount > 0", "syntax error"),
        ("true) is false then 0 end; delete from penstock.event; select case when (true", "cannot insert multiple"),
    ],
)
def test_a_rule_that_cannot_run_is_an_error_of_its_load(db: str, where: str, message: str) -> None:
    pipeline = declare("topic", columns=AMOUNTS, rules=[POSITIVE, {"name": "odd", "where": where}])
    load_id = stage_rows(db, [Range(0, 0, 10)], pipeline=pipeline)

    with pytest.raises(RuleCrashedError, match=message) as raised:
        validate_load(db, load_id)

    assert str(raised.value).startswith(f"orders load {load_id}: the rule odd cannot run: ")
    assert "Next: correct the rule" in str(raised.value)
    with psycopg.connect(db) as connection:
        assert connection.execute("select state from penstock.loads").fetchall() == [("staged",)]


def test_penstock_check_names_a_rule_that_postgresql_refuses(start: Start) -> None:
    _, loader = start(columns=AMOUNTS, rules=[POSITIVE, {"name": "odd", "where": "amunt > 0"}])

    wrong = [finding for finding in check_services(loader.settings, [loader.pipeline]) if not finding.fits]

    assert [(finding.what, finding.told) for finding in wrong] == [
        ("rules[1] odd", 'the rule odd cannot run: column "amunt" does not exist (SQLSTATE 42703).')
    ]


VALIDATE = """
import sys
from penstock.load.validate import validate_load
validate_load(sys.argv[1], int(sys.argv[2]), None, {"bootstrap.servers": sys.argv[3]})
"""


def test_a_process_killed_while_it_moves_rows_leaves_none_moved(start: Start) -> None:
    account, loader = start(columns=AMOUNTS, rules=[POSITIVE])
    account.send([amount(number, number - 3) for number in range(10)])
    load_id = stage(loader)
    with locked(loader.db, f"select 1 from penstock.stage_task where load_id = {load_id} for update"):
        process = subprocess.Popen([sys.executable, "-c", VALIDATE, loader.db, str(load_id), account.bootstrap])
        try:
            await_blocked(loader.db)  # the rows are deleted and in the quarantine, and the counts are not changed yet
        finally:
            process.kill()
            process.wait()
    assert counts(loader, load_id) == [(10, 0, 0)] * 3
    assert loader.query("select count(*) from penstock.quarantine") == [(0,)]

    assert validate(loader, load_id).passed

    assert counts(loader, load_id) == [(7, 3, 0)] * 3
    loader.publish(load_id)
    assert loader.verify().faults == ()


def test_a_retry_after_the_rows_were_moved_gives_the_same_results(start: Start) -> None:
    account, loader = start(columns=AMOUNTS, rules=[POSITIVE])
    account.send([amount(number, number - 3) for number in range(10)])
    load_id = stage(loader)
    with open_ledger(loader.db) as connection:
        load = read_load(connection, load_id)

    first = apply_rules(loader.db, loader.settings.kafka, load)
    assert counts(loader, load_id) == [(7, 3, 0)] * 3
    again = apply_rules(loader.db, loader.settings.kafka, load)

    assert first == again
    assert first[0].observed == {"rows": 10, "failed": 3, "hold_above": 10_000}
    assert counts(loader, load_id) == [(7, 3, 0)] * 3
    assert validate(loader, load_id).passed


def test_a_record_that_the_log_has_lost_is_an_error_and_moves_nothing(kafka: Broker, make_topic: MakeTopic) -> None:
    source = Source({"bootstrap.servers": kafka.bootstrap}, make_topic(1), "read_committed")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": source.topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(source.topic, b"one")
    producer.commit_transaction(60)  # its marker is offset 1, which has no record
    producer.begin_transaction()
    producer.produce(source.topic, b"two")
    producer.commit_transaction(60)

    read = [(int(batch.offsets[index]), batch.values[index]) for batch, index in read_places(source, [(0, 2), (0, 0)])]
    assert read == [(0, b"one"), (0 + 2, b"two")]
    with pytest.raises(ReadError, match="the log no longer has 1 records"):
        list(read_places(source, [(0, 1)]))


TEXTS = ("a", "abc", "", None, "b%", "ABC")
EXPECTED: list[dict[str, Any]] = [
    {"expect": "expect_column_values_to_not_be_null", "column": "note"},
    {"expect": "expect_column_values_to_be_null", "column": "note"},
    {"expect": "expect_column_values_to_be_between", "column": "amount", "min_value": 1, "max_value": 4},
    {"expect": "expect_column_values_to_be_between", "column": "amount", "min_value": 1, "strict_min": True},
    {"expect": "expect_column_values_to_be_between", "column": "day", "max_value": "2026-01-03", "strict_max": True},
    {"expect": "expect_column_values_to_be_in_set", "column": "note", "value_set": ["a", "b%", None]},
    {"expect": "expect_column_values_to_be_in_set", "column": "amount", "value_set": [1, 2.0]},
    {"expect": "expect_column_values_to_not_be_in_set", "column": "note", "value_set": ["a"]},
    {"expect": "expect_column_values_to_match_regex", "column": "note", "regex": "^[a-z%]+$"},
    {"expect": "expect_column_values_to_not_match_regex", "column": "note", "regex": "b"},
    {"expect": "expect_column_value_lengths_to_be_between", "column": "note", "min_value": 1, "max_value": 2},
    {"expect": "expect_column_value_lengths_to_equal", "column": "note", "value": 3},
    {"expect": "expect_column_pair_values_a_to_be_greater_than_b", "column_A": "amount", "column_B": "id"},
    {"expect": "expect_column_pair_values_a_to_be_greater_than_b", "column_A": "amount", "column_B": "id",
     "or_equal": True},
    {"expect": "expect_column_pair_values_to_be_equal", "column_A": "amount", "column_B": "id"},
]  # fmt: skip


def test_an_expectation_in_a_rule_fails_the_rows_that_fail_the_check(db: str) -> None:
    assert {each["expect"] for each in EXPECTED} == set(ROW_EXPECTATIONS)
    columns = {**AMOUNTS, "day": {"type": "date"}}
    pairs = {"ignore_row_if": "both_values_are_missing"}
    checks = [each | {"severity": "warning"} | (pairs if "column_A" in each else {}) for each in EXPECTED]
    counted = 0
    for check, rule in zip(checks, EXPECTED, strict=True):
        held = {"name": "rule", **rule, "hold_above": {"records": 0}}
        pipeline = declare("topic", name=f"p{counted}", columns=columns, checks=[check], rules=[held])
        load_id = stage_rows(db, [Range(0, 0, 12)], pipeline=pipeline)
        table = sql.Identifier("penstock_stage", f"load_{load_id}_1")
        with psycopg.connect(superuser(db)) as connection:
            for offset in range(12):
                connection.execute(
                    sql.SQL("update {} set note = %s, amount = %s, id = %s, day = %s where _offset = %s").format(table),
                    [TEXTS[offset % 6], offset % 5, 3, f"2026-01-0{offset % 5 + 1}", offset],
                )
        validate_load(db, load_id)
        with psycopg.connect(db) as connection:
            results = connection.execute(
                "select kind, success, coalesce((observed ->> 'failed')::int, (observed ->> 'unexpected_count')::int)"
                " from penstock.check_results where load_id = %s and kind <> 'builtin' order by kind",
                [load_id],
            ).fetchall()
        assert results[0][1:] == results[1][1:], rule
        counted += results[1][2] > 0
    assert counted == len(EXPECTED), "each of them fails some rows"
