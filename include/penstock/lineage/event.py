"""The events of a published load or of a rollback: the start, and the end with everything that the ledger knows.

This module needs the package openlineage-python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    RunFacet,
    column_lineage_dataset,
    data_quality_assertions_dataset,
    documentation_job,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
)
from openlineage.client.uuid import generate_static_uuid

from penstock.declaration.carried import UPSERT_CARRIED, carried_columns
from penstock.declaration.columns import parse_type
from penstock.lineage.facts import Moved
from penstock.model.load import LoadState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.declaration.parts import Severity
    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.lineage.facts import Parent, Published
    from penstock.lineage.names import Place
    from penstock.model.load import Load

PRODUCER = "urn:penstock"
OFFSETS = "penstock_offsets"
SEVERITIES: dict[Severity, str] = {"error": "error", "warning": "warn", "info": "info"}
# The fields of a record that is not in its value.
RECORD = {"_partition": "partition", "_offset": "offset", "_timestamp": "timestamp", "_key": "key"}
WHOLE_VALUE = "value"


class Source(NamedTuple):
    """The place in a record that a column is read from, and whether its value stays as it is there."""

    field: str
    subtype: str


def make_events(facts: Published | Moved, namespace: str, parent: Parent | None) -> list[RunEvent]:
    """Make the start and the end. The same facts have the same run in both, however often they are made."""
    return _make_move(facts, namespace, parent) if isinstance(facts, Moved) else _make_load(facts, namespace, parent)


def _make_load(published: Published, namespace: str, parent: Parent | None) -> list[RunEvent]:
    load, times = published.load, published.times
    run_id = generate_static_uuid(times.planned_at, f"{published.table.uri} {load.load_id}".encode())
    offsets = _list_offsets(load, LoadState.PUBLISHED, published.ranges)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=load.rows, producer=PRODUCER
    )
    table = _describe_table(load.declaration, published.table, published.topic)
    table.outputFacets = {"outputStatistics": statistics}
    results = [_describe_result(load.declaration, *each, published.topic) for each in published.results]
    job = Job(namespace, f"penstock.{load.pipeline}", _describe_job(load.declaration))
    parents = _name_parent(parent)
    return [
        _make_event(state, at, Run(str(run_id), parents | facets), job, [_describe_topic(published)], [table, *results])
        for state, at, facets in (
            (RunState.START, times.planned_at, {}),
            (RunState.COMPLETE, times.published_at, {OFFSETS: offsets}),
        )
    ]


def _make_move(moved: Moved, namespace: str, parent: Parent | None) -> list[RunEvent]:
    """A rollback is a job of its own, because it reads no topic: the job of the loads keeps its input."""
    load, move = moved.load, moved.move
    run_id = generate_static_uuid(move.at, f"{moved.table.uri} event {move.event_id}".encode())
    facets = _name_parent(parent) | {OFFSETS: _list_offsets(load, load.state, moved.ranges)}
    table = _describe_table(load.declaration, moved.table)
    results = [_describe_result(load.declaration, *each) for each in moved.results]
    job = Job(namespace, f"penstock.{load.pipeline}.rollback", _describe_job(load.declaration))
    return [
        _make_event(state, move.at, Run(str(run_id), facets), job, [], [table, *results])
        for state in (RunState.START, RunState.COMPLETE)
    ]


def _make_event(
    state: RunState, at: datetime, run: Run, job: Job, inputs: list[InputDataset], outputs: list[OutputDataset]
) -> RunEvent:
    return RunEvent(
        eventTime=at.isoformat(), producer=PRODUCER, run=run, job=job, eventType=state, inputs=inputs, outputs=outputs
    )


def _describe_job(pipeline: Pipeline) -> dict[str, Any]:
    kind = job_type_job.JobTypeJobFacet("BATCH", "PENSTOCK", "JOB", producer=PRODUCER)
    if pipeline.description is None:
        return {"jobType": kind}
    purpose = documentation_job.DocumentationJobFacet(pipeline.description, producer=PRODUCER)
    return {"jobType": kind, "documentation": purpose}


def _name_parent(parent: Parent | None) -> dict[str, Any]:
    if parent is None:
        return {}
    job = parent_run.Job(parent.namespace, parent.job)
    return {"parent": parent_run.ParentRunFacet(parent_run.Run(parent.run), job, producer=PRODUCER)}


def _list_offsets(load: Load, state: LoadState, ranges: Sequence[Mapping[str, Any]]) -> RunFacet:
    """The offsets by partition, with the names of the JSON documents of the command line."""
    facet = RunFacet(producer=PRODUCER)
    return facet.with_additional_properties(load=load.load_id, kind=load.kind, state=str(state), ranges=list(ranges))


def _describe_topic(published: Published) -> InputDataset:
    """The topic. Its fields, and the columns of the assertions on it, are the places in a record."""
    load = published.load
    sources = _find_sources(load.declaration)
    places = dict.fromkeys(_find_fields(load.declaration))
    fields = [schema_dataset.SchemaDatasetFacetFields(place) for place in places]
    assertions = [
        data_quality_assertions_dataset.Assertion(
            each.expectation, each.success, _find_field(sources, each.column), SEVERITIES[each.severity]
        )
        for each in published.outcomes
    ]
    read = (load.rows or 0) + (load.quarantined or 0) + (load.filtered or 0)
    return InputDataset(
        published.topic.namespace,
        published.topic.name,
        inputFacets={
            "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                assertions, producer=PRODUCER
            ),
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=read, producer=PRODUCER
            ),
        },
        facets={"schema": schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)},
    )


def _describe_table(pipeline: Pipeline, table: Place, topic: Place | None = None) -> OutputDataset:
    return _describe_output(table, _find_types(pipeline), topic, _find_sources(pipeline))


def _describe_result(pipeline: Pipeline, table: Place, result: Result, topic: Place | None = None) -> OutputDataset:
    """The table of a result. Statements may do anything to a column, so only an upsert has the sources of columns.

    The columns of an upsert come from the target in the same transaction. They lead to the topic, the only input.
    """
    if result.mode == "sql":
        return _describe_output(table, {name: str(parse_type(type_)) for name, type_ in result.columns or ()})
    columns = {name: name for name in result.key} | dict(result.columns or ())
    known, places = _find_types(pipeline), _find_sources(pipeline)
    types = {name: known[source] for name, source in columns.items() if source in known}
    types |= {name: str(parse_type(type_)) for name, type_ in UPSERT_CARRIED.items()}
    columns |= {name: name for name in UPSERT_CARRIED}
    sources = {name: places[source] for name, source in columns.items() if source in places}
    return _describe_output(table, types, topic, sources)


def _describe_output(
    table: Place, types: Mapping[str, str], topic: Place | None = None, sources: Mapping[str, Source] | None = None
) -> OutputDataset:
    """A table with its columns, and the place in a record of the topic that each column is read from."""
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, type_, ordinal_position=place)
        for place, (name, type_) in enumerate(types.items(), start=1)
    ]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)}
    if topic is not None and sources:
        lineage = {name: column_lineage_dataset.Fields([_name_source(topic, at)]) for name, at in sources.items()}
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(lineage, producer=PRODUCER)
    return OutputDataset(table.namespace, table.name, facets=facets)


def _name_source(topic: Place, source: Source) -> column_lineage_dataset.InputField:
    how = column_lineage_dataset.Transformation("DIRECT", source.subtype)
    return column_lineage_dataset.InputField(topic.namespace, topic.name, source.field, [how])


def _find_field(sources: Mapping[str, Source], column: str | None) -> str | None:
    source = sources.get(column or "")
    return source and source.field


def _find_types(pipeline: Pipeline) -> dict[str, str]:
    declared = {column.name: str(column.type) for column in pipeline.columns}
    return declared | {column.name: str(column.type) for column in carried_columns(pipeline.key, pipeline.tombstones)}


def _find_sources(pipeline: Pipeline) -> dict[str, Source]:
    """Find the place in a record from which each column of the target is read."""
    known = pipeline.columns if pipeline.transform is None else ()  # a transform may make a column of any fields
    declared = {column.name: Source(".".join(column.path) or WHOLE_VALUE, "TRANSFORMATION") for column in known}
    carried = (column.name for column in carried_columns(pipeline.key, pipeline.tombstones))
    return declared | {name: Source(RECORD[name], "IDENTITY") for name in carried if name in RECORD}


def _find_fields(pipeline: Pipeline) -> list[str]:
    """Find the places in a record that the pipeline reads."""
    decoded = [".".join(column.path) or WHOLE_VALUE for column in pipeline.decoded]
    carried = (column.name for column in carried_columns(pipeline.key, pipeline.tombstones))
    return decoded + [RECORD[name] for name in carried if name in RECORD]
