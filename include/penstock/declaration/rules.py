"""Rules: conditions of one row. A row that fails a rule goes to the quarantine, and its load continues."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    Field,
    StrictInt,
    StrictStr,
    field_validator,
    model_serializer,
    model_validator,
)

from penstock.declaration.columns import families_of
from penstock.declaration.durations import ALLOWED_DURATIONS, is_duration
from penstock.declaration.mistakes import Mistake, clip, suggest
from penstock.declaration.parts import STRICT

# More failed rows than this are a wrong rule more often than wrong data, and each one is read from the log again.
DEFAULT_RECORDS, MOST_RECORDS = 10_000, 1_000_000
# The expectations of single rows, with their arguments. Each one becomes a condition in SQL.
ROW_EXPECTATIONS: dict[str, tuple[str, ...]] = {
    "expect_column_values_to_not_be_null": ("column",),
    "expect_column_values_to_be_null": ("column",),
    "expect_column_values_to_be_between": ("column", "min_value", "max_value", "strict_min", "strict_max"),
    "expect_column_values_to_be_in_set": ("column", "value_set"),
    "expect_column_values_to_not_be_in_set": ("column", "value_set"),
    "expect_column_values_to_match_regex": ("column", "regex"),
    "expect_column_values_to_not_match_regex": ("column", "regex"),
    "expect_column_value_lengths_to_be_between": ("column", "min_value", "max_value"),
    "expect_column_value_lengths_to_equal": ("column", "value"),
    "expect_column_pair_values_a_to_be_greater_than_b": ("column_A", "column_B", "or_equal"),
    "expect_column_pair_values_to_be_equal": ("column_A", "column_B"),
}
OWN_NAMES = ("name", "where", "expect", "reason", "hold_above")


class HoldAbove(BaseModel):
    """The failed rows of one load above which the load is held, and no row is moved."""

    model_config = STRICT

    records: Annotated[StrictInt, Field(ge=0, le=MOST_RECORDS)] = Field(
        default=DEFAULT_RECORDS, description="the most rows of a load that may fail"
    )
    share: Annotated[float, Field(strict=True, ge=0, le=1)] | None = Field(
        default=None, description="the largest share of a load's rows that may fail, from 0 to 1; null for any share"
    )


class Rule(BaseModel):
    """A condition that each row must meet: SQL in `where`, or an expectation of single rows with its arguments."""

    model_config = STRICT

    name: StrictStr = Field(description="The name of the rule: lower-case letters, digits and _.")
    where: StrictStr | None = Field(default=None, description="A condition in SQL over the columns of the row.")
    expect: StrictStr | None = Field(
        default=None, description="Instead of `where`: an expectation of single rows, its arguments beside it."
    )
    arguments: dict[str, Any] = {}
    reason: StrictStr | None = Field(
        default=None, description="A text for people, stored with each record that fails the rule."
    )
    hold_above: HoldAbove = Field(
        default=HoldAbove(), description="The failed rows above which the load is held: {records, share}."
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_arguments(cls, given: object) -> object:
        if not isinstance(given, dict) or "arguments" in given or given.get("expect") is None:
            return given
        own = {name: given[name] for name in OWN_NAMES if name in given}
        return own | {"arguments": {name: value for name, value in given.items() if name not in own}}

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", name):
            raise ValueError(
                f"{clip(name)} is not a valid name of a rule; allowed: a lower-case letter, "
                "then lower-case letters, digits and _, at most 50 characters"
            )
        return name

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        condition = {"where": self.where} if self.expect is None else {"expect": self.expect, **self.arguments}
        return {"name": self.name, **condition, "reason": self.reason, "hold_above": self.hold_above.model_dump()}


class Dedupe(BaseModel):
    """Later copies of a row go to the quarantine. Copies have the same values in some columns."""

    model_config = STRICT

    by: Annotated[tuple[StrictStr, ...], Field(min_length=1, max_length=32)] = Field(
        description="the columns whose values identify a row; a row with a null among them has no copies"
    )
    within: StrictStr | None = Field(
        default=None,
        description="also compare with rows of the target whose timestamps are at most this far away, such as 30d; "
        "null for the load alone",
    )
    hold_above: HoldAbove = Field(
        default=HoldAbove(), description="the copies above which the load is held: {records, share}"
    )

    @field_validator("within")
    @classmethod
    def _check_within(cls, within: str | None) -> str | None:
        if within is not None and not is_duration(within):
            raise ValueError(f"{clip(within)} is not a valid duration; allowed: {ALLOWED_DURATIONS}")
        return within


def find_dedupe_mistakes(written: Mapping[str, Any], names: list[str], types: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find columns that cannot identify a row, and a missing index for the search in the target."""
    dedupe = written.get("dedupe")
    by = dedupe.get("by") if isinstance(dedupe, Mapping) else None
    if not isinstance(dedupe, Mapping) or not isinstance(by, (list, tuple)):
        return
    for at, name in enumerate(by):
        if not isinstance(name, str):
            continue
        if name not in names:
            what = f"unknown column {clip(name)}{suggest(name, names)}; allowed: {', '.join(names)}"
            yield Mistake(("dedupe", "by", at), what)
        elif name in types and types[name].family in families_of("document"):
            what = f"{clip(name)} is {types[name]}, whose values cannot be compared; allowed: columns of other types"
            yield Mistake(("dedupe", "by", at), what)
    indexes = written.get("indexes")
    listed = (
        [index for index in indexes if isinstance(index, (list, tuple))] if isinstance(indexes, (list, tuple)) else []
    )
    if dedupe.get("within") is not None and not any(set(index[: len(by)]) == set(by) for index in listed):
        what = (
            f"no index begins with {', '.join(map(str, by))}; allowed: an entry of `indexes` with these columns first"
        )
        yield Mistake(("dedupe", "within"), what)


