"""The preview of a backfill by the samples in the ledger: no request is sent to Kafka, and nothing is written.

The plan of the backfill asks Kafka again and decides by its answers. A time is found by the times of whole loads here,
so a preview by time can name more offsets than the backfill will load.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import advice
from penstock.backfill.choice import Known, choose_gaps, choose_spans_of_time
from penstock.backfill.plan import Draft, PastLoad, choose_allowed, estimate_seconds, require_generation
from penstock.backfill.request import AllGaps, ByOffsets
from penstock.errors import WrongUseError
from penstock.ledger.backfill import find_first_offsets, read_durations, read_planned
from penstock.ledger.coverage import read_counted_gaps, read_covered_within
from penstock.ledger.generation import read_positions
from penstock.model.ranges import cut_loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.backfill.choice import Choice
    from penstock.backfill.request import ByTime, Request, Span
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.log import PartitionLog

# More loads than a person would start.
MOST_LOADS = 10_000


def preview_by_samples(
    connection: Connection,
    pipeline: Pipeline,
    pipeline_id: int | None,
    request: Request,
    log: Mapping[int, PartitionLog],
) -> Draft:
    """Draft a backfill by the sampled log and the counted gaps."""
    generation = require_generation(connection, pipeline, pipeline_id)
    positions = read_positions(connection, generation.generation_id)
    known = Known(
        log,
        {each.partition: each.position for each in positions},
        (),
        tuple(read_planned(connection, generation.pipeline_id, generation.generation_id)),
        (),
        {each.partition: each.origin for each in positions},
    )
    choice = _choose(connection, pipeline, generation.generation_id, request, known)
    per_load = request.offsets_per_load or pipeline.max_records_per_partition
    offsets = sum(map(len, choice.ranges))
    if offsets > per_load * MOST_LOADS:
        raise WrongUseError(
            f"{offsets:,} offsets in loads of {per_load:,} are more than {MOST_LOADS:,} loads.",
            pipeline=pipeline.name,
            next_step=advice.CHOOSE_BIGGER_LOADS,
        )
    loads = tuple(cut_loads(list(choice.ranges), per_load))
    past = [PastLoad(each.offsets, each.seconds) for each in read_durations(connection, generation.pipeline_id)]
    seconds = estimate_seconds(past, [sum(map(len, ranges)) for ranges in loads])
    return Draft(pipeline.name, generation.generation_id, choice, loads, seconds)


def _choose(
    connection: Connection,
    pipeline: Pipeline,
    generation_id: int,
    request: Request,
    known: Known,
) -> Choice:
    if isinstance(request.selection, AllGaps):
        gaps = tuple(read_counted_gaps(connection, pipeline.name))
        return choose_gaps(replace(known, gaps=gaps))
    spans = _find_spans(connection, generation_id, request.selection, known)
    covered = tuple(
        read_covered_within(
            connection, generation_id, [(each.partition, each.from_offset, each.until_offset) for each in spans]
        )
    )
    return choose_allowed(pipeline, spans, replace(known, covered=covered), replacing=request.replace)


def _find_spans(connection: Connection, generation_id: int, selection: ByOffsets | ByTime, known: Known) -> list[Span]:
    if isinstance(selection, ByOffsets):
        return list(selection.spans)
    starts = find_first_offsets(connection, generation_id, selection.since)
    ends = find_first_offsets(connection, generation_id, selection.until) if selection.until else {}
    return choose_spans_of_time(starts, ends, known)
