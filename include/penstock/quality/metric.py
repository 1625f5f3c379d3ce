"""The counts of an attempt as a metric, which all built-in expectations of a suite judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.quality.asking import begin, find_counts
from penstock.quality.counts import AttemptCounts, count_attempt
from penstock.quality.gx import SqlAlchemyExecutionEngine, TableMetricProvider, identify_table, metric_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

STAGED_COUNTS = "penstock.staged_counts"


class StagedCounts(TableMetricProvider):  # type: ignore[misc]
    """The counts of every partition of the batch, as a future of AttemptCounts.

    The validate step has begun to count with the loader's rights, because the role of the checks cannot read the
    ledger. In another suite the connection of the batch counts.
    """

    metric_name = STAGED_COUNTS
    value_keys = ("load_id", "attempt")

    @metric_value(engine=SqlAlchemyExecutionEngine)  # type: ignore[untyped-decorator]
    def _count(
        cls,  # noqa: N805
        execution_engine: SqlAlchemyExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],  # noqa: ARG002
        runtime_configuration: dict[str, Any],  # noqa: ARG002
    ) -> Future[AttemptCounts]:
        counts = find_counts()
        if counts is not None:
            return counts
        load_id, attempt = metric_value_kwargs["load_id"], metric_value_kwargs["attempt"]
        table = identify_table(execution_engine, metric_domain_kwargs)
        with execution_engine.get_connection() as connection:

            def ask(statement: str, values: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
                return list(connection.exec_driver_sql(statement, dict(values)).mappings())

            return begin(lambda: count_attempt(ask, table, load_id, attempt))
