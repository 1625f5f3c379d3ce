"""Great Expectations, imported in one place.

It warns of deprecations of its own while it is imported. They say nothing about Penstock, and would end a process that
takes warnings for errors.

Its import takes seconds, a part of which the garbage collector spends on objects that live as long as the process.
"""

from __future__ import annotations

import gc
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    from great_expectations.execution_engine import SqlAlchemyExecutionEngine
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metrics.metric_provider import metric_value
    from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
    from great_expectations.expectations.registry import get_expectation_impl

ExpectationSuite = great_expectations.ExpectationSuite
get_context = great_expectations.get_context

__all__ = [
    "BatchExpectation",
    "ExpectationSuite",
    "SqlAlchemyExecutionEngine",
    "TableMetricProvider",
    "get_context",
    "get_expectation_impl",
    "metric_value",
]
