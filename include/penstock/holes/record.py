"""What holes are, in the ledger: in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from psycopg.types.range import Int8Range

from penstock.holes.search import room

if TYPE_CHECKING:
    from penstock.holes.kinds import Naming
    from penstock.holes.search import Stretch
    from penstock.ledger.connection import Connection


def record_naming(connection: Connection, stretch: Stretch, naming: Naming) -> bool:
    """Record what the holes of a stretch are, in place of what was named there before.

    False if its load does not cover it any more: nothing is recorded then.
    """
    where = asdict(stretch)
    still = [Int8Range(found.from_offset, found.until_offset) for found in naming.unexplained]
    room.run(connection, "forget_naming", **where)
    room.run(connection, "forget_unexplained", **where, still=still)
    if room.run(connection, "record_naming", **where, **naming.counts).rowcount != 1:
        return False
    for found in naming.unexplained:
        place = {**where, "from_offset": found.from_offset, "until_offset": found.until_offset}
        room.run(connection, "record_unexplained", **place, why=found.why)
    return True
