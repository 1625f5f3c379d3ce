"""The events of a published load: its start, and its end with everything that the ledger knows about the load.

This module needs the package openlineage-python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

from penstock.declaration.carried import carried_columns

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.declaration.parts import Severity
    from penstock.declaration.pipeline import Pipeline
    from penstock.lineage.facts import Parent, Published
    from penstock.lineage.names import Place

PRODUCER = "urn:penstock"
OFFSETS = "penstock_offsets"
SEVERITIES: dict[Severity, str] = {"error": "error", "warning": "warn", "info": "info"}
# The fields of a record that is not in its value.
RECORD = {"_partition": "partition", "_offset": "offset", "_timestamp": "timestamp", "_key": "key"}
WHOLE_VALUE = "value"


def make_events(published: Published, namespace: str, parent: Parent | None) -> list[RunEvent]:
    """Make the start and the end. The same load has the same run in both, however often they are made."""
    load = published.load
    run_id = generate_static_uuid(published.times.planned_at, f"{published.table.uri} {load.load_id}".encode())
    job = Job(namespace, f"penstock.{load.pipeline}", _describe_job(load.declaration))
    ends: tuple[tuple[RunState, datetime, dict[str, Any]], ...] = (
        (RunState.START, published.times.planned_at, {}),
        (RunState.COMPLETE, published.times.published_at, {OFFSETS: _list_offsets(published)}),
    )
    parents = {"parent": _name_parent(parent)} if parent else {}
    return [
        RunEvent(
            eventTime=at.isoformat(),
            producer=PRODUCER,
            run=Run(str(run_id), {**parents, **facets}),
            job=job,
            eventType=state,
            inputs=[_describe_topic(published)],
            outputs=[_describe_table(published)],
        )
        for state, at, facets in ends
    ]


def _describe_job(pipeline: Pipeline) -> dict[str, Any]:
    kind = job_type_job.JobTypeJobFacet("BATCH", "PENSTOCK", "JOB", producer=PRODUCER)
    if pipeline.description is None:
        return {"jobType": kind}
    purpose = documentation_job.DocumentationJobFacet(pipeline.description, producer=PRODUCER)
    return {"jobType": kind, "documentation": purpose}


def _name_parent(parent: Parent) -> parent_run.ParentRunFacet:
    job = parent_run.Job(parent.namespace, parent.job)
    return parent_run.ParentRunFacet(parent_run.Run(parent.run), job, producer=PRODUCER)


def _list_offsets(published: Published) -> RunFacet:
    """The offsets by partition, with the names of the JSON documents of the command line."""
    load = published.load
    facet = RunFacet(producer=PRODUCER)
    return facet.with_additional_properties(load=load.load_id, kind=load.kind, ranges=list(published.ranges))


def _describe_topic(published: Published) -> InputDataset:
    """The topic. Its fields, and the columns of the assertions on it, are the places in a record."""
    load = published.load
    sources = _find_sources(load.declaration)
    fields = [schema_dataset.SchemaDatasetFacetFields(field) for field in dict.fromkeys(sources.values())]
    assertions = [
        data_quality_assertions_dataset.Assertion(
            each.expectation, each.success, each.column and sources.get(each.column), SEVERITIES[each.severity]
        )
        for each in published.outcomes
    ]
    read = (load.rows or 0) + (load.quarantined or 0)
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


def _describe_table(published: Published) -> OutputDataset:
    pipeline = published.load.declaration
    types = {column.name: str(column.type) for column in pipeline.columns}
    types |= {column.name: str(column.type) for column in carried_columns(pipeline.key, pipeline.tombstones)}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, type_, ordinal_position=place)
        for place, (name, type_) in enumerate(types.items(), start=1)
    ]
    sources = {
        name: column_lineage_dataset.Fields(
            [_name_source(published.topic, field, "IDENTITY" if name in RECORD else "TRANSFORMATION")]
        )
        for name, field in _find_sources(pipeline).items()
    }
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=published.load.rows, producer=PRODUCER
    )
    return OutputDataset(
        published.table.namespace,
        published.table.name,
        outputFacets={"outputStatistics": written},
        facets={
            "schema": schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(sources, producer=PRODUCER),
        },
    )


def _name_source(topic: Place, field: str, subtype: str) -> column_lineage_dataset.InputField:
    how = column_lineage_dataset.Transformation("DIRECT", subtype)
    return column_lineage_dataset.InputField(topic.namespace, topic.name, field, [how])


def _find_sources(pipeline: Pipeline) -> dict[str, str]:
    """Find the place in a record from which each column of the target is read."""
    declared = {column.name: ".".join(column.path) or WHOLE_VALUE for column in pipeline.columns}
    carried = (column.name for column in carried_columns(pipeline.key, pipeline.tombstones))
    return declared | {name: RECORD[name] for name in carried if name in RECORD}
