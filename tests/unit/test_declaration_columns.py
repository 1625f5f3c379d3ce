"""The types of columns, as people write them and as PostgreSQL spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_samples import EVERY_SPELLING, SAMPLES
from penstock.declaration.columns import FAMILIES, MAX_LENGTH, MAX_PRECISION, TYPES, parse_type
from penstock.declaration.expectations import RUNS_ON

WRITTEN = [
    ("smallint", "smallint", "smallint"),
    ("int", "integer", "integer"),
    ("int4", "integer", "integer"),
    ("INTEGER", "integer", "integer"),
    ("bigint", "bigint", "bigint"),
    ("int8", "bigint", "bigint"),
    ("real", "real", "real"),
    ("double  precision", "double precision", "double"),
    ("numeric(12,2)", "numeric(12,2)", "numeric"),
    (" numeric ( 12 , 2 ) ", "numeric(12,2)", "numeric"),
    ("decimal(3,0)", "numeric(3,0)", "numeric"),
    ("text", "text", "text"),
    ("varchar(20)", "character varying(20)", "varchar"),
    ("character varying(20)", "character varying(20)", "varchar"),
    ("char(3)", "character(3)", "char"),
    ("boolean", "boolean", "boolean"),
    ("bytea", "bytea", "bytea"),
    ("date", "date", "date"),
    ("time", "time without time zone", "time"),
    ("timestamp", "timestamp without time zone", "timestamp"),
    ("timestamptz", "timestamp with time zone", "timestamptz"),
    ("uuid", "uuid", "uuid"),
    ("json", "json", "json"),
    ("jsonb", "jsonb", "jsonb"),
]
REFUSED = [
    ("bigit", "did you mean bigint"),
    ("", "allowed: smallint"),
    ("double", "did you mean double precision"),
    ("numeric", "needs a precision and a scale"),
    ("numeric(9)", "needs a precision and a scale"),
    ("numeric(9,2,1)", "needs a precision and a scale"),
    ("numeric(9,-2)", "needs a precision and a scale"),
    ("numeric(77,0)", "p from 1 to 76"),
    ("numeric(0,0)", "p from 1 to 76"),
    ("numeric(4,5)", "s from 0 to p"),
    ("numeric(99999999999999999999,2)", "needs a precision and a scale"),
    ("varchar", "or text for any length"),
    ("varchar(0)", "n from 1 to"),
    (f"varchar({MAX_LENGTH + 1})", "n from 1 to"),
    ("char", "needs a length"),
    ("timestamptz(3)", "takes no arguments"),
    ("bigint[]", "allowed: smallint"),
    ("text); drop table x; --", "allowed: smallint"),
    ("numeric(١٢,٢)", "needs a precision and a scale"),
]


@pytest.mark.parametrize(("written", "sql", "family"), WRITTEN)
def test_a_type_is_spelled_as_postgresql_spells_it(written: str, sql: str, family: str) -> None:
    type_ = parse_type(written)
    assert (type_.sql, type_.family, str(type_)) == (sql, family, sql)


def test_every_type_has_a_sample_of_values_and_of_spellings() -> None:
    assert {family for _, _, family in WRITTEN} == set(TYPES)
    assert {parse_type(type_).family for type_ in SAMPLES} == set(TYPES)
    assert {parse_type(type_).family for type_ in EVERY_SPELLING} == set(TYPES)


@pytest.mark.parametrize(("written", "message"), REFUSED)
def test_an_invalid_type_is_refused_with_the_allowed_types(written: str, message: str) -> None:
    with pytest.raises(ValueError, match="allowed: ") as refused:
        parse_type(written)
    assert message in str(refused.value)


@given(precision=st.integers(1, MAX_PRECISION), data=st.data())
def test_precision_and_scale_are_kept(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    type_ = parse_type(f"numeric({precision},{scale})")
    assert (type_.precision, type_.scale, type_.length) == (precision, scale, None)


@given(st.integers(1, MAX_LENGTH), st.sampled_from(["varchar", "char"]))
def test_a_length_is_kept(length: int, name: str) -> None:
    assert parse_type(f"{name}({length})").length == length


@given(st.one_of(st.text(), st.sampled_from(list(FAMILIES)).flatmap(lambda name: st.text().map(name.__add__))))
def test_any_text_is_a_type_with_a_round_trip_or_a_value_error(text: str) -> None:
    try:
        type_ = parse_type(text)
    except ValueError as error:
        assert "allowed: " in str(error)  # noqa: PT017 - both outcomes are valid
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert parse_type(type_.sql) == type_


def test_every_group_of_types_takes_equality_checks_or_is_listed_as_without() -> None:
    without_equality = {"document"}  # of its types, only jsonb has equality
    unique = RUNS_ON["expect_column_values_to_be_unique"]
    with_equality = {row.group for family, row in TYPES.items() if family in unique} - without_equality
    assert with_equality | without_equality == {row.group for row in TYPES.values()}
