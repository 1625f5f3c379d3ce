"""Coverage: which published load holds which offsets, and how ranges change hands, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.errors import FencedError, name_ranges
from penstock.ledger.statements import Room
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from decimal import Decimal

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

run = Room("ledger/coverage").run


def cover_ranges(connection: Connection, load: Load) -> None:
    """Cover the ranges of a load; offsets that any load covers already refuse it."""
    try:
        run(connection, "cover_ranges", load_id=load.load_id)
    except psycopg.errors.ExclusionViolation as error:  # its detail names offsets, and no value of a row
        raise FencedError(
            f"offsets of this load are published already ({error.diag.message_detail}); nothing of it is published.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.SEE_COVERED,
        ) from error


def set_aside(connection: Connection, load: Load) -> list[Range]:
    """Uncover all that a load holds, and keep it for an undo."""
    rows = run(connection, "set_aside", load_id=load.load_id).fetchall()
    return sorted(Range(**row) for row in rows)


def bring_back(connection: Connection, load: Load) -> list[Range]:
    """Cover again what was set aside, unless another load has brought some of it meanwhile."""
    brought = run(connection, "find_brought_again", load_id=load.load_id).fetchall()
    if brought:
        named = [
            f"{Range(row['partition'], row['from_offset'], row['until_offset'])} by load {row['load_id']}"
            for row in brought
        ]
        raise FencedError(
            f"some of its offsets have been loaded again meanwhile: {name_ranges(named, between=', ')}. It stays out "
            "as a whole.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.fill_rest_or_roll_back(load.pipeline),
        )
    rows = run(connection, "bring_back", load_id=load.load_id).fetchall()
    return sorted(Range(**row) for row in rows)


def cover_rest(connection: Connection, load_id: int, range_: Range, rows: int, row_hash: Decimal) -> None:
    """Cover a piece that a load keeps of a range, with the number and the hash of the piece's rows."""
    run(connection, "cover_rest", load_id=load_id, **asdict(range_), rows=rows, row_hash=row_hash)


def read_gaps(connection: Connection, pipeline: str, generation_id: int) -> list[Range]:
    """What lies below the positions of a generation and is neither covered nor lost."""
    return [Range(**row) for row in run(connection, "read_gaps", pipeline=pipeline, generation_id=generation_id)]