def find_rule_mistakes(rules: list[Any]) -> Iterator[Mistake]:
    """Find rules without a condition, with two conditions, or with the name of another rule.

    The caller checks the arguments of an expectation as it checks those of a check.
    """
    seen: set[str] = set()
    for at, rule in enumerate(rules):
        if not isinstance(rule, dict):
            continue
        name = rule.get("name")
        if isinstance(name, str) and name in seen:
            yield Mistake(("rules", at, "name"), f"two rules are named {clip(name)}; allowed: each name once")
        seen.add(str(name))
        if name == "dedupe":
            yield Mistake(("rules", at, "name"), "dedupe names the results of `dedupe:`; allowed: any other name")
        yield from _find_condition_mistakes(at, rule)


def _find_condition_mistakes(at: int, rule: Mapping[str, Any]) -> Iterator[Mistake]:
    where, expect = rule.get("where"), rule.get("expect")
    if (where is None) == (expect is None):
        number = "no condition" if where is None else "two conditions"
        yield Mistake(("rules", at), f"has {number}; allowed: either `where` or `expect`")
    if isinstance(where, str) and (not where.strip() or "\0" in where):
        yield Mistake(("rules", at, "where"), "is not a condition; allowed: SQL such as amount >= 0")
    if isinstance(expect, str) and expect not in ROW_EXPECTATIONS:
        near = suggest(expect, ROW_EXPECTATIONS)
        what = f"{clip(expect)} does not judge single rows{near}; allowed: {', '.join(ROW_EXPECTATIONS)}"
        yield Mistake(("rules", at, "expect"), what)
    if isinstance(expect, str) and expect in ROW_EXPECTATIONS:
        known = ROW_EXPECTATIONS[expect]
        if "regex" in known and rule.get("regex") is None:
            # Great Expectations has a default that every text matches.
            yield Mistake(("rules", at, "regex"), f"is missing; allowed: {expect} needs column, regex")
        for name in rule:
            if name not in (*OWN_NAMES, *known):
                hint = suggest(str(name), known)
                what = f"unknown argument of {expect} in a rule{hint}; allowed: {', '.join(known)}"
                yield Mistake(("rules", at, name), what)


def list_conditions(rules: list[Any]) -> list[Any]:
    """The expectations of rules as checks, at the places of their rules; None for a rule with another condition."""
    return [
        {name: value for name, value in rule.items() if name == "expect" or name in ROW_EXPECTATIONS[rule["expect"]]}
        if isinstance(rule, dict) and isinstance(rule.get("expect"), str) and rule["expect"] in ROW_EXPECTATIONS
        else None
        for rule in rules
    ]
