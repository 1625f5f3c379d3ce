"""The history of checks: the results that the ledger keeps, and those that `penstock quality` shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import psycopg
import pytest
from typer.testing import CliRunner

from declaring import describe, write_declaration
from fix_loads import stage_rows
from loading_process import query
from penstock.cli.main import app
from penstock.decide.settle import discard_load
from penstock.declaration.pipeline import Pipeline, read_pipeline
from penstock.ledger.connection import open_ledger
from penstock.ledger.history import read_usual_volumes
from penstock.ledger.pipeline import find_pipeline
from penstock.load.publish import publish_in
from penstock.load.validate import validate_load
from penstock.maintenance.run import maintain
from penstock.model.load import Kind
from penstock.model.ranges import Range
from penstock.status.quality import read_quality
from privileges import superuser

if TYPE_CHECKING:
    from pathlib import Path

BETWEEN = "expect_column_values_to_be_between"
COUNT = "expect_table_row_count_to_be_between"
CHECKS = [
    {"expect": BETWEEN, "column": "id", "max_value": 14, "severity": "warning"},
    {"expect": BETWEEN, "column": "id", "max_value": 24, "severity": "warning"},
    {"expect": COUNT, "min_value": 1},
]
ACCOUNTED = "expect_offsets_to_be_accounted_for"


def load(db: str, pipeline: Pipeline, start: int) -> int:
    """Stage, check and publish ten offsets of partition 0."""
    load_id = stage_rows(db, [Range(0, start, start + 10)], pipeline=pipeline)
    assert validate_load(db, load_id).passed
    with open_ledger(db) as connection:
        publish_in(connection, load_id)
    return load_id


@pytest.fixture
def orders(tmp_path: Path) -> Pipeline:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "finance.yaml").write_text(json.dumps({"checks": CHECKS}))
    return read_pipeline(write_declaration(tmp_path, "topic", suites=["finance"]))


@pytest.fixture
def environment(db: str, tmp_path: Path) -> dict[str, str]:
    return {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": "nowhere:1", "PENSTOCK_PIPELINES": str(tmp_path)}


def show(environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["quality", *arguments], env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def show_json(environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    code, out, _ = show(environment, "orders", *arguments, "--json")
    assert code == 0
    return dict(json.loads(out))


def test_quality_shows_each_check_of_the_last_loads(db: str, orders: Pipeline, environment: dict[str, str]) -> None:
    first, second, third = (load(db, orders, start) for start in (0, 10, 20))

    found = show_json(environment)
    assert found["loads"] == [first, second, third]
    declared = [check for check in found["checks"] if check["kind"] == "declared"]
    assert [(check["expectation"], check["suite"], check["failed"]) for check in declared] == [
        (BETWEEN, "finance", 2),
        (BETWEEN, "finance", 1),
        (COUNT, "finance", 0),
    ]
    assert [[each["figure"] for each in check["results"]] for check in declared] == [[0, 5, 10], [0, 0, 5], [10] * 3]
    assert {each["state"] for check in declared for each in check["results"]} == {"published"}

    assert show_json(environment, "--last", "2")["loads"] == [second, third]
    _, out, message = show(environment, "orders")
    lines = [line.rstrip() for line in out.splitlines()]
    assert "2 of 3  10    10        ▁▅█     warning   expect_column_values_to_be_between" in lines
    assert "1 of 3  5     5         ▁▁█     warning   expect_column_values_to_be_between" in lines
    assert "0 of 3  10    10        ███     error     expect_table_row_count_to_be_between" in lines
    assert any(f"#{declared[0]['check_id']}" in line for line in lines)
    assert f"orders: 3 loads, {first} to {third}." in message


def test_quality_of_one_expectation_shows_its_failures_with_offsets_and_no_values(
    db: str, orders: Pipeline, environment: dict[str, str]
) -> None:
    first, second = load(db, orders, 0), load(db, orders, 10)
    found = show_json(environment, "--expectation", BETWEEN)
    assert [check["failed"] for check in found["checks"]] == [1, 0]
    assert found["failures"] == [
        {
            "load": second,
            "expectation": BETWEEN,
            "column": "id",
            "check_id": found["checks"][0]["check_id"],
            "partition": None,
            "observed": {
                "element_count": 10,
                "unexpected_count": 5,
                "missing_count": 0,
                "offsets": [[0, offset] for offset in range(15, 20)],
            },
        }
    ]
    _, out, _ = show(environment, "orders", "--expectation", BETWEEN)
    assert f"load {second}: offsets [[0, 15], [0, 16], [0, 17], [0, 18], [0, 19]], element_count 10, " in out
    assert [line.split()[0] for line in out.splitlines() if "published" in line] == [str(first), str(second)] * 2


def test_quality_of_a_load_that_was_held_and_discarded_names_the_partition(
    db: str, orders: Pipeline, environment: dict[str, str]
) -> None:
    load_id = stage_rows(db, [Range(0, 0, 10), Range(1, 0, 10)], pipeline=orders)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(f"delete from penstock_stage.load_{load_id}_1 where _partition = 1 and _offset = 5".encode())
    assert not validate_load(db, load_id).passed
    discard_load(db, load_id, "ann", "a row is missing")
    found = show_json(environment, "--expectation", ACCOUNTED)
    assert found["checks"][0]["results"][0]["state"] == "discarded"
    assert found["checks"][0]["results"][0]["partitions_failed"] == 1
    assert [(each["partition"], each["observed"]["unaccounted"]) for each in found["failures"]] == [(1, 1)]


def test_quality_refuses_unknown_names_and_says_which_there_are(
    db: str, orders: Pipeline, environment: dict[str, str]
) -> None:
    assert show(environment, "oders")[0] == 2
    code, _, message = show(environment, "orders")
    assert (code, "no load was checked yet" in message) == (0, True)
    load(db, orders, 0)
    code, _, message = show(environment, "orders", "--expectation", "expect_nothing")
    assert code == 2
    assert COUNT in message


def test_the_history_has_one_row_for_each_load_and_check(db: str, orders: Pipeline) -> None:
    load_id = stage_rows(db, [Range(partition, 0, 3) for partition in range(20)], pipeline=orders)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(f"delete from penstock_stage.load_{load_id}_1 where _partition in (2, 7)".encode())
    assert not validate_load(db, load_id).passed
    history = query(
        db,
        "select expectation, success, partitions_failed, figure from penstock.quality_history"
        " where pipeline = 'orders' and load_id = %s order by ordinal",
        load_id,
    )
    assert len(history) == 6 + len(CHECKS)
    assert (ACCOUNTED, False, 2, 6) in history
    assert ("expect_offsets_to_be_in_plan", True, 0, 0) in history
    kept = "select partition from penstock.check_results where expectation = %s order by partition nulls first"
    assert query(db, kept, ACCOUNTED) == [(None,), (2,), (7,)]


def test_two_warnings_of_one_expectation_are_two_incidents_and_each_ends_alone(db: str, tmp_path: Path) -> None:
    within = [{**CHECKS[0], "max_value": most} for most in (24, 34)]
    within += [{**CHECKS[0], "min_value": 15, "max_value": 99}]
    orders = read_pipeline(write_declaration(tmp_path, "topic", checks=within))
    warned = "select message, ended_at is null from penstock.incidents where kind = 'failed_check' order by incident_id"
    load(db, orders, 10)
    assert [(message.split(" ")[-1], open_) for message, open_ in query(db, warned)] == [("14]]", True)]
    load(db, orders, 20)
    assert [open_ for _, open_ in query(db, warned)] == [False, True]
    load(db, orders, 30)
    assert [open_ for _, open_ in query(db, warned)] == [False, True, True]


def test_results_of_checks_are_dropped_after_their_time_and_not_before(db: str, tmp_path: Path) -> None:
    orders = read_pipeline(write_declaration(tmp_path, "topic", checks=CHECKS, keep_check_results_days=30))
    other = Pipeline.model_validate(describe("topic", name="other", checks=CHECKS))
    old, young = load(db, orders, 0), load(db, orders, 10)
    of_other = load(db, other, 0)
    open_load = stage_rows(db, [Range(0, 20, 30)], pipeline=orders)
    validate_load(db, open_load)
    for load_id, days in ((old, 31), (young, 29), (of_other, 31), (open_load, 31)):
        with psycopg.connect(superuser(db)) as connection:
            for table, column in (("load", "planned_at"), ("check_result", "checked_at")):
                older = f"update penstock.{table} set {column} = now() - make_interval(days => %s) where load_id = %s"
                connection.execute(older.encode(), [days, load_id])
    forever = orders.model_copy(update={"keep_check_results_days": None})

    def drop(pipeline: Pipeline) -> int:
        return maintain(db, pipeline, lambda _: None).dropped.check_results

    of_tasks = "select distinct load_id from penstock.stage_task order by 1"
    assert drop(forever) == 0
    assert query(db, of_tasks) == [(load_id,) for load_id in (old, young, of_other, open_load)]
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("update penstock.load set ended_at = planned_at where ended_at is not null")
    brief = forever.model_copy(update={"keep_tasks_days": 30})
    assert maintain(db, brief, lambda _: None).dropped.tasks == 1
    assert query(db, of_tasks) == [(load_id,) for load_id in (young, of_other, open_load)]
    ranges = query(db, "select rows from penstock.ranges where load_id = %s", old)
    assert ranges == [(10,)], "the counts of the ranges stay"
    assert drop(orders) == 6 + len(CHECKS)
    assert drop(orders) == 0
    left = query(db, "select distinct load_id from penstock.check_result order by 1")
    assert left == [(load_id,) for load_id in sorted((young, of_other, open_load))]
    with open_ledger(db) as connection:
        assert find_pipeline(connection, "orders")
        assert read_quality(connection, "orders", 10).loads == (young, open_load)


def test_quality_shows_the_places_of_an_expectation_on_data_for_each_partition(
    db: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    unique: dict[str, Any] = {"expect": "expect_business_id_unique", "columns": ["note"], "severity": "warning"}
    orders = read_pipeline(write_declaration(tmp_path, "topic", checks=[unique]))
    load_id = stage_rows(db, [Range(0, 0, 3), Range(1, 0, 3)], pipeline=orders)
    assert validate_load(db, load_id).warnings == 1
    found = show_json(environment, "--expectation", unique["expect"])
    assert found["checks"][0]["results"][0]["figure"] == 3
    assert found["checks"][0]["results"][0]["partitions_failed"] == 1
    assert [each["partition"] for each in found["failures"]] == [None, 1]
    _, out, _ = show(environment, "orders", "--expectation", str(unique["expect"]))
    assert (
        f"load {load_id}, partition 1: far_copies 0, near_copies 0, copies_elsewhere 3, at partition:offset 1:0" in out
    )


def test_only_published_live_loads_of_the_hour_that_were_not_held_are_a_usual_volume(db: str) -> None:
    def plan(kind: Kind, weeks: int, rows: int, **changed: str) -> None:
        load_id = stage_rows(db, [Range(0, 10 * rows, 10 * rows + 5)], kind=kind)
        changes = {"state": "'published'", "published_at": f"now() - interval '{weeks} weeks'", "rows": str(rows)}
        changes |= {"planned_at": f"now() - interval '{weeks} weeks'", **changed}
        written = ", ".join(f"{name} = {value}" for name, value in changes.items())
        with psycopg.connect(superuser(db)) as connection:
            connection.execute(f"update penstock.load set {written} where load_id = {load_id}".encode())

    plan("live", 1, 1)
    plan("live", 2, 2)
    plan("live", 5, 3)
    plan("live", 1, 4, held_at="now()")
    plan("live", 1, 5, planned_at="now() - interval '1 week 2 hours'")
    plan("live", 1, 6, state="'discarded'", published_at="null")
    plan("live", 1, 50, state="'rolled_back'")
    for place, kind in enumerate(get_args(Kind), start=7):
        if kind != "live":
            plan(kind, 1, place)
    current = stage_rows(db, [Range(0, 1_000, 1_005)])
    with open_ledger(db) as connection:
        assert read_usual_volumes(connection, current, 4) == [1, 2]
