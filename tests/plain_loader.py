"""A plain loader that tests start and kill: it reads, inserts and commits offsets, in one of two orders.

    python plain_loader.py commit_first|insert_first <bootstrap servers> <topic>

PENSTOCK_DB names the database; the rows go into the table public.orders.
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
    """Load the records that the group has not read yet."""
    # A static member gets its partitions back after a crash, without waiting for the end of its session.
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
