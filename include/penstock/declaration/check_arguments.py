"""Invalid arguments of checks: with them a check would crash when it runs, so the declaration is refused.

The types of columns and the values that crash on PostgreSQL were found by running every expectation on every type. A
test runs every accepted combination again.
"""

from __future__ import annotations

import re
import warnings
from ctypes import c_float
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.declaration.argument_kinds import (
    BOUND,
    KINDS,
    NULLABLE,
    OWN_KINDS,
    OWN_NULLABLE,
    PARSERS,
    is_number,
    moment_form,
    read_moment,
)
from penstock.declaration.columns import TYPES
from penstock.declaration.expectations import COLUMN_ARGUMENTS, MOMENTS, NUMBERS, RUNS_ON, TEXTS
from penstock.declaration.mistakes import Place, clip
from penstock.declaration.own_expectations import OWN_EXPECTATIONS, find_own_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.declaration.columns import ColumnType, Family

Invalid: TypeAlias = "tuple[Place, str]"
_CONDITION = re.compile(
    r"""[ \t]*col\("(?P<column>[^"\\\n]+)"\)[ \t]*(?:\.notnull\(\)|(?:>=|<=|==|!=|>|<)[ \t]*(?:[+-]?[0-9]+(?:\.[0-9]*)?
    |"[ \t]*[\w.:+/-][\w.:+/ -]*"|'[ \t]*[\w.:+/-][\w.:+/ -]*'))[ \t]*""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
# Python's messages for mistakes that PostgreSQL refuses too.
_REFUSED_BY_BOTH = (
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
    "unterminated character set",
    "nothing to repeat",
    "multiple repeat",
    "min repeat greater than max repeat",
)
# Great Expectations accepts these expectations without the argument, but they crash then.
ALSO_NEEDED = {
    "expect_column_kl_divergence_to_be_less_than": "partition_object",
    "expect_table_columns_to_match_set": "column_set",
}
# Expectations that check nothing without a bound.
NEED_A_BOUND = ("expect_column_values_to_be_between", "expect_column_value_lengths_to_be_between")
# Expectations that compare columns with each other, by the start of their names.
COMPARING = ("expect_column_pair_values", "expect_multicolumn_values", "expect_select_column")


def find_invalid_arguments(check: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[Invalid]:
    """Find the invalid arguments of a check, given the types of the table's columns."""
    expect = check["expect"]
    if expect in OWN_EXPECTATIONS:
        yield from find_own_mistakes(check, types)
        return
    valid = {name: value for name, value in check.items() if name not in ("expect", "severity", "mostly")}
    for name, value in list(valid.items()):
        kind = OWN_KINDS.get((expect, name)) or KINDS.get(name)
        if kind is None or (value is None and (name in NULLABLE or (expect, name) in OWN_NULLABLE)):
            continue
        if not kind.accepts(value):
            del valid[name]
            yield (name,), f"{clip(value)} is not a valid {name}; allowed: {kind.allowed}"
    needed = ALSO_NEEDED.get(expect)
    if needed is not None and needed not in check:
        yield (needed,), f"is missing; allowed: {expect} needs {needed}"
    if expect in NEED_A_BOUND and check.get("min_value") is None and check.get("max_value") is None:
        yield ("min_value",), "min_value and max_value are missing; allowed: at least one of them"
    yield from _patterns(valid)
    yield from _bounds(valid)
    yield from _condition(valid, types)
    yield from _holdout(valid)
    yield from _columns(expect, valid, types)


def _patterns(given: Mapping[str, Any]) -> Iterator[Invalid]:
    for place, regex in _each(given, "regex", "regex_list"):
        mistake = find_regex_mistake(regex)
        if mistake:
            what = f"{clip(regex)} is not a valid regular expression: {mistake}"
            yield place, f"{what}; allowed: an expression that PostgreSQL reads"
    escape = given.get("escape") or "\\"
    for place, pattern in _each(given, "like_pattern", "like_pattern_list"):
        if re.sub(f"{re.escape(escape)}.", "", pattern, flags=re.DOTALL).endswith(escape):
            yield place, f"{clip(pattern)} ends with the escape character {clip(escape)}; allowed: write it twice"


def find_regex_mistake(regex: str) -> str | None:
    """Find a mistake that PostgreSQL refuses in an expression, without asking PostgreSQL; None if there is none.

    PostgreSQL's dialect differs from Python's: `(?<=a+)` is valid only in PostgreSQL, `(?P<name>a)` and `a++` only in
    Python. So only the mistakes that both refuse count; `penstock check` asks PostgreSQL about all other expressions.
    """
    # ***, (?b), (?e) and (?q) change the dialect. Comments, also those that (?x) allows, may contain any text.
    if re.match(r"\*\*\*|\(\?[a-z]*[beqx]", regex) or "(?#" in regex:
        return None
    # An escaped character is one atom in both dialects.
    plain = re.sub(r"\\.", "a", regex, flags=re.DOTALL)
    # PostgreSQL reads a bracket as a quantifier only before a digit.
    plain = re.sub(r"\{(?![0-9])", "a", plain)
    if plain.endswith("\\"):
        return "it ends with a backslash"
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(plain)
    except re.error as error:
        return error.msg if error.msg in _REFUSED_BY_BOTH else None
    except (OverflowError, RecursionError):
        return "it is too big"
    return None


def _each(given: Mapping[str, Any], single: str, several: str) -> Iterator[tuple[tuple[int | str, ...], str]]:
    if single in given:
        yield (single,), given[single]
    yield from (((several, at), each) for at, each in enumerate(given.get(several, ())))


def _bounds(given: Mapping[str, Any]) -> Iterator[Invalid]:
    low, high = given.get("min_value"), given.get("max_value")
    if low is None or high is None:
        return
    if moment_form(low) != moment_form(high):
        yield (
            ("min_value",),
            f"{clip(low)} and {clip(high)} cannot be compared; allowed: two numbers, or two moments of one form",
        )
    elif (read_moment(low) > read_moment(high)) if moment_form(low) else float(low) > float(high):
        yield ("min_value",), f"{clip(low)} is greater than max_value; allowed: at most {clip(high)}"


def _condition(given: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[Invalid]:
    condition = given.get("row_condition")
    if condition is None:
        return
    if given.get("condition_parser") not in PARSERS[:2]:
        yield ("condition_parser",), f"row_condition needs this argument on PostgreSQL; allowed: {PARSERS[0]}"
    found = _CONDITION.fullmatch(condition)
    if found is None:
        allowed = 'col("name") with .notnull() or with a comparison such as > 0'
        yield ("row_condition",), f"{clip(condition)} is not a valid condition; allowed: {allowed}"
    elif found["column"] not in types:
        yield ("row_condition",), f"unknown column {clip(found['column'])}; allowed: {', '.join(types)}"


def _holdout(given: Mapping[str, Any]) -> Iterator[Invalid]:
    if "values" in given.get("partition_object", ()) and float(given.get("internal_weight_holdout") or 0) > 0:
        yield ("internal_weight_holdout",), "has no effect with values; allowed: with bins"


def _columns(expect: str, given: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[Invalid]:
    """Find columns that the expectation cannot run on, and columns and values that it cannot compare."""
    named = dict(_named(given, types))
    runs_on = RUNS_ON.get(expect)
    for place, type_ in named.items():
        if runs_on is not None and type_.family not in runs_on:
            yield place, f"{expect} cannot run on {type_}; allowed: columns of {', '.join(runs_on)}"
    if expect.startswith(COMPARING) and len({TYPES[type_.family].group for type_ in named.values()}) > 1:
        listed = " and ".join(dict.fromkeys(map(str, named.values())))
        yield list(named)[-1], f"{listed} cannot be compared; allowed: columns of one kind"
    type_of = named.get(("column",))
    if type_of is not None and type_of.family in (runs_on or (type_of.family,)):
        yield from _values(expect, given, type_of)
    yield from _pairs(given, [named.get(("column_A",)), named.get(("column_B",))])


def _named(given: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[tuple[Place, ColumnType]]:
    for argument in COLUMN_ARGUMENTS:
        names = given.get(argument)
        if isinstance(names, str) and names in types:
            yield (argument,), types[names]
        if isinstance(names, list | tuple):
            known = [(at, name) for at, name in enumerate(names) if isinstance(name, str) and name in types]
            yield from (((argument, at), types[name]) for at, name in known)


def _values(expect: str, given: Mapping[str, Any], type_: ColumnType) -> Iterator[Invalid]:
    allowed = "values of the column's kind"
    if OWN_KINDS.get((expect, "min_value")) is BOUND:
        for end in ("min_value", "max_value"):
            if given.get(end) is None:
                continue
            if not _accepts_bound(expect, type_.family, given[end]):
                yield (end,), f"{clip(given[end])} cannot be compared with {type_}; allowed: {allowed}"
            elif expect != "expect_column_values_to_be_between" and given[end].__class__ is str and _is_end(given[end]):
                yield (
                    (end,),
                    f"{clip(given[end])} is a day at the end of Python's dates; allowed: a day between the ends",
                )
    if expect.endswith("_set"):
        allowed = _allowed_in_sets(type_.family, str(given.get("column")))
        for at, value in enumerate(given.get("value_set", ())):
            if not _is_comparable(expect, type_, value):
                yield ("value_set", at), f"{clip(value)} cannot be compared with {type_}; allowed: {allowed}"
    if "bins" in given.get("partition_object", ()) and type_.family not in NUMBERS:
        yield ("partition_object",), f"bins cannot hold {type_}; allowed: values and weights"


def _pairs(given: Mapping[str, Any], types: list[ColumnType | None]) -> Iterator[Invalid]:
    for at, pair in enumerate(given.get("value_pairs_set", ())):
        for place, (type_, value) in enumerate(zip(types, pair, strict=True)):
            if type_ is not None and not _is_comparable("", type_, value):
                allowed = _allowed_in_sets(type_.family, str(given.get(("column_A", "column_B")[place])))
                what = f"{clip(value)} cannot be compared with {type_}; allowed: {allowed}"
                yield ("value_pairs_set", at, place), what


def _allowed_in_sets(family: Family, column: str) -> str:
    if family in (*NUMBERS, *TEXTS, "boolean"):
        return "values of the column's kind"
    query = f"select * from {{batch}} where {column}::text not in ('…')"  # noqa: S608 - advice to a person
    return f'SQL, as in {{expect: unexpected_rows_expectation, unexpected_rows_query: "{query}"}}'


def _is_comparable(expect: str, type_: ColumnType, value: object) -> bool:
    """Check whether a value, as Great Expectations reads or sends it, can equal a value of a column."""
    if value is None:
        return True
    if type_.family in NUMBERS:
        # Great Expectations sends a whole number as bigint at most.
        is_sent = isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)
        return is_sent and is_number(value) and not _differs_as_number(expect, type_, value)
    if type_.family == "boolean":
        return isinstance(value, bool)
    # Among distinct values, Great Expectations sends such a text as a date for any type of column.
    if "distinct" in expect and moment_form(value) == "date" and len(str(value)) == len("2026-01-31"):
        return type_.family == "date"
    return isinstance(value, str) and type_.family in TEXTS and not _differs_as_padded(expect, type_, value)


def _differs_as_number(expect: str, type_: ColumnType, value: Any) -> bool:  # noqa: ANN401 - a number of any kind
    """Check for a number such as 1.1, which is another number as a decimal or in single precision.

    Great Expectations compares the most common value in Python, which gives a float all its binary digits. PostgreSQL
    compares a real with a number in double precision.
    """
    if "most_common" in expect:
        return type_.family == "numeric" and Decimal(value) != Decimal(str(value))
    return type_.family == "real" and c_float(value).value != value


def _differs_as_padded(expect: str, type_: ColumnType, value: str) -> bool:
    """Check for a text that is shorter than its char(n): Python compares it with the text and the blanks behind it."""
    is_compared_in_python = "most_common" in expect or "distinct" in expect
    return is_compared_in_python and type_.family == "char" and len(value) != type_.length


def _is_end(moment: str) -> bool:
    """Check for the first or the last day of Python's dates, to which Great Expectations cuts values beyond them."""
    read = read_moment(moment)
    return read is not None and read.date() in (date.min, date.max)


# The forms of a moment that can be compared with a column. Great Expectations compares some bounds in Python, which
# compares moments of one form only.
_FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "expect_column_values_to_be_between": dict.fromkeys(MOMENTS, ("date", "time", "zone")),
    **{
        f"expect_column_{end}_to_be_between": {
            "date": ("date", "time"),
            "time": ("date", "time"),
            "timestamp": ("date", "time"),
            "timestamptz": ("date", "zone"),
        }
        for end in ("max", "min")
    },
}


def _accepts_bound(expect: str, family: Family, value: Any) -> bool:  # noqa: ANN401 - bounds of any kind
    if family in NUMBERS:
        return is_number(value)
    return moment_form(value) in _FORMS[expect].get(family, ())
