"""The figures of the ledger as data of OpenTelemetry.

The points are made here, without a meter: a meter of a process that lives for a second would begin each counter again.
This module needs the package opentelemetry-sdk.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from penstock.metrics.instruments import DURATION, INSTRUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.ledger.total import Durations, Value

CUMULATIVE = AggregationTemporality.CUMULATIVE


def make_data(values: Sequence[Value], durations: Sequence[Durations], at: datetime) -> MetricsData:
    """Make the data of one export. The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES name the resource."""
    resource = Resource({SERVICE_NAME: "penstock"}).merge(OTELResourceDetector().detect())
    known = {each.name: each for each in INSTRUMENTS}
    metrics = [
        Metric(name, known[name].meaning, known[name].unit, _make_numbers(list(some), at))
        for name, some in groupby(values, key=lambda each: each.name)
    ]
    if durations:
        points = [_make_histogram(each, at) for each in durations]
        metrics.append(Metric(DURATION.name, DURATION.meaning, DURATION.unit, Histogram(points, CUMULATIVE)))
    scope = ScopeMetrics(InstrumentationScope("penstock"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _make_numbers(values: Sequence[Value], at: datetime) -> Sum | Gauge:
    points = [
        NumberDataPoint({"pipeline": each.pipeline}, _to_nanoseconds(each.since), _to_nanoseconds(at), each.value)
        for each in values
    ]
    if values[0].kind == "gauge":
        return Gauge(points)
    return Sum(points, CUMULATIVE, is_monotonic=True)


def _make_histogram(durations: Durations, at: datetime) -> HistogramDataPoint:
    return HistogramDataPoint(
        {"pipeline": durations.pipeline, "phase": durations.phase},
        _to_nanoseconds(durations.since),
        _to_nanoseconds(at),
        durations.loads,
        durations.seconds,
        list(durations.buckets),
        list(durations.bounds),
        min=None,  # the ledger does not keep the shortest and the longest
        max=None,
    )


def _to_nanoseconds(at: datetime | None) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000 if at else 0
