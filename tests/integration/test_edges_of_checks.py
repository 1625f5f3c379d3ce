"""Checks at their edges: suites from files, suites that crash, queries that cannot run, empty and tiny loads."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pydantic import ValidationError

from check_examples import list_checks, list_checks_of_tables
from declaring import declare, write_declaration
from fix_loads import stage_rows
from loading_process import await_blocked, locked, query
from penstock.declaration.pipeline import Pipeline, read_pipeline
from penstock.errors import ChecksCrashedError
from penstock.load.validate import Verdict, validate_load
from penstock.model.ranges import Range
from privileges import superuser

if TYPE_CHECKING:
    from pathlib import Path


def declare_suite(folder: Path, checks: str, **changes: Any) -> Pipeline:
    """A pipeline with a suite `finance` of these checks."""
    (folder / "suites").mkdir()
    (folder / "suites" / "finance.yaml").write_text(f"checks:\n{checks}")
    return read_pipeline(write_declaration(folder, "topic", suites=["finance"], **changes))


def test_a_failed_check_of_a_suite_holds_the_load_and_names_the_suite(db: str, tmp_path: Path) -> None:
    checks = "- {expect: expect_column_values_to_be_between, column: id, max_value: 698}\n"
    verdict = validate_load(db, stage_rows(db, pipeline=declare_suite(tmp_path, checks)))
    assert not verdict.passed
    assert (verdict.cause or "").startswith(
        "expect_column_values_to_be_between column id of the suite finance: element_count 300, unexpected_count 1"
    )


def test_a_query_of_a_suite_that_cannot_run_is_an_error_that_names_the_suite(db: str, tmp_path: Path) -> None:
    checks = "- {expect: unexpected_rows_expectation, unexpected_rows_query: select nothing from nowhere}\n"
    load_id = stage_rows(db, pipeline=declare_suite(tmp_path, checks))
    with pytest.raises(ChecksCrashedError, match="unexpected_rows_expectation of the suite finance crashed") as crashed:
        validate_load(db, load_id)
    assert crashed.value.next_step.startswith("fix the check in the suite finance")


COLUMNS = {"id": {"type": "bigint", "required": True}, "note": {"type": "text"}, "score": {"type": "bigint"}}
NOT_NULL = {"expect": "expect_column_values_to_not_be_null", "column": "note"}
# Penstock's own expectations: they see an order, ids, partitions, a sequence, times and a volume.
ON_DATA: list[dict[str, Any]] = [
    {"expect": "expect_key_order_within_partition", "key": "note", "order_by": "id", "across": "30d"},
    {"expect": "expect_business_id_unique", "columns": ["id"], "across": "10 loads"},
    {"expect": "expect_key_in_one_partition", "key": "note", "across": "10 loads"},
    {"expect": "expect_sequence_without_gaps", "sequence": "id", "across": "30d"},
    {"expect": "expect_record_time_near", "max_ahead": "5m", "max_disorder": "1s"},
    {"expect": "expect_fresh", "within": "2h"},
    {"expect": "expect_volume_as_usual"},
]
NAMES = [check["expect"] for check in ON_DATA]
BETWEEN = {"expect": "expect_column_values_to_be_between", "column": "id", "max_value": 100}


def change(db: str, statement: str, *values: object) -> None:
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(statement.encode(), values)


def failures(db: str, load_id: int) -> list[tuple[str, int | None, dict[str, Any]]]:
    return query(
        db,
        "select expectation, partition, observed from penstock.check_results where load_id = %s and not success"
        " order by expectation, partition",
        load_id,
    )


def is_accepted(check: dict[str, Any]) -> bool:
    try:
        declare("topic", columns=COLUMNS, checks=[check])
    except ValidationError:
        return False
    return True


def declare_every_check() -> Pipeline:
    """A pipeline with every check that its columns accept: id is a bigint, note a text, score is always null."""
    checks = [check for column in COLUMNS for check in list_checks(column, column) if is_accepted(check)]
    assert len(checks) > 80
    return declare("topic", columns=COLUMNS, checks=[*checks, *list_checks_of_tables(), *ON_DATA])


def judged_on_data(db: str, load_id: int) -> list[tuple[str, int | None, bool, dict[str, Any]]]:
    """The results of Penstock's own expectations on data, in the order of ON_DATA."""
    return query(
        db,
        "select expectation, partition, success, observed from penstock.check_results"
        " where load_id = %s and expectation = any (%s) order by array_position(%s, expectation),"
        " partition nulls first",
        load_id,
        NAMES,
        NAMES,
    )


