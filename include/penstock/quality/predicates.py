"""Rules as conditions in SQL: the condition of a declaration, or an expectation of single rows as a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from penstock.declaration.carried import TOMBSTONE_NAME
from penstock.target.postgres.table import describe_columns, type_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline, Rule

    Arguments = Mapping[str, Any]


def write_condition(rule: Rule) -> sql.Composable:
    """Write the condition of a rule. A row passes unless the condition is false: null passes, as in CHECK."""
    if rule.expect is None:
        return sql.SQL(rule.where or "")
    return CONDITIONS[rule.expect](rule.arguments)


def judge(pipeline: Pipeline, rules: Sequence[Rule] | None = None) -> sql.SQL:
    """Make the expression that gives the place of the first rule that a row fails, or null; of all rules by default.

    A tombstone has no values, so no rule judges it: a deletion must not get lost in the quarantine.
    """
    spared = sql.SQL("when {} then null").format(sql.Identifier(TOMBSTONE_NAME))
    # The line break ends a comment at the end of the condition.
    cases = [
        sql.SQL("when (\n{}\n) is false then {}").format(write_condition(rule), sql.Literal(place))
        for place, rule in enumerate(pipeline.rules if rules is None else rules)
    ]
    whens = [*((spared,) if pipeline.tombstones == "keep" else ()), *cases]
    return _write(sql.SQL("case {} end").format(sql.SQL(" ").join(whens)))


def write_alone(rule: Rule) -> sql.SQL:
    """Write the condition of a rule as a statement uses it by itself, without brackets around it."""
    return _write(sql.SQL("\n{}\n").format(write_condition(rule)))


def _write(expression: sql.Composable) -> sql.SQL:
    # Every statement has parameters, so psycopg reads a single % as the begin of one.
    return sql.SQL(expression.as_string(None).replace("%", "%%"))


def compose_no_rows(pipeline: Pipeline) -> sql.Composed:
    """Compose a table expression without rows, with the columns of the target, which need not exist."""
    columns = [
        sql.SQL("null::{} as {}").format(type_sql(type_), sql.Identifier(name))
        for name, (type_, _) in describe_columns(pipeline).items()
    ]
    return sql.SQL("(select {} where false)").format(sql.SQL(", ").join(columns))


def _column(arguments: Arguments, name: str = "column") -> sql.Identifier:
    return sql.Identifier(arguments[name])


def _between(value: sql.Composable, arguments: Arguments) -> sql.Composed:
    ends = [
        sql.SQL("{} {} {}").format(value, sql.SQL(than), sql.Literal(arguments[end]))
        for end, than in (
            ("min_value", ">" if _is_set(arguments.get("strict_min")) else ">="),
            ("max_value", "<" if _is_set(arguments.get("strict_max")) else "<="),
        )
        if arguments.get(end) is not None
    ]
    return sql.SQL(" and ").join(ends)


def _is_set(flag: object) -> bool:
    """Read a flag as Great Expectations reads it: also as a text."""
    return str(flag).lower() in ("1", "on", "t", "true", "y", "yes")


def _in_set(arguments: Arguments) -> sql.Composed:
    # A list may be empty: then every value fails.
    values = [value for value in arguments["value_set"] if value is not None]
    listed = sql.SQL(", ").join(map(sql.Literal, values))
    column = _column(arguments)
    return sql.SQL("{} in ({})").format(column, listed) if values else sql.SQL("{} is null").format(column)


def _match(arguments: Arguments) -> sql.Composed:
    return sql.SQL("{} ~ {}").format(_column(arguments), sql.Literal(arguments["regex"]))


def _length(arguments: Arguments) -> sql.Composed:
    return sql.SQL("length({})").format(_column(arguments))


def _pair(than: str, arguments: Arguments) -> sql.Composed:
    left, right = _column(arguments, "column_A"), _column(arguments, "column_B")
    return sql.SQL("{} {} {}").format(left, sql.SQL(than), right)


def _negate(condition: sql.Composable) -> sql.Composed:
    return sql.SQL("not ({})").format(condition)


CONDITIONS: dict[str, Callable[[Arguments], sql.Composable]] = {
    "expect_column_values_to_not_be_null": lambda given: sql.SQL("{} is not null").format(_column(given)),
    "expect_column_values_to_be_null": lambda given: sql.SQL("{} is null").format(_column(given)),
    "expect_column_values_to_be_between": lambda given: _between(_column(given), given),
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": lambda given: sql.SQL("({}) is not true or {} is null").format(
        _in_set(given), _column(given)
    ),
    "expect_column_values_to_match_regex": _match,
    "expect_column_values_to_not_match_regex": lambda given: _negate(_match(given)),
    "expect_column_value_lengths_to_be_between": lambda given: _between(_length(given), given),
    "expect_column_value_lengths_to_equal": lambda given: sql.SQL("{} = {}").format(
        _length(given), sql.Literal(given["value"])
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": lambda given: _pair(
        ">=" if _is_set(given.get("or_equal")) else ">", given
    ),
    "expect_column_pair_values_to_be_equal": lambda given: _pair("=", given),
}
