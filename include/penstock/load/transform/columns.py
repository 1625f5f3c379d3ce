"""The columns of a transform in the driver: from Python into its DataFrame, compared with the target's, and back.

Spark's own expressions turn a short decimal from a whole number and into one. They are not part of Spark's interface
for Python, so they are made in the JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import TransformError
from penstock.records.spark_columns import MOST_DIGITS, exchanged_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, DecimalType, StructField, StructType

    from penstock.records.decoder import Layout

WHOLE = ("tinyint", "smallint", "int", "bigint")


def exchanged_types(layout: Layout) -> StructType:
    """The types of the batches that Python gives to the JVM."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(exchanged_schema(layout))


def receive(frame: DataFrame, layout: Layout) -> DataFrame:
    """The DataFrame of a transform, from the batches that Python gives."""
    from pyspark.sql.pandas.types import from_arrow_schema

    short = ((field.name, _find_short(field.dataType)) for field in from_arrow_schema(spark_schema(layout)))
    return frame.withColumns({name: _make_decimal(frame[f"`{name}`"], type_) for name, type_ in short if type_})


def _make_decimal(column: Column, type_: DecimalType) -> Column:
    may_be_null_instead_of_an_error = False
    return _convert(column, "MakeDecimal", type_.precision, type_.scale, may_be_null_instead_of_an_error)


def _send(column: Column, field: StructField) -> Column:
    sent = _convert(column, "UnscaledValue") if _find_short(field.dataType) else column
    return sent.alias(field.name)


def _find_short(type_: DataType) -> DecimalType | None:
    """The type if it is a decimal that is exchanged as a whole number."""
    from pyspark.sql.types import DecimalType

    return type_ if isinstance(type_, DecimalType) and type_.precision <= MOST_DIGITS else None


def _convert(column: Column, expression: str, *arguments: int) -> Column:
    from pyspark import SparkContext
    from pyspark.sql.classic.column import Column

    jvm: Any = SparkContext._jvm
    utilities = jvm.org.apache.spark.sql.classic.ExpressionUtils
    make = getattr(jvm.org.apache.spark.sql.catalyst.expressions, expression)
    return Column(utilities.column(make(utilities.expression(column._jc), *arguments)))


def fit_columns(made: DataFrame, layout: Layout, transform: str) -> DataFrame:
    """Bring the columns of a transform into the order and types of the target, and send them to Python.

    A TransformError names columns that do not fit.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = from_arrow_schema(spark_schema(layout))
    faults = [*_find_name_faults(made, wanted), *_find_type_faults(made, wanted)]
    if faults:
        what = f"the transform {transform} does not make the declared columns: {'; '.join(faults)}."
        raise TransformError(what, next_step=advice.COMPARE_TRANSFORM)
    found = {field.name: field.dataType for field in made.schema.fields}
    return made.select(*(_send(_cast(field.name, found[field.name], field.dataType), field) for field in wanted))


def _cast(name: str, found: DataType, wanted: DataType) -> Column:
    from pyspark.sql.functions import col

    column = col(f"`{name}`")
    return column if found == wanted else column.cast(wanted)


def _find_name_faults(made: DataFrame, wanted: StructType) -> list[str]:
    missing = [name for name in wanted.names if name not in made.columns]
    twice = sorted({name for name in made.columns if made.columns.count(name) > 1})
    others = [name for name in dict.fromkeys(made.columns) if name not in wanted.names]
    parts = (("missing", missing), ("not declared", others), ("there twice", twice))
    return [f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in parts if names]


def _find_type_faults(made: DataFrame, wanted: StructType) -> list[str]:
    found = {field.name: field.dataType for field in made.schema.fields}
    return [
        f"{field.name} is {found[field.name].simpleString()} where {field.dataType.simpleString()} is declared"
        for field in wanted.fields
        if field.name in found and not _fits(found[field.name], field.dataType, exactly=field.name.startswith("_"))
    ]


def _fits(found: DataType, wanted: DataType, *, exactly: bool) -> bool:
    """Whether every value of one type is a value of the other: no cast may change a value, or fail in a task."""
    from pyspark.sql.types import DecimalType

    if found == wanted:
        return True
    if exactly:
        return False
    one, other = found.simpleString(), wanted.simpleString()
    if one == "void" or (one, other) == ("float", "double"):
        return True
    if one in WHOLE and other in WHOLE:
        return WHOLE.index(one) <= WHOLE.index(other)
    if isinstance(found, DecimalType) and isinstance(wanted, DecimalType):
        whole = found.precision - found.scale <= wanted.precision - wanted.scale
        return bool(whole and found.scale <= wanted.scale)
    return False
