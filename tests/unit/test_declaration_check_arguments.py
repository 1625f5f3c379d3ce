"""Arguments of checks: the declaration refuses invalid ones, and Great Expectations accepts all others."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from check_examples import NOT_RUN, ONE_COLUMN, PAIRS, SEVERAL, WHOLE_TABLE, list_checks, list_checks_of_tables
from column_samples import SAMPLES
from penstock.declaration.argument_kinds import KINDS, NULLABLE, OWN_KINDS, OWN_NULLABLE
from penstock.declaration.check_arguments import find_regex_mistake
from penstock.declaration.expectations import EXPECTATIONS, RUNS_ON
from penstock.declaration.pipeline import Pipeline, read_pipeline
from penstock.errors import DeclarationError

COLUMNS = {
    "id": {"type": "bigint"},
    "price": {"type": "numeric(12,2)"},
    "note": {"type": "text"},
    "other_note": {"type": "varchar(20)"},
    "born": {"type": "date"},
    "seen": {"type": "timestamptz"},
    "paid": {"type": "boolean"},
    "data": {"type": "jsonb"},
}
BETWEEN = "expect_column_values_to_be_between"


def declare(check: dict[str, Any], columns: dict[str, Any] | None = None) -> Pipeline:
    declared = {"name": "a", "topic": "a", "value": "json", "target": "b.a", "columns": columns or COLUMNS}
    return Pipeline.model_validate({**declared, "checks": [check]})


def mistakes(check: dict[str, Any]) -> dict[str, str]:
    """List the mistakes of a check, by argument."""
    with pytest.raises(ValidationError) as refused:
        declare(check)
    return {".".join(map(str, error["loc"][2:])): error["msg"] for error in refused.value.errors()}


def construct(expect: str, arguments: dict[str, Any]) -> None:
    """Construct the expectation without the warnings of Great Expectations about row conditions that are texts."""
    from penstock.quality.gx import get_expectation_impl

    with warnings.catch_warnings(action="ignore"):
        get_expectation_impl(expect)(**arguments)


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (BETWEEN, {"column": "id", "min_value": "abc"}, "min_value", "'abc' is not a valid min_value; allowed: a number"),
    (BETWEEN, {"column": "id"}, "min_value", "at least one of them"),
    (BETWEEN, {"column": "id", "min_value": None, "max_value": None}, "min_value", "at least one of them"),
    (BETWEEN, {"column": "id", "min_value": 5, "max_value": 1}, "min_value", "5 is greater than max_value"),
    (BETWEEN, {"column": "id", "min_value": 10**400}, "min_value", "a huge number is not a valid min_value"),
    (BETWEEN, {"column": "id", "min_value": {"$PARAMETER": "x"}}, "min_value", "a mapping is not a valid min_value"),
    (BETWEEN, {"column": "id", "min_value": "2026-01-31"}, "min_value", "cannot be compared with bigint"),
    *((f"expect_column_{name}_to_be_in_set", {"column": "born", "value_set": ["2026-01-31T00:00"]}, "value_set.0",
       "unexpected_rows_query: \"select * from {batch} where born::text not in ('…')\"")
      for name in ("most_common_value", "values", "distinct_values")),
    ("expect_column_max_to_be_between", {"column": "born", "max_value": "9999-12-31"}, "max_value", "Python's dates"),
    ("expect_column_min_to_be_between", {"column": "seen", "min_value": "0001-01-01"}, "min_value", "Python's dates"),
    ("expect_column_median_to_be_between", {"column": "born"}, "column", "cannot run on date"),
    (BETWEEN, {"column": "born", "min_value": 5}, "min_value", "5 cannot be compared with date"),
    (BETWEEN, {"column": "born", "min_value": "2026-02-31"}, "min_value", "not a valid min_value"),
    (BETWEEN, {"column": "seen", "min_value": "2026-02-01", "max_value": "2026-01-01"}, "min_value", "is greater than"),
    (BETWEEN, {"column": "seen", "min_value": "2026-02-01", "max_value": "2026-02-02T00:00Z"}, "min_value", "one form"),
    (BETWEEN, {"column": "note", "min_value": 5}, "column", "cannot run on text; allowed: columns of smallint"),
    (BETWEEN, {"column": "id", "min_value": 1, "strict_min": "nope"}, "strict_min", "allowed: true, false"),
    (BETWEEN, {"column": ["id"], "min_value": 1}, "column", "allowed: a column's name"),
    (BETWEEN, {"column": None, "min_value": 1}, "column", "is missing"),
    ("expect_column_max_to_be_between", {"column": "seen", "max_value": "2026-02-01T00:00"}, "max_value", "compared"),
    ("expect_column_mean_to_be_between", {"column": "note", "min_value": 1}, "column", "cannot run on text"),
    ("expect_column_values_to_match_regex", {"column": "note", "regex": "(("}, "regex", "missing ), unterminated"),
    ("expect_column_values_to_match_regex", {"column": "note", "regex": 5}, "regex", "allowed: text"),
    ("expect_column_values_to_match_regex", {"column": "id", "regex": "a"}, "column", "cannot run on bigint"),
    ("expect_column_values_to_match_regex_list", {"column": "note", "regex_list": ["a", "["]}, "regex_list.1", "set"),
    ("expect_column_values_to_match_regex_list", {"column": "note", "regex_list": []}, "regex_list", "one text"),
    ("expect_column_values_to_match_like_pattern", {"column": "note", "like_pattern": "a\\"}, "like_pattern", "ends"),
    ("expect_column_values_to_match_like_pattern", {"column": "note", "like_pattern": "a", "escape": ""}, "escape",
     "one character"),
    ("expect_column_values_to_be_in_set", {"column": "id", "value_set": ["1"]}, "value_set.0", "compared with bigint"),
    ("expect_column_values_to_be_in_set", {"column": "id", "value_set": [2**63]}, "value_set.0", "compared"),
    ("expect_column_values_to_be_in_set", {"column": "note", "value_set": ["a", 1]}, "value_set.1", "with text"),
    ("expect_column_values_to_be_in_set", {"column": "note", "value_set": "a"}, "value_set", "a list of values"),
    ("expect_column_distinct_values_to_be_in_set", {"column": "id", "value_set": []}, "value_set", "one value"),
    ("expect_column_distinct_values_to_be_in_set", {"column": "note", "value_set": ["2026-01-31"]},
     "value_set.0", "with text"),
    ("expect_column_distinct_values_to_be_in_set", {"column": "born", "value_set": ["2026-1-31"]},
     "value_set.0", "with date"),
    ("expect_column_distinct_values_to_be_in_set", {"column": "data", "value_set": ["a"]}, "column", "run on jsonb"),
    ("expect_column_value_lengths_to_equal", {"column": "note", "value": 1.5}, "value", "a whole number"),
    ("expect_table_row_count_to_be_between", {"min_value": 5, "max_value": 1}, "min_value", "is greater than"),
    ("expect_column_pair_values_to_be_equal", {"column_A": "id", "column_B": "note"}, "column_B", "bigint and text"),
    ("expect_column_pair_values_to_be_in_set", {"column_A": "id", "column_B": "id", "value_pairs_set": [[1]]},
     "value_pairs_set", "pair"),
    ("expect_compound_columns_to_be_unique", {"column_list": ["id", "id"]}, "column_list", "at least two columns"),
    ("expect_compound_columns_to_be_unique", {"column_list": ["id"]}, "column_list", "at least two columns"),
    ("expect_column_values_to_not_be_null", {"column": "id", "row_condition": 'col("id") > 0'}, "condition_parser",
     "allowed: great_expectations"),
    ("expect_column_values_to_not_be_null",
     {"column": "id", "row_condition": "id > 0", "condition_parser": "great_expectations"}, "row_condition",
     "not a valid condition"),
    ("expect_column_values_to_not_be_null",
     {"column": "id", "row_condition": 'col("x") > 0', "condition_parser": "great_expectations"}, "row_condition",
     "unknown column 'x'"),
    ("expect_column_kl_divergence_to_be_less_than", {"column": "id"}, "partition_object", "is missing"),
    ("expect_table_columns_to_match_set", {}, "column_set", "is missing"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "select '{' from {batch}"}, "unexpected_rows_query",
     "{{ is a curly bracket"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "select note ~ 'a{2}' from {batch}"},
     "unexpected_rows_query", "{{ is a curly bracket"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "select * from {batch!r}"}, "unexpected_rows_query",
     "{{ is a curly bracket"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "select * from {batch:x}"}, "unexpected_rows_query",
     "{{ is a curly bracket"),
    ("expect_query_results_to_match_comparison",
     {"base_query": "select '{'", "comparison_data_source_name": "staged", "comparison_query": "select 1"},
     "base_query", "{{ is a curly bracket"),
    ("expect_query_results_to_match_comparison",
     {"base_query": "select 1", "comparison_data_source_name": "staged", "comparison_query": "select * from {batch}"},
     "comparison_query", "SQL without {batch}"),
    ("expect_column_values_to_not_be_outliers", {"column": "id", "method": "guess"}, "method", "allowed: iqr, std"),
]  # fmt: skip


@pytest.mark.parametrize(("expect", "arguments", "place", "message"), REFUSED, ids=lambda value: str(value)[:50])
def test_an_invalid_argument_is_reported_at_its_place(
    expect: str, arguments: dict[str, Any], place: str, message: str
) -> None:
    found = mistakes({"expect": expect, **arguments})
    assert list(found) == [place]
    assert message in found[place]
    assert "allowed: " in found[place]


def test_invalid_arguments_are_reported_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(
        "name: orders\ntopic: orders\nvalue: json\ntarget: analytics.orders\n"
        "columns: {id: {type: bigint}, note: {type: text}}\n"
        "checks:\n"
        "  - expect: expect_column_values_to_be_between\n    column: id\n    min_value: abc\n"
        "  - expect: expect_column_values_to_match_regex_list\n    column: note\n"
        "    regex_list:\n      - a\n      - ((\n"
    )
    with pytest.raises(DeclarationError) as refused:
        read_pipeline(path)
    first, second = refused.value.what.split("\n")
    assert first.startswith(f"{path}:9: checks[0].min_value: 'abc' is not a valid min_value; allowed: a number")
    assert second.startswith(f"{path}:14: checks[1].regex_list[1]: '((' is not a valid regular expression: missing )")


def test_every_argument_has_a_kind_and_every_expectation_an_example() -> None:
    arguments = {argument for needed, possible in EXPECTATIONS.values() for argument in (*needed, *possible)}
    assert arguments - {"mostly"} == set(KINDS)
    assert {*ONE_COLUMN, *PAIRS, *SEVERAL, *WHOLE_TABLE, *NOT_RUN} == set(EXPECTATIONS)
    named = {(expect, argument) for expect, parts in EXPECTATIONS.items() for argument in (*parts[0], *parts[1])}
    assert {*OWN_KINDS, *OWN_NULLABLE} <= named
    assert set(NULLABLE) <= arguments
    assert set(RUNS_ON) <= set(EXPECTATIONS)


def test_usual_checks_are_accepted_by_penstock_and_by_great_expectations() -> None:
    accepted: list[dict[str, Any]] = []
    tables = list_checks_of_tables() + [{"expect": name, **each} for name, cases in NOT_RUN.items() for each in cases]
    for type_ in SAMPLES:
        columns = {"id": {"type": "bigint"}, "note": {"type": "text"}, "a": {"type": type_}, "b": {"type": type_}}
        for check in [*list_checks("a", "b"), *tables]:
            try:
                declare(check, columns)
            except ValidationError:
                continue
            accepted.append(check)
    for check in [*list_checks("a", "b"), *tables]:
        # An empty set is invalid for every column. So is a moment as the bound of a mean or of a number.
        assert check in accepted or check.get("value_set") == [] or "between" in check["expect"], check
    for check in accepted:
        construct(check["expect"], {name: value for name, value in check.items() if name != "expect"})


scalars = st.sampled_from([
    None, True, False, 0, 1, -1, 5, 10**30, 10**400, 0.5, 1.0, 1e308, -0.1, "", " ", "a", "5", "1.5", "nan", "1_0",
    "yes", "no", "NO",
    "2026-01-31", "2026-1-3", "2026-02-30", "2026-01-31T10:00", "2026-01-31 10:00:00.5Z", "2026-01-31T10:00+25:00",
    "2026-01-31T24:00", "0000-01-01", "any", "all", "iqr", "neither", "never", "great_expectations", "pandas",
    'col("id") > 0', 'col("id") > -1.5e3', 'col("note") == "a b"', 'col("note") != \'\'', 'col("id").notnull()',
    'col("id")>"é"',
    "id > 0", "select 1 from {batch}", "select '{'", "{batch", "select {x}", "a%", "\\", "((", "^a$", "staged",
])  # fmt: skip
names = st.sampled_from([*COLUMNS, "_offset", "_timestamp", "nowhere"])
lists = st.lists(scalars, max_size=3) | st.lists(st.lists(scalars, min_size=1, max_size=3), max_size=2)
distributions = st.fixed_dictionaries(
    {"weights": st.sampled_from([[0.5, 0.5], [1], [1, 1], [], "x"])},
    optional={"values": st.sampled_from([["a", "b"], [1], []]), "bins": st.sampled_from([[0, 1, 2], [2, 1, 0], [1]])},
)
quantiles = st.fixed_dictionaries(
    {"quantiles": st.sampled_from([[0.5], [0, 1], [2], []])},
    optional={"value_ranges": st.sampled_from([[[0, 1]], [[1, 0]], [[None, 1], [0, None]], [[1]], []])},
)
anything = scalars | lists | distributions | quantiles | st.lists(names, max_size=3)


@st.composite
def checks(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a check of any expectation. Most of its columns exist; its other arguments are arbitrary."""
    expect = draw(st.sampled_from(list(EXPECTATIONS)))
    needed, possible = EXPECTATIONS[expect]
    given = [*needed, *draw(st.lists(st.sampled_from(possible), unique=True, max_size=3) if possible else st.just([]))]
    examples = [
        arguments for group in (ONE_COLUMN, PAIRS, SEVERAL, WHOLE_TABLE, NOT_RUN) for arguments in group.get(expect, [])
    ]
    written = dict(draw(st.sampled_from(examples)))
    for argument in given:
        if argument in ("column", "column_A", "column_B"):
            written[argument] = draw(names)
        elif argument in ("column_list", "column_set"):
            written.setdefault(argument, draw(st.lists(names, max_size=3)))
        elif argument not in written or draw(st.booleans()):
            written[argument] = draw(anything)
    return {"expect": expect, **written}


