"""Great Expectations, imported in one place.

The import emits deprecation warnings about Great Expectations itself. They are ignored here, because a process that
treats warnings as errors would stop at them.

The import takes seconds. The garbage collector is off during the import, because it would spend a part of that time on
objects that live as long as the process.
"""

from __future__ import annotations

import gc
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def _importing() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


with _importing():
    import great_expectations
    from great_expectations.execution_engine import SparkDFExecutionEngine, SqlAlchemyExecutionEngine
    from great_expectations.expectations.expectation import BatchExpectation, Expectation
    from great_expectations.expectations.metrics.metric_provider import metric_value
    from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
    from great_expectations.expectations.registry import get_expectation_impl, get_metric_kwargs
    from great_expectations.validator.metric_configuration import MetricConfiguration

ExpectationSuite = great_expectations.ExpectationSuite
get_context = great_expectations.get_context

__all__ = [
    "BatchExpectation",
    "Expectation",
    "ExpectationSuite",
    "MetricConfiguration",
    "SparkDFExecutionEngine",
    "SqlAlchemyExecutionEngine",
    "TableMetricProvider",
    "get_context",
    "get_expectation_impl",
    "get_metric_kwargs",
    "identify_table",
    "metric_value",
]


def identify_table(engine: SqlAlchemyExecutionEngine, domain: Mapping[str, Any]) -> sql.Identifier:
    """Identify the table that a batch of Great Expectations was opened on."""
    data = engine.batch_manager.batch_data_cache[domain["batch_id"]]
    return sql.Identifier(*filter(None, (data.source_schema_name, data.source_table_name)))
