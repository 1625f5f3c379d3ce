"""The kind of each argument of a check: the values that it may have.

The kinds repeat the models of Great Expectations, which take too long to import while Airflow parses the DAGs. A test
gives generated arguments to both.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable

_MOMENT = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)"
    r"(?P<time>[T ](\d\d?):(\d\d?)(?::(\d\d?)(?:\.\d{1,12})?)?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_FLAGS = {"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"}
# Name, format and conversion of a placeholder in SQL: none at the end of the text, or {batch}.
_PLACEHOLDERS = ((None, None, None), ("batch", "", None))
PARSERS = ("great_expectations", "great_expectations__experimental__", "pandas", "spark")


def is_number(value: object) -> bool:
    """Check for a number, or a text that Great Expectations reads as a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def _is_whole(value: object) -> bool:
    return (
        is_number(value)
        and re.fullmatch(r"[+-]?[0-9]{1,18}(\.0)?", str(value).strip()) is not None
        and (not isinstance(value, str) or "." not in value)
    )


def _is_flag(value: object) -> bool:
    return value in (0, 1) if isinstance(value, int) else isinstance(value, str) and value.lower() in _FLAGS


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _are_different(value: list[Any] | tuple[Any, ...]) -> bool:
    return len(set(map(str, value))) == len(value) > 1


def _are_scalars(value: object) -> bool:
    return isinstance(value, list | tuple) and not any(isinstance(each, list | tuple | dict) for each in value)


def _are_pairs(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_are_scalars(pair) and len(pair) == 2 for pair in value)


def _are_quantile_ranges(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"quantiles", "value_ranges"}:
        return False
    quantiles, ranges = value["quantiles"], value["value_ranges"]
    return (
        isinstance(quantiles, list | tuple)
        and isinstance(ranges, list | tuple)
        and len(quantiles) == len(ranges) > 0
        and all(is_number(each) and 0 <= float(each) <= 1 for each in quantiles)
        and _are_pairs(ranges)
        and all(end is None or (is_number(end) and not isinstance(end, str)) for ends in ranges for end in ends)
        and all(None in ends or ends[0] <= ends[1] for ends in ranges)
    )


def _is_partition(value: object) -> bool:
    """Check for a distribution to compare with: weights of values, or weights of bins between rising bounds."""
    if not isinstance(value, dict) or not _are_numbers(value.get("weights")):
        return False
    weights = [float(weight) for weight in value["weights"]]
    if not math.isclose(sum(weights), 1, abs_tol=1e-3) or min(weights) < 0:
        return False
    if value.keys() == {"weights", "values"}:
        return isinstance(value["values"], list | tuple) and len(value["values"]) == len(weights)
    bins = value.get("bins")
    return (
        value.keys() == {"weights", "bins"}
        and _are_numbers(bins)
        and len(bins) == len(weights) + 1
        and all(low < high for low, high in pairwise(bins))
    )


def _are_numbers(value: object) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(is_number(each) and not isinstance(each, str) for each in value)
    )


def _is_query(value: object) -> bool:
    """Check that Great Expectations can fill in {batch}, plain and without a format, and finds no other placeholder."""
    try:
        return _is_text(value) and all(tuple(found) in _PLACEHOLDERS for _, *found in Formatter().parse(str(value)))
    except ValueError:
        return False


def moment_form(value: object) -> str:
    """Return the form of a moment: `date`, `time` (without a zone) or `zone`; an empty text for any other value."""
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None or read_moment(found.string) is None:
        return ""
    return "zone" if found["zone"] else "time" if found["time"] else "date"


