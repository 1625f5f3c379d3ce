"""For any JSON, PostgreSQL's COPY accepts the decoded rows, and the table has the same values."""

from __future__ import annotations

import itertools
import json
import secrets
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from column_samples import EDGES, EVERY_SPELLING, INVALID_RECORDS
from format_values import values_of
from penstock.declaration.columns import parse_type
from penstock.declaration.formats import FORMATS
from penstock.model.records import Batch
from penstock.records.columns.index_limits import make_index_limits
from penstock.records.decoder import Decoder, Layout
from penstock.records.formats.base import Field
from penstock.records.quarantine import make_quarantine
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.declaration.formats import ValueFormat

    Copy = Callable[..., tuple[list[Any], Any]]

UNITS = {"timestamp": "ms", "timestamptz": "us"}
# Python's datetime ends at the year 9999. psycopg reads a real by its shortest text.
READ = dict.fromkeys(UNITS, "(extract(epoch from c) * 1000000)::bigint") | {
    "real": "c::double precision",
    "json": "c::text",
    "jsonb": "c::text",
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=8)
    | st.datetimes().map(lambda moment: moment.isoformat())
    | st.datetimes().map(lambda moment: moment.isoformat() + "Z")
    | st.dates().map(str)
    | st.uuids().map(str)
)
GENERATED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
).map(json.dumps)
NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,6})?\Z")
BROKEN = st.binary(max_size=20)


@pytest.fixture
def copy(db: str) -> Iterator[Copy]:
    """Decode values of one type, COPY the rows, and read them back."""
    attempts = itertools.count(1)
    with psycopg.connect(superuser(db), autocommit=True) as ledger, closing(dbapi.connect(superuser(db))) as adbc:
        with closing(adbc.cursor()) as cursor:
            cursor.execute("set session_replication_role = replica")  # the test needs no load in the ledger
            cursor.execute("set synchronous_commit = off")
            adbc.commit()

        def run(
            type_: str,
            values: list[bytes | None],
            unit: str | None = None,
            value: ValueFormat = "json",
            path: tuple[str, ...] = ("c",),
        ) -> tuple[list[Any], Any]:
            table = f"landed_{next(attempts)}"
            ledger.execute("set synchronous_commit = off")
            ledger.execute(f"create table public.{table} (c {type_}, _offset bigint)")
            decoder = Decoder(Layout((Field("c", parse_type(type_), path, unit=unit),), value), 7)
            decoded = decoder.decode(batch_of(values))
            rejected = make_quarantine(1, next(attempts), decoded.rejected)
            with closing(adbc.cursor()) as cursor:
                cursor.adbc_ingest(table, decoded.rows.select(["c", "_offset"]), mode="append", db_schema_name="public")
                cursor.adbc_ingest("quarantine", rejected, mode="append", db_schema_name="penstock")
                adbc.commit()
            read = f"select _offset, {READ.get(type_, 'c')} from public.{table} order by 1"
            return ledger.execute(read).fetchall(), decoded

        yield run


def batch_of(values: list[bytes | None]) -> Batch:
    return Batch(
        partition=0,
        offsets=np.arange(len(values)),
        timestamps=np.zeros(len(values), np.int64),
        values=values,
        keys=[b"\0\xff"] * len(values),
        headers=lambda _: [("a\0b", b"\0"), ("n", None), ("t", b"text"), ("\ud800", b"\xff")],
    )


def check(copied: tuple[list[Any], Any], type_: str, values: list[bytes | None]) -> None:
    landed, decoded = copied
    assert len(landed) + len(decoded.rejected) == len(values), "rows + quarantined == records"
    column = decoded.rows["c"].cast(pa.int64()) if type_ in UNITS else decoded.rows["c"]
    kept = dict(zip(decoded.rows["_offset"].to_pylist(), column.to_pylist(), strict=True))
    for offset, value in landed:
        if type_ in ("json", "jsonb") and value is not None:
            assert parse(value) == parse((values[offset] or b"").decode())["c"]
        elif type_ == "char(3)" and value is not None:
            assert value == kept[offset].ljust(3)
        else:
            assert (value.bytes if isinstance(value, UUID) else value) == kept[offset]


