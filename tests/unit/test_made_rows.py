"""Rows that a transform made, on their way to COPY."""

from __future__ import annotations

import pyarrow as pa
import pytest

from declaring import declare
from penstock.records.columns.timestamps import DAY, FIRST
from penstock.records.decoder import target_layout_of
from penstock.records.spark_columns import RowMaker, spark_schema

LEAST = -(2**63)


@pytest.mark.parametrize(
    ("type_", "first", "before"),
    [
        ("timestamptz", FIRST, LEAST),
        ("timestamp", FIRST, FIRST - 1),
        ("date", FIRST // DAY, -(2**31)),
    ],
)
def test_a_moment_before_the_first_of_postgresql_is_out_of_range(type_: str, first: int, before: int) -> None:
    layout = target_layout_of(declare("topic", columns={"at": {"type": type_}}))
    schema = spark_schema(layout)
    width = schema.field("at").type.bit_width
    at = pa.array([first, before, None, 0], pa.int64() if width == 64 else pa.int32()).cast(schema.field("at").type)
    others = {
        "_partition": pa.array([0] * 4, pa.int32()),
        "_offset": pa.array(range(4), pa.int64()),
        "_timestamp": pa.array([0] * 4, schema.field("_timestamp").type),
    }
    columns = [at if name == "at" else others[name] for name in schema.names]

    made = RowMaker(layout, 1).make(pa.RecordBatch.from_arrays(columns, schema=schema))

    assert {index: each.reason for index, each in made.rejections.items()} == {1: "out_of_range"}
    assert made.rows["_offset"].to_pylist() == [0, 2, 3]