def test_a_suite_that_dies_with_its_session_is_no_verdict_and_a_retry_is_one(db: str) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("create schema facts")
        connection.execute("create table facts.cities (city text)")
    reads = "select * from {batch} where note in (select city from facts.cities)"
    check = {"expect": "unexpected_rows_expectation", "unexpected_rows_query": reads}
    load_id = stage_rows(db, pipeline=declare("topic", checks=[check], checks_read=["facts.cities"]))
    found: list[Verdict | ChecksCrashedError] = []

    def validate() -> None:
        try:
            found.append(validate_load(db, load_id))
        except ChecksCrashedError as error:
            found.append(error)

    with locked(db, "lock table facts.cities in access exclusive mode"):
        validating = Thread(target=validate)
        validating.start()
        await_blocked(db)
        change(
            db,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'",
        )
        validating.join(60)
    assert len(found) == 1
    assert isinstance(found[0], ChecksCrashedError), "a check whose session died is no failed check"
    assert query(db, "select state from penstock.load") == [("staged",)]
    assert query(db, "select count(*) from penstock.check_result") == [(0,)]
    assert validate_load(db, load_id).passed


def test_a_count_that_dies_beside_the_checks_is_no_verdict(db: str) -> None:
    load_id = stage_rows(
        db, pipeline=declare("topic", checks=[{"expect": "expect_business_id_unique", "columns": ["id"]}])
    )
    found: list[str] = []

    def validate() -> None:
        with pytest.raises(ChecksCrashedError) as caught:
            validate_load(db, load_id)
        found.append(str(caught.value))

    waiting = "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with locked(db, "lock table penstock.quarantine in access exclusive mode"):
        validating = Thread(target=validate)
        validating.start()
        await_blocked(db, 60)
        change(db, f"select pg_terminate_backend(pid) {waiting}")
        validating.join(60)
    assert len(found) == 1
    assert "crashed" in found[0]
    assert query(db, "select state from penstock.load") == [("staged",)]
    assert validate_load(db, load_id).passed


def test_no_check_of_columns_fails_on_a_load_without_rows(db: str) -> None:
    pipeline = declare_every_check()
    holes = [(partition, offset) for partition in (0, 1) for offset in range(5)]
    load_id = stage_rows(db, [Range(0, 0, 5), Range(1, 0, 5)], pipeline=pipeline, holes=holes)
    validate_load(db, load_id)
    failed = failures(db, load_id)
    assert [name for name, *_ in failed if not name.startswith("expect_table_")] == []
    assert [name for name, *_ in failed if "row_count" in name], "300 rows were wanted"
    judged = query(db, "select count(*) from penstock.check_results where kind = 'declared'")
    assert judged == [(len(pipeline.checks),)]


@pytest.mark.parametrize("note", ["x", None])
def test_every_check_runs_on_a_load_of_one_row(db: str, note: str | None) -> None:
    pipeline = declare_every_check()
    load_id = stage_rows(db, [Range(0, 7, 8)], pipeline=pipeline)
    change(db, f"update penstock_stage.load_{load_id}_1 set note = %s", note)
    verdict = validate_load(db, load_id)
    assert verdict.load.state == "held"
    judged = query(db, "select count(*) from penstock.check_results where kind = 'declared'")
    assert judged == [(len(pipeline.checks),)]
    null = query(
        db,
        "select distinct \"column\", observed -> 'offsets' from penstock.check_results"
        " where expectation = %s and not success order by 1",
        NOT_NULL["expect"],
    )
    assert null == ([] if note else [("note", [[0, 7]])]) + [("score", [[0, 7]])]


def test_a_check_that_needs_a_value_fails_where_a_column_has_none(db: str) -> None:
    weights = {"bins": [0, 1, 2], "weights": [0.5, 0.5]}
    needs = {"expect": "expect_column_kl_divergence_to_be_less_than", "column": "score", "threshold": 1}
    mean = {"expect": "expect_column_mean_to_be_between", "column": "score", "min_value": 0}
    checks = [{**needs, "partition_object": weights}, mean, {**BETWEEN, "column": "score"}]
    load_id = stage_rows(db, [Range(0, 0, 5)], pipeline=declare("topic", columns=COLUMNS, checks=checks))
    assert not validate_load(db, load_id).passed
    assert failures(db, load_id) == [
        (needs["expect"], None, {"error": "the column has no value"}),
        (mean["expect"], None, {}),
    ]


def test_a_load_of_one_row_passes_and_fails_as_a_load_of_many(db: str) -> None:
    spread = {"expect": "expect_column_stdev_to_be_between", "column": "id", "max_value": 5}
    scores = {"expect": "expect_column_value_z_scores_to_be_less_than", "column": "id", "threshold": 3}
    checks = [NOT_NULL, BETWEEN, {**spread, "severity": "warning"}, {**scores, "double_sided": True}]
    load_id = stage_rows(db, [Range(0, 7, 8)], pipeline=declare("topic", checks=checks))
    verdict = validate_load(db, load_id)
    assert verdict.passed, verdict.cause


@pytest.mark.parametrize("rows", [0, 1])
def test_expectations_on_data_pass_on_a_load_without_rows_and_of_one_row(db: str, rows: int) -> None:
    pipeline = declare("topic", columns=COLUMNS, checks=ON_DATA)
    holes = [(0, offset) for offset in range(rows, 3)]
    load_id = stage_rows(db, [Range(0, 0, 3)], pipeline=pipeline, holes=holes)
    change(db, f"update penstock_stage.load_{load_id}_1 set _timestamp = now()")
    verdict = validate_load(db, load_id)
    assert verdict.passed, verdict.cause
    assert [(name, partition, success) for name, partition, success, _ in judged_on_data(db, load_id)] == [
        (name, None, True) for name in NAMES
    ]


