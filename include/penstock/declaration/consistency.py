"""Mistakes between the parts of a declaration: two parts that are valid alone, but not together.

The functions read the declaration as it was written, so that these mistakes are reported together with the mistakes
inside the parts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.declaration.carried import ALWAYS_CARRIED, KEY_NAME, TOMBSTONE_NAME, carried_columns
from penstock.declaration.check_arguments import find_invalid_arguments
from penstock.declaration.columns import ColumnType, families_of, format_path, parse_type
from penstock.declaration.expectations import COLUMN_ARGUMENTS
from penstock.declaration.formats import WHOLE_VALUE_TYPES
from penstock.declaration.mistakes import Mistake, Place, clip, suggest
from penstock.declaration.own_expectations import ALL_EXPECTATIONS
from penstock.declaration.results import find_result_mistakes
from penstock.declaration.rules import find_dedupe_mistakes, find_rule_mistakes, list_conditions
from penstock.declaration.schedules import can_spread, spread
from penstock.declaration.starts import never_meets
from penstock.declaration.tombstones import find_tombstone_mistakes
from penstock.declaration.transforms import find_transform_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Written = dict[str, Any]
_OWN_ARGUMENTS = ("expect", "severity", "suite")


# The parts that list columns. `input` has the decoded columns where a transform makes the columns of the table.
COLUMN_PARTS = ("columns", "input")


def find_mistakes(written: Mapping[str, Any], given: Mapping[str, Any]) -> list[Mistake]:
    """Find every mistake between the parts; `given` is the declaration with the short forms of YAML."""
    names, decoded = column_names(given), "columns" if written.get("input") is None else "input"
    return [
        *(mistake for part in COLUMN_PARTS for mistake in _duplicate_columns(written, part)),
        *_whole_value(written, decoded),
        *_units(written, decoded),
        *find_transform_mistakes(written, _types(written, decoded), given.get("columns")),
        *_indexes(written, names),
        *_checks(_list(written.get("checks")), names, _types(written)),
        *find_dedupe_mistakes(written, names, _types(written)),
        *_rules(_list(written.get("rules")), names, _types(written)),
        *find_result_mistakes(written, names, _types(written)),
        *find_tombstone_mistakes(written, _types(written)),
        *_suites(written),
        *_load_when(written),
        *_spread(written),
        *_window(written),
    ]


def _load_when(written: Mapping[str, Any]) -> Iterator[Mistake]:
    schedule = written.get("schedule")
    if written.get("load_when") is not None and isinstance(schedule, str) and schedule in ("@once", "@continuous"):
        what = (
            f"a schedule {schedule} cannot be joined with load_when; allowed: cron fields, a preset with times, or null"
        )
        yield Mistake(("schedule",), what)


def _spread(written: Mapping[str, Any]) -> Iterator[Mistake]:
    schedule = written.get("schedule", "@hourly")
    if written.get("spread") is True and not (isinstance(schedule, str) and can_spread(schedule)):
        what = f"the schedule {clip(schedule)} is not at minute 0; allowed: true with a schedule at minute 0, or false"
        yield Mistake(("spread",), what)


def _window(written: Mapping[str, Any]) -> Iterator[Mistake]:
    schedule, window = written.get("schedule", "@hourly"), written.get("window")
    if isinstance(schedule, str) and written.get("spread") is True:
        schedule = spread(schedule, str(written.get("name")))
    if isinstance(schedule, str) and isinstance(window, str) and never_meets(schedule, window):
        what = (
            f"the schedule {clip(schedule)} has no time in the window {clip(window)}; allowed: hours in which it runs"
        )
        yield Mistake(("window",), what)


def column_names(given: Mapping[str, Any]) -> list[str]:
    """List the names of the table's columns, including the columns that have mistakes."""
    columns = given.get("columns")
    declared = list(columns) if isinstance(columns, dict) else [column.get("name") for _, column in _columns(given)]
    carried = [column.name for column in ALWAYS_CARRIED]
    carried += [KEY_NAME] if given.get("key") else []
    carried += [TOMBSTONE_NAME] if given.get("tombstones") == "keep" else []
    return [*(name for name in declared if isinstance(name, str)), *carried]


