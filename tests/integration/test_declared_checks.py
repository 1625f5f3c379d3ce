"""Every check that a declaration accepts runs on PostgreSQL without a crash."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from pydantic import ValidationError

from check_examples import list_checks, list_checks_of_tables
from column_samples import SAMPLES
from declaring import COLUMNS, declare
from fix_loads import stage_rows
from penstock.declaration.check_arguments import find_regex_mistake
from penstock.declaration.pipeline import Pipeline
from penstock.load.validate import validate_load
from penstock.model.ranges import Range

# Two types at a time: a thousand checks of one load take minutes.
GROUPS = [list(SAMPLES)[at : at + 2] for at in range(0, len(SAMPLES), 2)]


def declare_with(type_: str, column: str, check: dict[str, Any]) -> Pipeline:
    return declare("topic", columns={**COLUMNS, column: {"type": type_}, f"{column}b": {"type": type_}}, checks=[check])


def is_accepted(type_: str, column: str, check: dict[str, Any]) -> bool:
    try:
        declare_with(type_, column, check)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("types", GROUPS, ids=" ".join)
def test_no_accepted_check_crashes_on_any_value_of_a_type(db: str, types: list[str]) -> None:
    columns = {f"c{at}": type_ for at, type_ in enumerate(types)}
    checks = [
        check
        for column, type_ in columns.items()
        for check in list_checks(column, f"{column}b")
        if is_accepted(type_, column, check)
    ]
    assert len(checks) > 10
    declared = {name: {"type": type_} for column, type_ in columns.items() for name in (column, f"{column}b")}
    pipeline = declare("topic", columns={**COLUMNS, **declared}, checks=[*checks, *list_checks_of_tables()])
    load_id = stage_rows(db, [Range(0, 0, 21)], pipeline=pipeline)
    with psycopg.connect(db) as connection:
        for name, column in declared.items():
            sample = SAMPLES[column["type"]]
            fill = sql.SQL(
                "update {} set {} = case _offset when 3 then {} when 4 then {} else {} end where _offset > 2"
            )
            connection.execute(
                fill.format(
                    sql.Identifier("penstock_stage", f"load_{load_id}_1"),
                    sql.Identifier(name),
                    *(sql.SQL(f"{{}}::{column['type']}").format(sql.Literal(value))
                      for value in (sample.least, sample.greatest, sample.value)),
                )
            )  # fmt: skip

    verdict = validate_load(db, load_id)

    assert verdict.load.state in ("held", "validated")
    with psycopg.connect(db) as connection:
        count = "select count(*) from penstock.check_results where kind = 'declared'"
        assert connection.execute(count).fetchone() == (len(pipeline.checks),)


parts = st.sampled_from([
    "a", "b", ".", "^", "$", "*", "+", "?", "{2}", "{3,2}", "{,2}", "{", "}", "(", "(", ")", ")", "(?:", "(?=", "(?i)",
    "|", "[", "]", "[^", "-", r"\d", r"\(", r"\[", "\\", r"\m", "[:alpha:]", "[[:digit:]]", "#", "x", "***", "(?e)",
    "(?x)", "(?#",
])  # fmt: skip


@given(st.lists(parts, max_size=7).map("".join))
@settings(max_examples=2000, suppress_health_check=list(HealthCheck), database=None)
def test_every_regex_that_postgresql_reads_is_accepted(db: str, regex: str) -> None:
    if find_regex_mistake(regex) is None:
        return
    with psycopg.connect(db) as connection, pytest.raises(psycopg.errors.InvalidRegularExpression):
        connection.execute("select '' ~ %s", [regex])


IN_SETS = ["distinct_values_to_be_in_set", "distinct_values_to_contain_set", "distinct_values_to_equal_set",
           "most_common_value_to_be_in_set", "values_to_be_in_set"]  # fmt: skip
# Values of a type as a declaration may write them. Those of the other types are refused in every set.
WRITTEN: dict[str, list[Any]] = {
    "bigint": [7, 7.0], "real": [1.5, 1.1], "double precision": [1.5, 1.1], "numeric(12,2)": [7, 1.5, 1.1],
    "text": ["abc", "2026-01-31"], "varchar(20)": ["abc"], "char(3)": ["abc", "ab"], "boolean": [True, False],
    "date": ["2026-01-31"],
}  # fmt: skip


def in_set(name: str, column: str, value: object) -> dict[str, Any]:
    return {"expect": f"expect_column_{name}", "column": column, "value_set": [value]}


def test_an_accepted_value_of_a_set_equals_the_same_value_of_a_row(db: str) -> None:
    written = [(type_, value) for type_, values in WRITTEN.items() for value in values]
    columns = {f"c{at}": {"type": type_} for at, (type_, _) in enumerate(written)}
    checks = [
        check
        for at, (type_, value) in enumerate(written)
        for name in IN_SETS
        if is_accepted(type_, f"c{at}", check := in_set(name, f"c{at}", value))
    ]
    assert {check["expect"].removeprefix("expect_column_") for check in checks} == set(IN_SETS)
    load_id = stage_rows(db, [Range(0, 0, 5)], pipeline=declare("topic", columns={**COLUMNS, **columns}, checks=checks))
    with psycopg.connect(db) as connection:
        for at, (type_, value) in enumerate(written):
            fill = sql.SQL(f"update {{}} set {{}} = %s::{type_}").format(
                sql.Identifier("penstock_stage", f"load_{load_id}_1"), sql.Identifier(f"c{at}")
            )
            connection.execute(fill, [value])

    assert validate_load(db, load_id).cause is None
    for type_ in SAMPLES:
        if type_ not in (*WRITTEN, "smallint", "integer", "varchar(3)"):
            sets = [in_set(name, "c", SAMPLES[type_].value) for name in IN_SETS]
            assert not [check for check in sets if is_accepted(type_, "c", check)], type_
