"""The base of all expectations on the data: a query that finds the wrong records, and results by partition.

An expectation writes one query whose rows are the wrong records. Penstock counts the findings of all partitions and
takes some of their offsets in the same statement. No value of a row leaves the database.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import defaultdict
from contextlib import closing
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.quality.asking import begin, run_now
from penstock.quality.data.batch import DataBatch, PostgresBatch, SparkBatch
from penstock.quality.gx import (
    BatchExpectation,
    Expectation,
    MetricConfiguration,
    SparkDFExecutionEngine,
    SqlAlchemyExecutionEngine,
    TableMetricProvider,
    get_expectation_impl,
    get_metric_kwargs,
    identify_table,
    metric_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from great_expectations.execution_engine import ExecutionEngine
    from great_expectations.render.renderer_configuration import RendererConfiguration
    from great_expectations.validator.validation_dependencies import ValidationDependencies

FINDINGS = "penstock.findings"
MOST_PLACES = 10

Finding = dict[str, Any]


class FindingsMetric(TableMetricProvider):  # type: ignore[misc]
    """The findings of one expectation in a batch, on either engine, as a future."""

    metric_name = FINDINGS
    value_keys = ("expectation", "arguments")

    @metric_value(engine=SqlAlchemyExecutionEngine)  # type: ignore[untyped-decorator]
    def _ask_postgresql(
        cls,  # noqa: N805
        execution_engine: SqlAlchemyExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],  # noqa: ARG002
        runtime_configuration: dict[str, Any],  # noqa: ARG002
    ) -> Future[list[Finding]]:
        identifier = identify_table(execution_engine, metric_domain_kwargs)

        def ask() -> list[Finding]:
            with execution_engine.get_connection() as connection:
                return _ask(PostgresBatch(connection, identifier), metric_value_kwargs)

        return begin(ask)

    @metric_value(engine=SparkDFExecutionEngine)  # type: ignore[untyped-decorator]
    def _ask_spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],  # noqa: ARG002
        runtime_configuration: dict[str, Any],  # noqa: ARG002
    ) -> Future[list[Finding]]:
        data = execution_engine.batch_manager.batch_data_cache[metric_domain_kwargs["batch_id"]]
        with closing(SparkBatch(data.dataframe)) as batch:
            return run_now(lambda: _ask(batch, metric_value_kwargs))


def _ask(batch: DataBatch, question: Mapping[str, Any]) -> list[Finding]:
    expectation = get_expectation_impl(question["expectation"])(**json.loads(question["arguments"]))
    return list(batch.ask(expectation.write_query(batch)))


class DataExpectation(BatchExpectation):  # type: ignore[misc]
    """An expectation on the data of a batch. Its arguments are fields, as in every model of Great Expectations."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    # A sentence about the expectation, with $argument where an argument stands.
    sentence: ClassVar[str]

    @abstractmethod
    def write_query(self, batch: DataBatch) -> str:
        """Write the one query of this expectation."""

    @abstractmethod
    def judge(self, found: Sequence[Finding]) -> dict[str, Any]:
        """Judge the rows of the query; the result is that of `_validate`."""

    def arguments(self) -> dict[str, Any]:
        """The arguments, as plain values: without those of every expectation of Great Expectations."""
        own = set(type(self).__fields__) - set(BatchExpectation.__fields__)
        return {name: getattr(self, name) for name in sorted(own)}

    def get_validation_dependencies(
        self,
        execution_engine: ExecutionEngine | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> ValidationDependencies:
        """Name the metric, with this expectation as its question."""
        needed = Expectation.get_validation_dependencies(self, execution_engine, runtime_configuration)
        domain = get_metric_kwargs(FINDINGS, self.configuration, runtime_configuration)["metric_domain_kwargs"]
        question = {"expectation": self.expectation_type, "arguments": json.dumps(self.arguments())}
        needed.set_metric_configuration(FINDINGS, MetricConfiguration(FINDINGS, domain, question))
        return needed

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,  # noqa: ARG002
        execution_engine: ExecutionEngine | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        return self.judge(metrics[FINDINGS].result())

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration) -> RendererConfiguration:
        for name, value in renderer_configuration.kwargs.items():
            if f"${name}" in cls.sentence:
                renderer_configuration.add_param(name=name, value=value)
        renderer_configuration.template_str = cls.sentence
        return renderer_configuration