def _columns(written: Mapping[str, Any], part: str = "columns") -> list[tuple[int, Written]]:
    return [(at, column) for at, column in enumerate(_list(written.get(part))) if isinstance(column, dict)]


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _type(column: Written) -> ColumnType | None:
    given = column.get("type")
    if not isinstance(given, str):
        return given if isinstance(given, ColumnType) else None
    try:
        return parse_type(given)
    except ValueError:
        return None


def _duplicate_columns(written: Mapping[str, Any], part: str) -> Iterator[Mistake]:
    seen: set[str] = set()
    for at, column in _columns(written, part):
        name = column.get("name")
        if isinstance(name, str) and name in seen:
            yield Mistake((part, at), f"the column {clip(name)} is declared twice; allowed: each name once")
        seen.add(str(name))


def _whole_value(written: Mapping[str, Any], part: str) -> Iterator[Mistake]:
    value: Any = written.get("value")
    if value not in list(WHOLE_VALUE_TYPES):
        return
    wanted = WHOLE_VALUE_TYPES[value].family
    columns = _columns(written, part)
    if len(columns) > 1:
        yield Mistake(
            (part,),
            f"{len(columns)} columns, but value: {value} fills one; allowed: one column with path $ and type {wanted}",
        )
    for at, column in columns:
        if column.get("path") not in ("$", ()):
            yield Mistake(
                (part, at, "path"),
                f"value: {value} has no parts; allowed: $, because the whole value fills the column",
            )
        type_ = _type(column)
        if type_ is not None and type_.family != wanted:
            yield Mistake((part, at, "type"), f"value: {value} cannot become {type_}; allowed: {wanted}")


def _units(written: Mapping[str, Any], part: str) -> Iterator[Mistake]:
    for at, column in _columns(written, part):
        type_ = _type(column)
        if column.get("unit") is not None and type_ and type_.family not in ("timestamp", "timestamptz"):
            yield Mistake(
                (part, at, "unit"), f"a unit has no effect on {type_}; allowed: with timestamp and timestamptz"
            )


def _indexes(written: Mapping[str, Any], names: list[str]) -> Iterator[Mistake]:
    documents = {
        name: type_.family
        for _, column in _columns(written)
        if isinstance(name := column.get("name"), str)
        and (type_ := _type(column))
        and type_.family in families_of("document")
    }
    indexes = [(at, _list(index)) for at, index in enumerate(_list(written.get("indexes")))]
    for at, index in indexes:
        if index and index in [earlier for before, earlier in indexes if before < at]:
            yield Mistake(("indexes", at), "the same index is declared twice; allowed: each index once")
        for place, name in enumerate(index):
            if name in index[:place]:
                yield Mistake(("indexes", at, place), f"{clip(name)} is twice in one index; allowed: each column once")
            if isinstance(name, str):
                yield from _unknown(("indexes", at, place), name, names)
            if isinstance(name, str) and name in documents:
                what = f"{clip(name)} is {documents[name]}, which an index cannot hold; allowed: columns of other types"
                yield Mistake(("indexes", at, place), what)


def _unknown(place: Place, name: str, names: list[str]) -> Iterator[Mistake]:
    if name not in names:
        yield Mistake(place, f"unknown column {clip(name)}{suggest(name, names)}; allowed: {', '.join(names)}")


def _types(written: Mapping[str, Any], part: str = "columns") -> dict[str, ColumnType]:
    """List the types of columns, and of those that every row carries; a column with an invalid type is left out."""
    declared = {str(column.get("name")): _type(column) for _, column in _columns(written, part)}
    found = carried_columns(written.get("key"), written.get("tombstones"))
    carried = {column.name: column.type for column in found}
    return {name: type_ for name, type_ in declared.items() if type_ is not None} | carried


def _rules(rules: list[Any], names: list[str], types: Mapping[str, ColumnType]) -> Iterator[Mistake]:
    yield from find_rule_mistakes(rules)
    for (_, *within), what in _checks(list_conditions(rules), names, types):
        yield Mistake(("rules", *within), what)


