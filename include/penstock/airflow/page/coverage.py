"""The coverage map as a document: which offsets of the log the table holds, and why it does not hold the others."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, get_args

from penstock.airflow.page.documents import Axis, Cell, Coverage, LegendEntry, PartitionMap
from penstock.airflow.page.loads import count_pages
from penstock.ledger.coverage_map import (
    count_unexplained,
    find_times,
    place_quarantined,
    read_pieces,
    read_ranges_at,
    sum_cells,
)
from penstock.ledger.generation import read_newest_generation
from penstock.ledger.overview import read_overviews, read_partitions
from penstock.model.coverage_map import (
    MOST_CELLS,
    Extent,
    Fitted,
    Kind,
    Reason,
    Sums,
    add_known,
    cut_cells,
    fill_cells,
    fit_cells,
    merge_cells,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.ledger.connection import Connection
    from penstock.ledger.coverage_map import CoveredCell, Piece, TimeOfOffset
    from penstock.ledger.overview import PartitionRow
    from penstock.model.coverage_map import Cell as FilledCell

PARTITIONS_A_PAGE = 25
# The places of more quarantined records of one range are shared out and not looked up.
MOST_PLACED = 10_000
SQL = (
    "select 'covered' as kind, partition, from_offset, until_offset, load_id from penstock.covered "
    "where pipeline = '{name}' union all select 'gap', partition, from_offset, until_offset, null from penstock.gaps "
    "where pipeline = '{name}' union all select 'lost', partition, from_offset, until_offset, null "
    "from penstock.losses where pipeline = '{name}' order by partition, from_offset;"
)


def describe_coverage(connection: Connection, name: str, pipeline_id: int | None, axis: Axis, page: int) -> Coverage:
    """Describe a page of the map."""
    rows = read_partitions(connection, name)
    sample = read_overviews(connection, [name])[name]
    generation = None if pipeline_id is None else read_newest_generation(connection, pipeline_id)
    unexplained = count_unexplained(connection, generation.generation_id) if generation else {}
    rows.sort(key=lambda row: (-unexplained.get(row.partition, 0), -row.gaps, -(row.lag or 0), row.partition))
    shown = rows[(page - 1) * PARTITIONS_A_PAGE : page * PARTITIONS_A_PAGE]
    extents = {row.partition: _measure(row) for row in shown}
    times: dict[int, list[datetime]] = {}
    starts = {number: cut_cells(extent) for number, extent in extents.items()}
    if axis == "time" and generation and pipeline_id is not None:
        known = find_times(connection, pipeline_id, generation.generation_id, list(extents))
        starts, times = cut_by_time(extents, known, sample.answered_at or sample.now)
    fitted: dict[int, Fitted] = {number: fit_cells(extent, starts[number], ()) for number, extent in extents.items()}
    pieces: Sequence[Piece] = ()
    placed: Mapping[tuple[int, int], Mapping[int, int]] = {}
    if generation and pipeline_id is not None:
        fitted = _fit(connection, generation.generation_id, extents, starts)
        placed = _place(connection, fitted)
        pieces = read_pieces(connection, pipeline_id, generation.generation_id, list(extents))
    cells = _fill(extents, starts, fitted, pieces, placed)
    legend = _sum_legend(cells.values(), fitted.values())
    return Coverage(
        axis=axis,
        page=page,
        pages=count_pages(len(rows), PARTITIONS_A_PAGE),
        partitions=[_describe(row, extents[row.partition], cells[row.partition], times, axis) for row in shown],
        legend=[LegendEntry(kind=kind, offsets=legend[kind]) for kind in get_args(Kind)],
        total=sum(map(len, extents.values())),
        sampled_at=sample.answered_at,
        sql=SQL.format(name=name),
    )


def _measure(row: PartitionRow) -> Extent:
    position = row.position if row.position is not None else row.log_start or 0
    origin = position if row.origin is None else row.origin
    return Extent(
        partition=row.partition,
        first=min(origin, position),
        position=position,
        log_start=row.log_start,
        end=max(position, row.log_end or position),
    )


def cut_by_time(
    extents: Mapping[int, Extent], known: Sequence[TimeOfOffset], now: datetime
) -> tuple[dict[int, list[int]], dict[int, list[datetime]]]:
    """Cut partitions into cells of equal time; the cells' first offsets, and their begins.

    Between two known offsets the offsets are shared out evenly. A record that is older than one before it does not move
    a cell back.
    """
    points: dict[int, list[tuple[datetime, int]]] = {number: [] for number in extents}
    for each in known:
        before = points[each.partition]
        if not before or (each.at > before[-1][0] and each.offset > before[-1][1]):
            before.append((each.at, each.offset))
    began = min((found[0][0] for found in points.values() if found), default=now)
    step = max((now - began) / (MOST_CELLS - 2), timedelta(seconds=1))
    moments = [began + number * step for number in range(MOST_CELLS - 2) if began + number * step < now]
    starts, times = {}, {}
    for number, extent in extents.items():
        found = [*points[number], (max(now, began + step), extent.end)]
        starts[number] = cut_cells(extent, [_find_offset(found, moment) for moment in moments])
        times[number] = [_find_time(found, offset) for offset in [*starts[number], extent.end]]
    return starts, times


def _find_offset(points: Sequence[tuple[datetime, int]], moment: datetime) -> int:
    place = bisect_right(points, moment, key=lambda point: point[0])
    if place == 0:
        return points[0][1]
    if place == len(points):
        return points[-1][1]
    (began, start), (ended, end) = points[place - 1], points[place]
    return start + int((end - start) * ((moment - began) / (ended - began)))


def _find_time(points: Sequence[tuple[datetime, int]], offset: int) -> datetime:
    place = bisect_right(points, offset, key=lambda point: point[1])
    if place in (0, len(points)):
        return points[min(place, len(points) - 1)][0]
    (began, start), (ended, end) = points[place - 1], points[place]
    return began + (ended - began) * ((offset - start) / (end - start))


def _fit(
    connection: Connection, generation_id: int, extents: Mapping[int, Extent], starts: Mapping[int, Sequence[int]]
) -> dict[int, Fitted]:
    """Sum the coverage by cells, and find the ranges of several cells."""
    sums: dict[int, list[Sums]] = {number: [] for number in extents}
    for each in sum_cells(connection, generation_id, {number: found for number, found in starts.items() if found}):
        sums[each.partition].append(_to_sums(each))
    fitted = {number: fit_cells(extent, starts[number], sums[number]) for number, extent in extents.items()}
    places = [(number, cell, offset) for number, each in fitted.items() for cell, offset in each.unknown]
    found: dict[int, list[Sums]] = {}
    for each in read_ranges_at(connection, generation_id, places):
        found.setdefault(each.partition, []).append(_to_sums(each))
    return fitted | {number: add_known(fitted[number], ranges) for number, ranges in found.items()}


def _to_sums(cell: CoveredCell) -> Sums:
    return Sums(
        cell.cell,
        cell.from_offset,
        cell.until_offset,
        cell.offsets,
        cell.rows,
        cell.quarantined,
        cell.holes,
        cell.first_load,
        cell.last_load,
        cell.ranges,
        cell.filtered,
    )


def _place(connection: Connection, fitted: Mapping[int, Fitted]) -> dict[tuple[int, int], dict[int, int]]:
    """Find the cells of the quarantined records of ranges of several cells."""
    wide = [
        (each.first_load, number, each.from_offset, each.until_offset)
        for number, cells in fitted.items()
        for each in cells.wide
        if 0 < each.quarantined <= MOST_PLACED
    ]
    found = place_quarantined(connection, {number: each.starts for number, each in fitted.items()}, wide)
    # A range all of whose records are in cells that were found is placed, also if some cells have none.
    return {(number, start): found.get((number, start), {}) for _, number, start, _ in wide}


def _fill(
    extents: Mapping[int, Extent],
    starts: Mapping[int, Sequence[int]],
    fitted: Mapping[int, Fitted],
    pieces: Iterable[Piece],
    placed: Mapping[tuple[int, int], Mapping[int, int]],
) -> dict[int, list[FilledCell]]:
    reasons: dict[int, list[Reason]] = {number: [] for number in extents}
    places: dict[int, dict[int, Mapping[int, int]]] = {number: {} for number in extents}
    for piece in pieces:
        reason = Reason(piece.kind, piece.from_offset, piece.until_offset, piece.load_id)
        reasons[piece.partition].append(reason)
    for (partition, from_offset), by_cell in placed.items():
        places[partition][from_offset] = by_cell
    return {
        number: fill_cells(extent, starts[number], fitted[number], reasons[number], places[number])
        for number, extent in extents.items()
    }


def _sum_legend(cells: Iterable[Sequence[FilledCell]], fitted: Iterable[Fitted]) -> Counter[Kind]:
    """Sum the offsets by kind. Rows, quarantined and filtered records and holes are those of the ledger."""
    legend: Counter[Kind] = Counter()
    for filled in cells:
        for cell in filled:
            legend.update(cell.counts)
    ranges = [each for cells_ in fitted for each in (*cells_.narrow, *cells_.wide)]
    legend["published"] = sum(each.rows for each in ranges)
    legend["quarantined"] = sum(each.quarantined for each in ranges)
    legend["filtered"] = sum(each.filtered for each in ranges)
    legend["hole"] = sum(each.holes for each in ranges) - legend["unexplained_hole"]
    return legend


def _describe(
    row: PartitionRow,
    extent: Extent,
    cells: Sequence[FilledCell],
    times: Mapping[int, Sequence[datetime]],
    axis: Axis,
) -> PartitionMap:
    shown = list(cells) if axis == "time" else merge_cells(cells)
    begins = times.get(row.partition)
    return PartitionMap(
        partition=row.partition,
        from_=extent.first,
        until=extent.end,
        log_start=row.log_start,
        lag=row.lag,
        position=extent.position,
        cells=[
            Cell(
                from_=cell.from_offset,
                until=cell.until_offset,
                kind=cell.kind,
                count=cell.counts.get(cell.kind, 0),
                load=cell.load,
                loads=cell.loads,
                detail=cell.describe(),
                from_time=begins[number] if begins else None,
                until_time=begins[number + 1] if begins else None,
            )
            for number, cell in enumerate(shown)
        ],
    )