def read_moment(text: str) -> Any:  # noqa: ANN401 - a datetime with or without a zone, as it was written, or None
    """Read a date or time as Great Expectations reads it; two moments of one form can be compared."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3, 5, 6, 7))
    zone = found["zone"] or ""
    digits = zone.strip("Z+-").replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone.startswith("-") else 1)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset) if zone else None)
    except ValueError:
        return None


class Kind(NamedTuple):
    """The values that an argument may have, and the description of them in messages."""

    accepts: Callable[[Any], bool]
    allowed: str


def _one_of(*choices: str) -> Kind:
    return Kind(lambda value: value in choices, ", ".join(choices))


NUMBER = Kind(is_number, "a number")
WHOLE = Kind(_is_whole, "a whole number")
SHARE = Kind(lambda value: is_number(value) and 0 <= float(value) <= 1, "a number from 0 to 1")
FLAG = Kind(_is_flag, "true, false")
TEXT = Kind(_is_text, "text")
LIST = Kind(_are_scalars, "a list of values")
NOT_EMPTY = Kind(lambda value: _are_scalars(value) and bool(value), "a list of at least one value")
BOUND = Kind(
    lambda value: is_number(value) or moment_form(value) != "", "a number, or a date or time as in 2026-01-31T00:00"
)
PATTERNS = Kind(lambda value: _are_texts(value) and bool(value), "a list of at least one text")
# `consistency.py` checks that each name is the name of a column.
NAME = Kind(lambda value: not isinstance(value, list | tuple), "a column's name")
NAMES = Kind(lambda value: not isinstance(value, str), "a list of columns' names")
SEVERAL = Kind(
    lambda value: not isinstance(value, str) and (not isinstance(value, list | tuple) or _are_different(value)),
    "at least two columns, each once",
)

QUERY = Kind(_is_query, "SQL, where {batch} is the staged rows and {{ is a curly bracket")

KINDS: dict[str, Kind] = {
    "allow_relative_error": Kind(lambda value: _is_flag(value) or _is_text(value), "true, false"),
    "base_query": QUERY,
    "bucketize_data": FLAG,
    "column_index": WHOLE,
    "column": NAME,
    "column_A": NAME,
    "column_B": NAME,
    "column_list": SEVERAL,
    "column_set": NAMES,
    "comparison_data_source_name": _one_of("staged"),
    "comparison_query": Kind(
        lambda value: _is_text(value) and "{batch}" not in value, "SQL without {batch}, where { is a curly bracket"
    ),
    "condition_parser": _one_of(*PARSERS),
    "double_sided": FLAG,
    "escape": Kind(lambda value: isinstance(value, str) and len(value) == 1, "one character"),
    "exact_match": FLAG,
    "ignore_row_if": _one_of("all_values_are_missing", "any_value_is_missing", "never"),
    "internal_weight_holdout": SHARE,
    "like_pattern": Kind(lambda value: isinstance(value, str), "text"),
    "like_pattern_list": PATTERNS,
    "match_on": _one_of("any", "all"),
    "max_value": NUMBER,
    "method": _one_of("iqr", "std"),
    "min_value": NUMBER,
    "multiplier": Kind(lambda value: is_number(value) and float(value) >= 0, "a number, 0 or more"),
    "or_equal": FLAG,
    "other_table_name": TEXT,
    "partition_object": Kind(_is_partition, "{values: […], weights: […]}, or {bins: […], weights: […]}"),
    "quantile_ranges": Kind(_are_quantile_ranges, "{quantiles: [0.5], value_ranges: [[low, high]]}"),
    "regex": Kind(lambda value: isinstance(value, str), "text"),
    "regex_list": PATTERNS,
    "row_condition": TEXT,
    "strict_max": FLAG,
    "strict_min": FLAG,
    "sum_total": NUMBER,
    "tail_weight_holdout": SHARE,
    "threshold": NUMBER,
    "ties_okay": FLAG,
    "type_": TEXT,
    "type_list": Kind(_are_texts, "a list of texts"),
    "unexpected_rows_query": QUERY,
    "value": WHOLE,
    "value_pairs_set": Kind(lambda value: _are_pairs(value) and bool(value), "a list of at least one pair"),
    "value_set": LIST,
}
_PAIRS = _one_of("both_values_are_missing", "either_value_is_missing", "neither")
# Arguments that one expectation reads differently from the others.
OWN_KINDS: dict[tuple[str, str], Kind] = {
    **{
        (f"expect_column_{name}_to_be_between", end): kind
        for kind, names in {
            BOUND: ("values", "max", "min"),
            WHOLE: ("unique_value_count", "value_lengths"),
        }.items()
        for name in names
        for end in ("min_value", "max_value")
    },
    **{
        (f"expect_table_{name}_count_to_be_between", end): WHOLE
        for name in ("row", "column")
        for end in ("min_value", "max_value")
    },
    **{
        (f"expect_column_pair_values_{name}", "ignore_row_if"): _PAIRS
        for name in ("a_to_be_greater_than_b", "to_be_equal", "to_be_in_set")
    },
    ("expect_column_distinct_values_to_be_in_set", "value_set"): NOT_EMPTY,
    ("expect_table_columns_to_match_ordered_list", "column_list"): NAMES,
}
# Arguments that may be null, which means: not given.
NULLABLE = (
    "min_value", "max_value", "row_condition", "condition_parser", "escape", "type_list", "ties_okay", "or_equal",
    "column_index", "exact_match", "internal_weight_holdout", "tail_weight_holdout",
)  # fmt: skip
OWN_NULLABLE = (
    ("expect_column_kl_divergence_to_be_less_than", "threshold"),
    ("expect_table_columns_to_match_ordered_list", "column_list"),
)