@given(checks())
@settings(max_examples=3000)
def test_great_expectations_accepts_every_argument_that_penstock_accepts(check: dict[str, Any]) -> None:
    try:
        (declared,) = declare(check).checks
    except ValidationError as error:
        assert all("allowed: " in found["msg"] for found in error.errors())  # noqa: PT017 - both outcomes are valid
        return
    construct(declared.expect, declared.arguments)


@pytest.mark.parametrize(
    ("regex", "mistake"),
    [
        ("((", "missing )"),
        ("a)", "unbalanced"),
        ("[a", "unterminated character set"),
        ("*a", "nothing to repeat"),
        ("a**", "multiple repeat"),
        ("a{3,2}", "min repeat greater"),
        ("a\\", "ends with a backslash"),
        (r"\m(", "missing )"),
        (r"\((", "missing )"),
    ],
)
def test_a_regex_that_is_invalid_in_every_dialect_is_refused(regex: str, mistake: str) -> None:
    assert mistake in (find_regex_mistake(regex) or "")


@pytest.mark.parametrize(
    "regex",
    ["", "a|b", r"\mword\M", r"\y", "(?<=a+)b", "***=((", "***:a", "(?e)a)", r"\(", r"[\]]", "[[:alpha:]]+", "a{,3}"],
)
def test_a_regex_of_the_dialect_of_postgresql_is_accepted(regex: str) -> None:
    assert find_regex_mistake(regex) is None
