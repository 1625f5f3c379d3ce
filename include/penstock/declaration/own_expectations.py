"""Penstock's own expectations on the data, with their arguments. Their classes are in `quality/data/`.

This is a list for the same reason as `expectations.py`: the classes need great_expectations, which takes seconds to
import. A test compares the list with the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.declaration.argument_kinds import NAME, WHOLE, Kind, is_number
from penstock.declaration.carried import ADDRESS_NAMES
from penstock.declaration.columns import TYPES, Family, families_of
from penstock.declaration.durations import ALLOWED_DURATIONS, ALLOWED_WINDOWS, is_duration, is_window
from penstock.declaration.expectations import EXPECTATIONS, MOMENTS, NUMBERS
from penstock.declaration.mistakes import Place, clip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.declaration.columns import ColumnType

WHOLE_NUMBERS: tuple[Family, ...] = ("smallint", "integer", "bigint", "numeric")
# Families that PostgreSQL compares and hashes, so that rows of one key are found.
KEYS = families_of("number", "text", "moment", "boolean", "bytes", "time", "uuid")

_DURATION = Kind(is_duration, ALLOWED_DURATIONS)
_COUNT = Kind(lambda value: WHOLE.accepts(value) and int(value) > 0, "a whole number from 1")
_COLUMNS = Kind(
    lambda value: isinstance(value, list | tuple) and len(set(map(str, value))) == len(value) > 0,
    "a list of columns' names, each once",
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: its kind, and the families of the columns that it may name."""

    kind: Kind
    needed: bool = False
    nullable: bool = False
    families: tuple[Family, ...] | None = None


_KEY = Argument(NAME, needed=True, families=KEYS)
_ACROSS = Argument(Kind(is_window, ALLOWED_WINDOWS), nullable=True)
OWN_EXPECTATIONS: dict[str, dict[str, Argument]] = {
    "expect_key_order_within_partition": {
        "key": _KEY,
        "order_by": Argument(NAME, needed=True, families=(*NUMBERS, *MOMENTS)),
        "tolerance": Argument(
            Kind(
                lambda value: (
                    is_duration(value) or (is_number(value) and not isinstance(value, str) and float(value) >= 0)
                ),
                f"a number from 0, or a duration: {ALLOWED_DURATIONS}",
            )
        ),
        "across": _ACROSS,
    },
    "expect_business_id_unique": {
        "columns": Argument(_COLUMNS, needed=True, families=KEYS),
        "near": Argument(_COUNT),
        "across": _ACROSS,
    },
    "expect_key_in_one_partition": {"key": _KEY, "across": _ACROSS},
    "expect_sequence_without_gaps": {
        "sequence": Argument(NAME, needed=True, families=WHOLE_NUMBERS),
        "key": Argument(NAME, nullable=True, families=KEYS),
        "across": _ACROSS,
    },
    "expect_record_time_near": {
        "max_ahead": Argument(_DURATION, nullable=True),
        "max_behind": Argument(_DURATION, nullable=True),
        "max_disorder": Argument(_DURATION, nullable=True),
    },
    "expect_fresh": {"within": Argument(_DURATION, needed=True)},
    "expect_volume_as_usual": {
        "deviations": Argument(
            Kind(lambda value: is_number(value) and not isinstance(value, str) and float(value) > 0, "a number above 0")
        ),
        "weeks": Argument(
            Kind(lambda value: _COUNT.accepts(value) and int(value) <= 52, "a whole number from 1 to 52")
        ),
    },
    "expect_same_when_read_again": {
        "share": Argument(
            Kind(
                lambda value: is_number(value) and not isinstance(value, str) and 0 < float(value) <= 1,
                "a number above 0, at most 1",
            ),
            needed=True,
        )
    },
}
# The stage step reads chunks a second time for this expectation.
READ_AGAIN = "expect_same_when_read_again"
# Every expectation that a check may name: (arguments that must be given, arguments that may be given).
ALL_EXPECTATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = EXPECTATIONS | {
    name: (
        tuple(argument for argument, given in arguments.items() if given.needed),
        tuple(argument for argument, given in arguments.items() if not given.needed),
    )
    for name, arguments in OWN_EXPECTATIONS.items()
}
# Age and volume are those of live loads. Another load may have several ranges of a partition, and the numbers between
# two ranges are not missing.
ONLY_LIVE = ("expect_fresh", "expect_sequence_without_gaps", "expect_volume_as_usual")


def find_own_mistakes(check: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[tuple[Place, str]]:
    """Find the invalid arguments of a check that names an expectation of Penstock's own."""
    expect = check["expect"]
    for name, argument in OWN_EXPECTATIONS[expect].items():
        value = check.get(name)
        if name not in check or (value is None and argument.nullable):
            continue
        if not argument.kind.accepts(value):
            yield (name,), f"{clip(value)} is not a valid {name}; allowed: {argument.kind.allowed}"
        elif argument.families is not None:
            yield from _columns(expect, name, value, argument.families, types)
    yield from _reserved(check)
    yield from _tolerance(check, types)
    if expect == "expect_record_time_near" and all(check.get(name) is None for name in OWN_EXPECTATIONS[expect]):
        allowed = ", ".join(OWN_EXPECTATIONS[expect])
        yield ("max_ahead",), f"the check has no bound; allowed: at least one of {allowed}"


def _columns(
    expect: str,
    argument: str,
    value: Any,  # noqa: ANN401 - as a person wrote it
    families: tuple[Family, ...],
    types: Mapping[str, ColumnType],
) -> Iterator[tuple[Place, str]]:
    named = list(enumerate(value)) if isinstance(value, list | tuple) else [(None, value)]
    for at, name in named:
        type_ = types.get(name) if isinstance(name, str) else None
        if type_ is None:
            continue  # `consistency.py` reports unknown columns
        whole = type_.family != "numeric" or type_.scale == 0
        if type_.family not in families or (argument == "sequence" and not whole):
            place: Place = (argument,) if at is None else (argument, at)
            allowed = "smallint, integer, bigint, numeric(p,0)" if argument == "sequence" else ", ".join(families)
            yield place, f"{expect} cannot use {type_} here; allowed: columns of {allowed}"


def _reserved(check: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """The place of a record is compared by every check, so it cannot be a key, a sequence or an id as well."""
    for argument in ("key", "order_by", "sequence", "columns"):
        given = check.get(argument)
        reserved = ADDRESS_NAMES if argument == "order_by" else (*ADDRESS_NAMES, "_timestamp")
        for name in given if isinstance(given, list | tuple) else (given,):
            if name in reserved:
                yield (argument,), f"{name} is the place or the time of a record; allowed: a declared column, or _key"
    for argument in ("order_by", "sequence"):
        if check.get(argument) is not None and check.get(argument) == check.get("key"):
            yield (argument,), f"{clip(check[argument])} is the key as well; allowed: another column"


def _tolerance(check: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[tuple[Place, str]]:
    """A tolerance must have the unit of its column: a duration for moments, a number for numbers."""
    tolerance, order_by = check.get("tolerance", 0), check.get("order_by")
    type_ = types.get(order_by) if isinstance(order_by, str) else None
    if tolerance in (0, None) or type_ is None:
        return
    if (TYPES[type_.family].group == "moment") != isinstance(tolerance, str):
        allowed = ALLOWED_DURATIONS if not isinstance(tolerance, str) else "a number from 0"
        yield ("tolerance",), f"{clip(tolerance)} cannot be added to {type_}; allowed: {allowed}"
