"""A loader as people write it, to be started and killed: read, insert, commit offsets, in this or that order.

    python plain_loader.py commit_first|insert_first <bootstrap servers> <topic>

The database is told by PENSTOCK_DB; rows go into the table public.orders.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import psycopg

from plain_consumer import open_consumer, read_ids, read_to_end

if TYPE_CHECKING:
    from collections.abc import Sequence


def load(db: str, order: str, bootstrap: str, topic: str) -> None:
    """Load what the group has not read yet."""
    # A member with a name of its own takes its place back after a crash, without waiting for its session to end.
    consumer = open_consumer(bootstrap, f"{topic} loaders", group_instance_id="1", auto_offset_reset="earliest")
    consumer.subscribe([topic])
    ids = read_ids(read_to_end(consumer))
    if order == "commit_first":
        consumer.commit(asynchronous=False)
        insert(db, ids)
    else:
        insert(db, ids)
        consumer.commit(asynchronous=False)
    consumer.close()


def insert(db: str, ids: Sequence[int]) -> None:
    """Insert in one transaction."""
    with psycopg.connect(db) as connection:
        connection.cursor().executemany("insert into public.orders values (%s)", [(id_,) for id_ in ids])


if __name__ == "__main__":
    load(os.environ["PENSTOCK_DB"], *sys.argv[1:4])