def test_expectations_on_data_do_not_miss_a_partition_without_rows(db: str) -> None:
    pipeline = declare("topic", columns=COLUMNS, checks=ON_DATA[:4])
    empty = [(1, offset) for offset in range(5)]
    load_id = stage_rows(db, [Range(0, 5, 10), Range(1, 0, 5)], pipeline=pipeline, holes=empty)
    change(db, f"update penstock_stage.load_{load_id}_1 set note = 'ann', id = 20 where _offset = 6")
    change(db, f"update penstock_stage.load_{load_id}_1 set note = 'ann' where _offset = 8")
    assert not validate_load(db, load_id).passed
    failed = [(name, partition) for name, partition, success, _ in judged_on_data(db, load_id) if not success]
    assert failed == [(name, partition) for name in (NAMES[0], NAMES[3]) for partition in (None, 0)]


def test_expectations_on_data_judge_a_thousand_partitions_at_once(db: str) -> None:
    """Ids are offsets, so each id is in every partition: all of them fail but one, and a hundred are kept."""
    pipeline = declare("topic", columns=COLUMNS, checks=ON_DATA[:4])
    load_id = stage_rows(db, [Range(partition, 0, 2) for partition in range(1000)], pipeline=pipeline)
    change(db, f"update penstock_stage.load_{load_id}_1 set note = _partition || ' ' || note, id = 5 * id")
    assert not validate_load(db, load_id).passed
    whole = {
        name: (success, each) for name, partition, success, each in judged_on_data(db, load_id) if partition is None
    }
    assert (whole[NAMES[0]], whole[NAMES[2]]) == (
        (True, {"late": 0, "partitions": 0}),
        (True, {"keys_moved": 0, "partitions": 0}),
    )
    assert whole[NAMES[1]][1]["copies_elsewhere"] == 2 * 999
    assert (whole[NAMES[3]][1]["missing"], whole[NAMES[3]][1]["partitions"]) == (4 * 1000, 1000)
    kept = "select expectation, count(partition) from penstock.check_result where kind = 'declared' group by 1"
    assert dict(query(db, kept)) == {NAMES[0]: 0, NAMES[1]: 100, NAMES[2]: 0, NAMES[3]: 100}


def test_a_fault_in_every_one_of_many_partitions_names_offsets_of_those_that_are_kept(db: str) -> None:
    load_id = stage_rows(db, [Range(partition, 0, 2) for partition in range(150)])
    change(db, f"delete from penstock_stage.load_{load_id}_1 where _offset = 1")
    assert not validate_load(db, load_id).passed
    found = failures(db, load_id)
    assert {name for name, *_ in found} == {"expect_offsets_to_be_accounted_for"}
    assert [partition for _, partition, _ in found] == [*range(100), None]
    assert [each["chunks"] for _, _, each in found[:100]] == [[[0, 2]]] * 100
    assert found[100][2]["partitions"] == 150


def test_a_partition_without_rows_is_judged_and_its_neighbour_fails_alone(db: str) -> None:
    pipeline = declare("topic", checks=[{**BETWEEN, "max_value": 8}])
    empty = [(1, offset) for offset in range(5)]
    load_id = stage_rows(db, [Range(0, 5, 10), Range(1, 0, 5)], pipeline=pipeline, holes=empty)
    assert not validate_load(db, load_id).passed
    assert [(name, partition, each["offsets"]) for name, partition, each in failures(db, load_id)] == [
        (BETWEEN["expect"], None, [[0, 9]])
    ]
    builtin = "select partition, success from penstock.check_results where expectation = %s order by 1"
    assert query(db, builtin, "expect_offsets_to_be_accounted_for") == [(0, True), (1, True)]


def test_a_thousand_partitions_leave_few_results_and_those_that_failed(db: str) -> None:
    ranges = [Range(partition, 0, 2) for partition in range(1000)]
    load_id = stage_rows(db, ranges, pipeline=declare("topic", checks=[NOT_NULL, BETWEEN]))
    change(db, f"delete from penstock_stage.load_{load_id}_1 where _partition in (500, 999) and _offset = 1")
    change(db, f"update penstock_stage.load_{load_id}_1 set note = null where _partition = 3")
    verdict = validate_load(db, load_id)
    accounted = "expect_offsets_to_be_accounted_for"
    assert (verdict.cause or "").startswith(f"{accounted} partition 500: planned 2, rows 1,")
    found = failures(db, load_id)
    assert [(name, partition) for name, partition, _ in found] == [
        (NOT_NULL["expect"], None), (accounted, 500), (accounted, 999), (accounted, None),
    ]  # fmt: skip
    assert found[0][2]["offsets"] == [[3, 0], [3, 1]]
    assert found[3][2] == {"judged": 1000, "partitions": 2, "observed_value": 2}
    builtin, declared = 6, 2
    assert query(db, "select count(*) from penstock.check_result") == [(builtin + declared + len((500, 999)),)]
