"""The coverage map as a document: which offsets of the log the table holds, and why it does not hold the others."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, get_args

from penstock.airflow.page.documents import Axis, Cell, Coverage, LegendEntry, PartitionMap
from penstock.airflow.page.loads import count_pages
from penstock.ledger.coverage_map import count_unexplained, find_times, place_quarantined, read_pieces, sum_cells
from penstock.ledger.generation import read_newest_generation
from penstock.ledger.overview import read_overviews, read_partitions
from penstock.model.coverage_map import MOST_CELLS, Covered, Extent, Kind, Reason, cut_cells, fill_cells, merge_cells

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
    cells: dict[int, list[FilledCell]] = {}
    covered: list[CoveredCell] = []
    if generation and pipeline_id is not None:
        covered = sum_cells(connection, generation.generation_id, starts)
        wide = [each for each in covered if each.first_cell < each.last_cell and 0 < each.quarantined <= MOST_PLACED]
        placed = place_quarantined(connection, starts, wide)
        pieces = read_pieces(connection, pipeline_id, generation.generation_id, list(extents))
        cells = _fill(extents, starts, covered, pieces, placed)
    else:
        cells = {number: fill_cells(extent, starts[number], (), (), {}) for number, extent in extents.items()}
    legend = _sum_legend(cells.values(), covered)
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


def _fill(
    extents: Mapping[int, Extent],
    starts: Mapping[int, Sequence[int]],
    covered: Iterable[CoveredCell],
    pieces: Iterable[Piece],
    placed: Mapping[tuple[int, int], Mapping[int, int]],
) -> dict[int, list[FilledCell]]:
    ranges: dict[int, list[Covered]] = {number: [] for number in extents}
    reasons: dict[int, list[Reason]] = {number: [] for number in extents}
    places: dict[int, dict[int, Mapping[int, int]]] = {number: {} for number in extents}
    for each in covered:
        ranges[each.partition].append(
            Covered(
                first_cell=each.first_cell,
                last_cell=each.last_cell,
                from_offset=each.from_offset,
                until_offset=each.until_offset,
                offsets=each.offsets,
                rows=each.rows,
                quarantined=each.quarantined,
                holes=each.holes,
                first_load=each.first_load,
                last_load=each.last_load,
                ranges=each.ranges,
            )
        )
    for piece in pieces:
        reason = Reason(piece.kind, piece.from_offset, piece.until_offset, piece.load_id)
        reasons[piece.partition].append(reason)
    for (partition, from_offset), by_cell in placed.items():
        places[partition][from_offset] = by_cell
    return {
        number: fill_cells(extent, starts[number], ranges[number], reasons[number], places[number])
        for number, extent in extents.items()
    }


def _sum_legend(cells: Iterable[Sequence[FilledCell]], covered: Sequence[CoveredCell]) -> Counter[Kind]:
    """Sum the offsets by kind. Rows, quarantined records and holes are those of the ledger."""
    legend: Counter[Kind] = Counter()
    for filled in cells:
        for cell in filled:
            legend.update(cell.counts)
    legend["published"] = sum(each.rows for each in covered)
    legend["quarantined"] = sum(each.quarantined for each in covered)
    legend["hole"] = sum(each.holes for each in covered) - legend["unexplained_hole"]
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
                count=cell.counts[cell.kind],
                load=cell.load,
                loads=cell.loads,
                detail=cell.describe(),
                from_time=begins[number] if begins else None,
                until_time=begins[number + 1] if begins else None,
            )
            for number, cell in enumerate(shown)
        ],
    )