def _checks(checks: list[Any], names: list[str], types: Mapping[str, ColumnType]) -> Iterator[Mistake]:
    for at, check in enumerate(checks):
        if isinstance(check, dict):
            found = list(_arguments(at, check))
            yield from found
            if isinstance(check.get("expect"), str) and check["expect"] in ALL_EXPECTATIONS:
                for (name, *within), what in find_invalid_arguments(check, types):
                    if ("checks", at, name) not in [mistake.place for mistake in found]:
                        yield Mistake(("checks", at, name, *within), what)
            for argument in COLUMN_ARGUMENTS:
                yield from _named_columns(at, argument, check.get(argument), names)


def _suites(written: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find suites without a check: Penstock reads suites with the files of declarations only."""
    read = {check.get("suite") for check in _list(written.get("checks")) if isinstance(check, dict)}
    for at, name in enumerate(_list(written.get("suites"))):
        if isinstance(name, str) and name not in read:
            what = f"the suite {clip(name)} was not read; allowed: in a YAML file, beside the folder suites"
            yield Mistake(("suites", at), what)


def _arguments(at: int, check: Written) -> Iterator[Mistake]:
    expect = check.get("expect")
    if isinstance(expect, str) and expect in ALL_EXPECTATIONS:
        needed, possible = ALL_EXPECTATIONS[expect]
        for name in needed:
            if check.get(name) is None:
                yield Mistake(("checks", at, name), f"is missing; allowed: {expect} needs {', '.join(needed)}")
        known = (*needed, *possible)
        for name in check:
            if name not in (*_OWN_ARGUMENTS, *known):
                yield Mistake(
                    ("checks", at, name),
                    f"unknown argument of {expect}{suggest(str(name), known)}; allowed: {', '.join(known)}",
                )
    mostly = check.get("mostly", 1)
    if isinstance(mostly, bool) or not isinstance(mostly, int | float) or not 0 <= mostly <= 1:
        yield Mistake(("checks", at, "mostly"), f"{clip(mostly)} is not a valid share; allowed: a number from 0 to 1")
    yield from _not_json(at, check)


def _not_json(at: int, check: Written) -> Iterator[Mistake]:
    """Find arguments that JSON would change, because the ledger keeps every declaration as JSON."""
    for name, value in check.items():
        try:
            same = json.loads(json.dumps(value, allow_nan=False)) == value
        except (ValueError, TypeError):
            same = False
        if not same:
            yield Mistake(("checks", at, name), f"{clip(value)} is not a JSON value; allowed: text, numbers, lists, …")


def _named_columns(at: int, argument: str, given: object, names: list[str]) -> Iterator[Mistake]:
    if isinstance(given, str):
        yield from _unknown(("checks", at, argument), given, names)
    elif isinstance(given, (list, tuple)):
        for place, name in enumerate(given):
            if isinstance(name, str):
                yield from _unknown(("checks", at, argument, place), name, names)
            else:
                yield Mistake(("checks", at, argument, place), f"{clip(name)} is not a column's name; allowed: a name")
    elif given is not None:
        yield Mistake(("checks", at, argument), f"{clip(given)} is not a column's name; allowed: {', '.join(names)}")


def expand(given: Mapping[str, Any]) -> tuple[Written, list[Mistake]]:
    """Expand the short forms of YAML: columns by name, and columns without a path. The models report other mistakes.

    A mapping of columns becomes a list, because the ledger's jsonb does not keep the order of names.
    """
    written, mistakes = dict(given), list[Mistake]()
    for part in COLUMN_PARTS:
        columns = given.get(part)
        if isinstance(columns, dict):
            for name, column in columns.items():
                if isinstance(column, dict) and "name" in column:
                    mistakes.append(Mistake((part, name, "name"), "unknown name; allowed: the key above is the name"))
            columns = [_with_name(name, column) for name, column in columns.items()]
        if isinstance(columns, (list, tuple)):
            is_decoded = part == "input" or given.get("input") is None
            whole = is_decoded and given.get("value") in list(WHOLE_VALUE_TYPES)
            written[part] = [_with_path(column, whole=whole) for column in columns]
    return written, mistakes


def _with_name(name: object, column: object) -> object:
    return {**column, "name": name} if isinstance(column, dict) else column


def _with_path(column: object, *, whole: bool) -> object:
    if not isinstance(column, dict) or "path" in column or not isinstance(column.get("name"), str):
        return column
    return {**column, "path": "$" if whole else format_path((column["name"],))}
