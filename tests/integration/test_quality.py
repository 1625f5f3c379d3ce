"""The checks on real staged rows: each guarantee is broken once, and holds the load where it is broken."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from declaring import declare
from fix_loads import Bind, quarantine_record, stage_rows
from penstock.errors import ChecksCrashedError, FencedError
from penstock.ledger.check_result import RowSums, compose_count
from penstock.ledger.connection import connect
from penstock.ledger.load import read_load
from penstock.load.publish import publish_load
from penstock.load.validate import Verdict, validate_load
from penstock.model.ranges import Range
from penstock.quality.checker import Access
from penstock.quality.counts import PartitionCounts
from penstock.waiting import wait_until
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_PLAN = "expect_offsets_to_be_in_plan"
UNIQUE = "expect_offsets_to_be_unique"
RISING = "expect_offsets_to_rise_strictly"
ACCOUNTED = "expect_offsets_to_be_accounted_for"
QUARANTINE = "expect_quarantine_to_be_in_plan"
FRESH = "expect_position_to_be_fresh"
BUILTIN = [IN_PLAN, UNIQUE, RISING, QUARANTINE, ACCOUNTED, FRESH]

HOLES = [(0, 0), (0, 50), (1, 699)]
BAD = [(0, 7), (1, 500)]


def execute(db: str, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    with psycopg.connect(superuser(db)) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def state_of(db: str, load_id: int) -> str:
    return str(execute(db, "select state from penstock.load where load_id = %s", [load_id])[0][0])


def failures(db: str, load_id: int) -> set[tuple[str, int | None]]:
    found = execute(
        db,
        "select expectation, partition from penstock.check_results where load_id = %s and not success",
        [load_id],
    )
    return set(found)


def observed(db: str, load_id: int, expectation: str, partition: int | None = None) -> dict[str, Any]:
    rows = execute(
        db,
        "select observed from penstock.check_results where load_id = %s and expectation = %s"
        " and partition is not distinct from %s",
        [load_id, expectation, partition],
    )
    (found,) = rows
    return dict(found[0])


def held(db: str, load_id: int) -> Verdict:
    verdict = validate_load(db, load_id)
    assert not verdict.passed
    assert state_of(db, load_id) == verdict.load.state == "held"
    assert verdict.cause == verdict.load.cause
    assert "\n" not in (verdict.cause or "")
    return verdict


def test_whole_load_with_holes_and_quarantine_is_validated_partition_by_partition(db: str) -> None:
    load_id = stage_rows(db, holes=HOLES, quarantined=BAD)
    verdict = validate_load(db, load_id)
    assert verdict.passed, verdict.cause
    assert (verdict.load.state, verdict.attempt, verdict.warnings, verdict.cause) == ("validated", 1, 0, None)
    found = execute(
        db,
        "select expectation, partition, kind, severity, success from penstock.check_results where load_id = %s",
        [load_id],
    )
    assert set(found) == {(name, part, "builtin", "error", True) for name in BUILTIN for part in (0, 1)}
    assert observed(db, load_id, ACCOUNTED, 0) == {
        "planned": 100, "rows": 97, "quarantined": 1, "holes": 2, "filtered": 0, "unaccounted": 0,
    }  # fmt: skip


def test_row_outside_the_plan_holds_the_load_and_names_its_offset(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, f"update penstock_stage.load_{load_id}_1 set _offset = 700 where _partition = 1 and _offset = 600")
    verdict = held(db, load_id)
    assert failures(db, load_id) == {(IN_PLAN, 1), (ACCOUNTED, 1)}
    assert observed(db, load_id, IN_PLAN, 1) == {"rows": 199, "outside": 1, "offsets": [700]}
    assert verdict.cause == f"{IN_PLAN} partition 1: rows 199, outside 1, offsets [700] (and 1 more failed)"


def test_row_of_a_partition_that_was_not_planned_holds_the_load(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, f"insert into penstock_stage.load_{load_id}_1 (id, _load_id, _partition, _offset)"
                f" values (1, {load_id}, 2, 10)")  # fmt: skip
    held(db, load_id)
    assert failures(db, load_id) == {(IN_PLAN, 2)}


def test_duplicate_offset_in_a_table_without_its_key_holds_the_load(db: str) -> None:
    load_id = stage_rows(db, keyed=False)
    execute(db, f"insert into penstock_stage.load_{load_id}_1"
                f" select * from penstock_stage.load_{load_id}_1 where _partition = 1 and _offset = 555")  # fmt: skip
    held(db, load_id)
    assert failures(db, load_id) == {(UNIQUE, 1), (ACCOUNTED, 1)}
    assert observed(db, load_id, UNIQUE, 1) == {"twice": 1, "quarantined_too": 0, "by": "count", "offsets": [555]}
    assert observed(db, load_id, UNIQUE, 0) == {"twice": 0, "quarantined_too": 0, "by": "count"}


def test_duplicate_that_stands_in_for_a_missing_row_is_found_although_the_counts_add_up(db: str) -> None:
    load_id = stage_rows(db, keyed=False)
    execute(db, f"update penstock_stage.load_{load_id}_1 set _offset = 3 where _partition = 0 and _offset = 4")
    held(db, load_id)
    assert failures(db, load_id) == {(UNIQUE, 0)}


def test_key_proves_uniqueness_and_an_index_that_is_no_key_does_not(db: str, bound: Bind) -> None:
    keyed = stage_rows(db)
    assert validate_load(db, keyed).passed
    assert observed(db, keyed, UNIQUE, 0)["by"] == "key"
    publish_load(db, bound(db), keyed)
    other = stage_rows(db, [Range(0, 100, 200)], keyed=False)
    execute(db, f"create index on penstock_stage.load_{other}_1 (_partition, _offset)")
    execute(db, f"create unique index on penstock_stage.load_{other}_1 (_partition, _offset) where _offset < 150")
    execute(db, f"create unique index on penstock_stage.load_{other}_1 (_partition, _offset, id)")
    assert validate_load(db, other).passed
    assert observed(db, other, UNIQUE, 0)["by"] == "count"


def test_offset_both_staged_and_quarantined_holds_the_load(db: str) -> None:
    load_id = stage_rows(db, holes=[(0, 9)])
    with connect(superuser(db)) as connection:
        quarantine_record(connection, load_id, 1, 0, 10)  # the hole at 9 makes the sum right: only the place is wrong
        connection.execute("update penstock.stage_task set holes = 0 where load_id = %s", [load_id])
    held(db, load_id)
    assert failures(db, load_id) == {(UNIQUE, 0)}
    assert observed(db, load_id, UNIQUE, 0)["offsets"] == [10]


def test_chunks_that_overlap_or_leave_offsets_out_hold_the_load(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, "update penstock.stage_task set until_offset = 60 where load_id = %s and partition = 0"
                " and from_offset = 0", [load_id])  # fmt: skip
    execute(db, "update penstock.stage_task set until_offset = 540 where load_id = %s and partition = 1"
                " and from_offset = 500", [load_id])  # fmt: skip
    held(db, load_id)
    assert failures(db, load_id) == {(RISING, 0), (RISING, 1)}
    assert observed(db, load_id, RISING, 0) == {"chunks": 2, "overlapping": 1, "unread": 10}
    assert observed(db, load_id, RISING, 1) == {"chunks": 4, "overlapping": 0, "unread": 10}


def test_missing_row_holds_the_load_and_names_the_chunk_that_lacks_it(db: str) -> None:
    load_id = stage_rows(db, holes=HOLES, quarantined=BAD)
    execute(db, f"delete from penstock_stage.load_{load_id}_1 where _partition = 1 and _offset = 577")
    verdict = held(db, load_id)
    assert failures(db, load_id) == {(ACCOUNTED, 1)}
    assert observed(db, load_id, ACCOUNTED, 1) == {
        "planned": 200, "rows": 197, "quarantined": 1, "holes": 1, "filtered": 0, "unaccounted": 1,
        "chunks": [[550, 600]],
    }  # fmt: skip
    assert (verdict.cause or "").startswith(f"{ACCOUNTED} partition 1: planned 200, rows 197, ")


def test_wrong_count_of_holes_holds_the_load(db: str) -> None:
    load_id = stage_rows(db, holes=HOLES)
    execute(db, "update penstock.stage_task set holes = holes + 1 where load_id = %s and partition = 1"
                " and from_offset = 500", [load_id])  # fmt: skip
    held(db, load_id)
    assert failures(db, load_id) == {(ACCOUNTED, 1)}


def test_counts_that_the_tasks_wrote_do_not_stand_in_for_rows(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, f"delete from penstock_stage.load_{load_id}_1 where _partition = 0")
    assert execute(db, "select sum(rows) from penstock.stage_task where load_id = %s", [load_id]) == [(300,)]
    held(db, load_id)
    assert failures(db, load_id) == {(ACCOUNTED, 0)}


def test_quarantined_record_that_is_gone_holds_the_load(db: str) -> None:
    load_id = stage_rows(db, quarantined=BAD)
    execute(db, "delete from penstock.quarantine where load_id = %s and partition = 0", [load_id])
    held(db, load_id)
    assert failures(db, load_id) == {(ACCOUNTED, 0)}


def test_quarantined_record_outside_the_plan_holds_the_load(db: str) -> None:
    load_id = stage_rows(db, quarantined=BAD)
    with connect(db) as connection:
        quarantine_record(connection, load_id, 1, 0, 100)
        quarantine_record(connection, load_id, 2, 1, 100)  # of another attempt: none of this one's business
    held(db, load_id)
    assert failures(db, load_id) == {(QUARANTINE, 0)}
    assert observed(db, load_id, QUARANTINE, 0) == {"quarantined": 1, "outside": 1, "offsets": [100]}


def test_position_that_moved_meanwhile_holds_a_live_load_and_no_backfill(db: str) -> None:
    load_id = stage_rows(db)
    backfill = stage_rows(db, [Range(1, 0, 10)], kind="backfill")
    execute(db, "update penstock.position set position = position + 1 where partition = 1")
    held(db, load_id)
    assert failures(db, load_id) == {(FRESH, 1)}
    assert observed(db, load_id, FRESH, 1) == {"from": 500, "position": 501}
    assert validate_load(db, backfill).passed


def test_rows_between_two_ranges_of_one_partition_are_outside_the_plan(db: str) -> None:
    ranges = [Range(0, 0, 10), Range(0, 20, 30), Range(0, 30, 40)]
    load_id = stage_rows(db, ranges, kind="backfill")
    execute(db, f"update penstock_stage.load_{load_id}_1 set _offset = 15 where _offset = 25")
    held(db, load_id)
    assert failures(db, load_id) == {(IN_PLAN, 0), (ACCOUNTED, 0)}
    assert observed(db, load_id, IN_PLAN, 0)["offsets"] == [15]
    whole = stage_rows(db, [Range(3, 0, 10), Range(3, 20, 30)], kind="replay", holes=[(3, 0), (3, 29)])
    assert validate_load(db, whole).passed


def test_load_of_nothing_but_holes_passes_its_declared_checks_too(db: str) -> None:
    checks = [
        {"expect": "expect_column_max_to_be_between", "column": "id", "max_value": 5},
        {"expect": "expect_column_values_to_not_be_null", "column": "id"},
    ]
    pipeline = declare("topic", checks=checks)
    load_id = stage_rows(db, [Range(0, 5, 8)], pipeline=pipeline, holes=[(0, 5), (0, 6), (0, 7)])
    assert validate_load(db, load_id).passed


def test_declared_error_holds_the_load_with_offsets_and_without_values(db: str) -> None:
    checks = [
        {"expect": "expect_column_values_to_be_between", "column": "id", "min_value": 12},
        {"expect": "expect_column_most_common_value_to_be_in_set", "column": "note", "value_set": ["x"]},
        {"expect": "expect_table_row_count_to_be_between", "min_value": 301},
    ]
    load_id = stage_rows(db, pipeline=declare("topic", checks=checks))
    verdict = held(db, load_id)
    assert observed(db, load_id, "expect_column_values_to_be_between") == {
        "element_count": 300, "unexpected_count": 12, "missing_count": 0,
        "offsets": [[0, offset] for offset in range(10)],
    }  # fmt: skip
    assert observed(db, load_id, "expect_column_most_common_value_to_be_in_set") == {}
    assert observed(db, load_id, "expect_table_row_count_to_be_between") == {"observed_value": 300}
    assert (verdict.cause or "").startswith("expect_column_values_to_be_between column id: element_count 300, ")
    assert "note of" not in str(execute(db, "select observed, cause from penstock.check_results, penstock.load"))


def test_warning_is_counted_and_lets_the_load_pass(db: str, bound: Bind) -> None:
    check = {"expect": "expect_column_values_to_be_between", "column": "id", "min_value": 12}
    pipeline = declare("topic", checks=[{**check, "severity": "warning"}, check | {"min_value": 0}])
    load_id = stage_rows(db, pipeline=pipeline)
    verdict = validate_load(db, load_id)
    assert (verdict.passed, verdict.warnings, verdict.load.state) == (True, 1, "validated")
    again = validate_load(db, load_id)
    assert (again.passed, again.warnings) == (True, 1)
    publish_load(db, bound(db), load_id)
    assert validate_load(db, load_id).summary == f"orders: load {load_id} is published already; it stays."


def test_same_check_as_error_and_as_warning_counts_as_both(db: str) -> None:
    check = {"expect": "expect_column_values_to_be_between", "column": "id", "min_value": 12}
    load_id = stage_rows(db, pipeline=declare("topic", checks=[{**check, "severity": "warning"}, check]))
    assert held(db, load_id).warnings == 1


@pytest.mark.parametrize(
    "check",
    [
        {"expect": "expect_table_row_count_to_equal_other_table", "other_table_name": "gone"},
        {"expect": "unexpected_rows_expectation", "unexpected_rows_query": "select * from {batch} where gone = 1"},
    ],
)  # fmt: skip
def test_check_that_crashes_is_no_verdict_and_the_load_stays_staged(
    db: str, check: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    load_id = stage_rows(db, pipeline=declare("topic", checks=[{**check, "severity": "warning"}]))
    with pytest.raises(ChecksCrashedError, match=check["expect"]) as caught:
        validate_load(db, load_id)
    assert "note of" not in str(caught.value) + caplog.text
    assert "\n" not in str(caught.value)
    assert state_of(db, load_id) == "staged"
    assert failures(db, load_id) == set()


def test_builtin_check_that_crashes_is_no_verdict(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, f"alter table penstock_stage.load_{load_id}_1 rename column _offset to offset_")
    with pytest.raises(ChecksCrashedError, match=r"column .*_offset"):
        validate_load(db, load_id)
    assert state_of(db, load_id) == "staged"
    execute(db, f"alter table penstock_stage.load_{load_id}_1 rename column offset_ to _offset")
    assert validate_load(db, load_id).passed


def test_staged_table_that_is_gone_is_no_verdict(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, f"drop table penstock_stage.load_{load_id}_1")
    with pytest.raises(ChecksCrashedError):
        validate_load(db, load_id)
    assert state_of(db, load_id) == "staged"


def test_check_with_sql_cannot_change_the_database(db: str) -> None:
    execute(db, "create sequence public.counter; grant all on sequence public.counter to public")
    query = "select * from {batch} where nextval('public.counter') < 0"
    checks = [{"expect": "unexpected_rows_expectation", "unexpected_rows_query": query}]
    load_id = stage_rows(db, pipeline=declare("topic", checks=checks))
    with pytest.raises(ChecksCrashedError, match="read-only transaction"):
        validate_load(db, load_id)
    assert execute(db, "select is_called from public.counter") == [(False,)]


def test_held_load_stays_held_and_ended_loads_have_no_verdict(db: str) -> None:
    load_id = stage_rows(db)
    execute(db, f"delete from penstock_stage.load_{load_id}_1 where _offset = 3")
    first = held(db, load_id)
    execute(db, f"insert into penstock_stage.load_{load_id}_1 (id, _load_id, _partition, _offset)"
                f" values (3, {load_id}, 0, 3)")  # fmt: skip
    again = validate_load(db, load_id)
    assert (again.passed, again.cause) == (False, first.cause)
    for state in ("planned", "staging", "superseded", "failed", "discarded", "rolled_back"):
        execute(db, "update penstock.load set state = %s where load_id = %s", [state, load_id])
        with pytest.raises(FencedError, match=state):
            validate_load(db, load_id)


def test_load_that_was_superseded_during_its_checks_is_fenced_and_keeps_no_results(db: str) -> None:
    from penstock.load.validate import decide
    from penstock.quality.suite import check_load

    load_id = stage_rows(db)
    with connect(db) as connection:
        load = read_load(connection, load_id)
    results = check_load(db, load)
    execute(db, "update penstock.load set state = 'superseded' where load_id = %s", [load_id])
    with pytest.raises(FencedError), connect(db) as connection:
        decide(connection, load, results)
    execute(db, "update penstock.load set state = 'staged', attempt = 2 where load_id = %s", [load_id])
    with pytest.raises(FencedError), connect(db) as connection:
        decide(connection, load, results)
    assert execute(db, "select count(*) from penstock.check_result") == [(0,)]


def test_two_validations_at_once_end_with_one_verdict(db: str) -> None:
    from penstock.load.validate import decide
    from penstock.quality.suite import check_load

    load_id = stage_rows(db)
    with connect(db) as connection:
        load = read_load(connection, load_id)
    results = check_load(db, load)
    verdicts = []
    for _ in range(2):
        with connect(db) as connection:
            verdicts.append(decide(connection, load, results))
    assert [verdict.passed for verdict in verdicts] == [True, True]
    assert execute(db, "select count(*) from penstock.check_result") == [(len(BUILTIN) * 2,)]


def test_all_builtin_checks_together_read_the_staged_rows_once(db: str) -> None:
    load_id = stage_rows(db, holes=HOLES)

    def count_reads() -> int:
        """The rows read so far: a session reports its counters before it leaves the list of sessions."""
        others = (
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        assert wait_until(lambda: execute(db, others) == [(0,)], seconds=60)
        query = "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = %s"
        return int(execute(db, query, [f"load_{load_id}_1"])[0][0])

    before = count_reads()
    assert validate_load(db, load_id).passed
    # One more is what Great Expectations looks at to see whether the table is there.
    assert 297 <= count_reads() - before <= 300


def test_password_stays_out_of_configurations_logs_and_errors(
    db: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    from penstock.quality import suite

    caplog.set_level(logging.DEBUG)
    password = str(urlsplit(db).password)
    load_id = stage_rows(db)
    with connect(db) as connection:
        load = read_load(connection, load_id)
    with warnings.catch_warnings(action="ignore"):
        source = suite.open_batch(Access(db, None), load).datasource
    assert source.connection_string == "postgresql+psycopg://"
    assert password not in repr(source.dict())
    wrong = db.replace(password, "canary-in-the-mine")
    with pytest.raises(ChecksCrashedError) as caught:
        suite.check_load(wrong, load)
    validate_load(db, load_id)
    shown = caplog.text + str(caught.value) + repr(caught.value) + "".join(capfd.readouterr())
    assert password not in shown
    assert "canary-in-the-mine" not in shown


def test_the_columns_of_the_count_are_the_fields_of_its_dataclass(db: str) -> None:
    load_id = stage_rows(db)
    staged = sql.Identifier("penstock_stage", f"load_{load_id}_1")
    text = compose_count(staged, sql.SQL("1"))
    with connect(db) as connection:
        values = {"load_id": load_id, "attempt": 1, "table": staged.as_string(None)}
        described = connection.execute(text.encode(), values).description or []

    fields = {field.name for field in dataclasses.fields(PartitionCounts)}
    sums = {field.name for field in dataclasses.fields(RowSums)}
    assert {column.name for column in described} ^ fields == {*sums, "samples"}


def test_a_value_that_python_cannot_hold_is_not_quoted() -> None:
    from penstock.quality.suite import hide_values

    message = "(psycopg.DataError) timestamp too small (before year 1): '0001-01-01 BC'\n[SQL: select 1]"
    assert "0001" not in hide_values(message)


def test_severities_reach_great_expectations(db: str) -> None:
    from penstock.quality.suite import build_suite

    check = {"expect": "expect_column_values_to_not_be_null", "column": "id"}
    load_id = stage_rows(db, pipeline=declare("topic", checks=[check, {**check, "severity": "warning"}]))
    with connect(db) as connection:
        suite = build_suite(read_load(connection, load_id), [{"column": "id"}] * 2)

    assert [expectation.severity for expectation in suite.expectations] == ["critical"] * (len(BUILTIN) + 1) + [
        "warning"
    ]


def test_a_built_in_expectation_counts_for_itself_in_another_suite(db: str) -> None:
    from penstock.quality.expectations import ExpectOffsetsToBeAccountedFor
    from penstock.quality.suite import open_batch

    load_id = stage_rows(db)
    with connect(db) as connection:
        load = read_load(connection, load_id)
    expectation = ExpectOffsetsToBeAccountedFor(load_id=load_id, attempt=1)
    with warnings.catch_warnings(action="ignore"):
        assert open_batch(Access(db, None), load).validate(expectation).success
        execute(db, f"delete from penstock_stage.load_{load_id}_1 where _offset = 3")
        result = open_batch(Access(db, None), load).validate(expectation)

    assert not result.success
    assert [each["success"] for each in result.result["details"]["partitions"]] == [False, True]


def test_validate_writes_no_progress_bars(db: str, capfd: pytest.CaptureFixture[str]) -> None:
    validate_load(db, stage_rows(db))
    assert capfd.readouterr() == ("", "")


def test_importing_quality_imports_neither_great_expectations_nor_pandas() -> None:
    code = (
        "import sys, penstock.load.validate, penstock.decide.settle, penstock.alerts.sender;"
        "print([m for m in ('great_expectations', 'pandas', 'apprise', 'pyspark', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_importing_ahead_leaves_great_expectations_ready() -> None:
    code = (
        "import sys; from penstock.load import validate as q; t = q.import_ahead(); t.join();"
        "print('penstock.quality.suite' in sys.modules, 'great_expectations' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"