class RecordExpectation(DataExpectation):
    """An expectation that finds wrong records, and judges each partition by itself."""

    # For each kind of finding: the names of its greatest and of its summed size; None if they say nothing.
    kinds: ClassVar[dict[str, tuple[str | None, str | None]]]

    @abstractmethod
    def find(self, batch: DataBatch) -> str:
        """Write the common table expressions of which `found` is the last.

        `found` has a row for each wrong record: `_partition`, `_offset`, `kind`, `size`, and the place of the record
        that it is compared with, `other_partition` and `other_offset`. The last three may be null.
        """

    def write_query(self, batch: DataBatch) -> str:
        """Count the findings of each partition and kind, and take the places of the first ones."""
        return (
            f"with {self.find(batch)}, ranked as ("
            "select found.*, count(*) over all_of_kind as records, max(size) over all_of_kind as worst,"
            " sum(size) over all_of_kind as total,"
            " row_number() over (partition by _partition, kind order by _offset) as place"
            " from found window all_of_kind as (partition by _partition, kind)) "
            "select _partition, _offset, kind, other_partition, other_offset, records, worst, total from ranked"
            f" where place <= {MOST_PLACES} order by _partition, _offset, kind"
        )

    def judge(self, found: Sequence[Finding]) -> dict[str, Any]:
        """Sum up the findings, for each partition and for the batch."""
        by_partition: dict[int, list[Finding]] = defaultdict(list)
        for row in found:
            by_partition[row["_partition"]].append(row)
        partitions = [
            {"partition": partition, "success": False, "observed": self._observe(rows)}
            for partition, rows in by_partition.items()
        ]
        observed = self._observe(found) | {"partitions": len(partitions)}
        details = {"observed": observed, "partitions": partitions}
        return {"success": not found, "result": {"observed_value": _in_words(observed), "details": details}}

    def _observe(self, rows: Sequence[Finding]) -> dict[str, Any]:
        observed: dict[str, Any] = {}
        for kind, (worst, total) in self.kinds.items():
            # A group of one partition and kind has several places, and each place repeats the figures of its group.
            groups = {(row["_partition"], row["kind"]): row for row in rows if row["kind"] == kind}.values()
            observed[kind] = sum(row["records"] for row in groups)
            if groups and worst:
                observed[worst] = _plain(max(row["worst"] for row in groups))
            if groups and total:
                observed[total] = _plain(sum(row["total"] for row in groups))
        places = [_place(row) for row in rows[:MOST_PLACES]]
        return observed | ({"places": places} if places else {})


class HistoryExpectation(RecordExpectation):
    """An expectation that compares the batch with another table too: with the rows of earlier loads.

    `since_load` is the first load whose rows count. A load that replaces rows is not compared with these rows: they are
    in the ranges `replaced` (partition, first offset, end), and came with load `replaced_since` or a later one.
    """

    history: str | None = None
    since_load: int = 0
    replaced: tuple[tuple[int, int, int], ...] | None = None
    replaced_since: int = 0

    def read_history(self, batch: DataBatch) -> str:
        """The rows that the batch is compared with, as a relation."""
        table = batch.history(self.history or "")
        if not self.replaced:
            return table
        places = ", ".join(f"({partition}, {first}, {end})" for partition, first, end in self.replaced)
        return (
            f"(select * from {table} old where not exists (select 1 from"
            f" (values {places}) as replaced (partition_number, first_offset, end_offset)"
            f" where old._partition = partition_number and old._offset >= first_offset and old._offset < end_offset"
            f" and old._load_id >= {self.replaced_since}))"
        )

    def write_window(self) -> str:
        """The condition on rows of a history `h`; none for all rows, because an index may not hold the column."""
        return f" and h._load_id >= {self.since_load}" if self.since_load else ""


def _place(row: Finding) -> dict[str, Any]:
    place = {"partition": row["_partition"], "offset": row["_offset"], "kind": row["kind"]}
    if row["other_partition"] is not None:
        place["other"] = [row["other_partition"], row["other_offset"]]
    return place


def _plain(number: Any) -> float | int | str:  # noqa: ANN401 - a Decimal or a number, by the engine and the column's type
    if not isfinite(number):
        return str(number)
    return int(number) if number == int(number) else float(number)


def _in_words(observed: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in observed.items() if name != "places")