def parse(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def wrap(text: str) -> bytes:
    return b'{"c": ' + text.encode(errors="surrogatepass") + b"}"


@pytest.mark.parametrize("type_", EVERY_SPELLING)
def test_every_edge_is_a_row_or_a_rejection_and_never_fails_the_copy(copy: Copy, type_: str) -> None:
    values: list[bytes | None] = [*map(wrap, EDGES), *INVALID_RECORDS]
    landed, decoded = copy(type_, values)
    assert len(landed) > 1, "some edge fits every type"
    assert len(landed) + len(decoded.rejected) == len(values)


@pytest.mark.parametrize("type_", EVERY_SPELLING)
def test_generated_json_is_an_equal_row_or_rejected(copy: Copy, type_: str) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(GENERATED.map(wrap) | NUMBERS.map(wrap) | BROKEN, min_size=1, max_size=30))
    def run(values: list[bytes | None]) -> None:
        check(copy(type_, values), type_, values)

    run()


@pytest.mark.parametrize("name", FORMATS)
def test_any_value_of_any_format_passes_the_copy(copy: Copy, name: ValueFormat) -> None:
    whole = FORMATS[name].whole
    type_, path = (str(whole), ()) if whole else ("text", ("note",))

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(BROKEN | values_of(name), min_size=1, max_size=30))
    def run(values: list[bytes | None]) -> None:
        landed, decoded = copy(type_, values, value=name, path=path)
        assert len(landed) + len(decoded.rejected) == len(values)

    run()


@pytest.mark.parametrize("type_", sorted(UNITS))
def test_epoch_numbers_are_rows_or_rejected(copy: Copy, type_: str) -> None:
    values: list[bytes | None] = [wrap(text) for text in EDGES if text[0] in "-0123456789"]
    landed, decoded = copy(type_, values, UNITS[type_])
    assert len(landed) + len(decoded.rejected) == len(values)


WIDEST = {
    "bigint": "-1",
    "boolean": "true",
    "numeric(76,38)": f"{'9' * 38}.{'9' * 38}",
    "timestamptz": "'2026-01-01T00:00:00Z'",
    "uuid": "gen_random_uuid()",
}


@pytest.mark.parametrize("others", [[], sorted(WIDEST), ["boolean"] * 29, ["numeric(76,38)"] * 29])
def test_an_index_accepts_values_of_the_size_of_its_limit(db: str, others: list[str]) -> None:
    types = {"a": "text", **{f"o{place}": type_ for place, type_ in enumerate(others)}, "b": "bytea", "c": "char(9)"}
    [index] = make_index_limits([list(types)], {name: parse_type(type_) for name, type_ in types.items()})
    text = secrets.token_hex(1000)[: index.limit // 2]  # random: compression would make it shorter
    fixed = "".join(f", {WIDEST[type_]}" for type_ in others)
    with psycopg.connect(db) as connection:
        connection.execute(f"create table t ({', '.join(f'{name} {type_}' for name, type_ in types.items())})".encode())
        connection.execute(f"create index on t ({', '.join(types)})".encode())
        insert = f"insert into t values (%s{fixed}, %s, '')".encode()
        connection.execute(insert, [text, secrets.token_bytes(index.limit - len(text) - 9)])
        connection.commit()
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            connection.execute(insert, [text, secrets.token_bytes(3000)])


def test_decoded_columns_have_the_arrow_types_of_copy() -> None:
    for type_ in EVERY_SPELLING:
        field = Decoder(Layout((Field("c", parse_type(type_), ("c",)),)), 7).schema.field("c")
        assert not pa.types.is_null(field.type), type_
