"""Reading a share of a load's chunks a second time, before the load is published, for `expect_same_when_read_again`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from penstock.declaration.own_expectations import READ_AGAIN
from penstock.kafka.readers.contract import Source
from penstock.ledger.connection import open_ledger
from penstock.ledger.history import record_second_reading
from penstock.ledger.verification import find_chunks_of_attempt
from penstock.verify.chunks import choose_share
from penstock.verify.reread import Request, read_natively, try_reading

if TYPE_CHECKING:
    from penstock.model.load import Load
    from penstock.settings import Settings
    from penstock.spark.executors import Executors


def read_share_again(settings: Settings, load: Load, attempt: int, spark: Executors) -> None:
    """Read the declared share of the chunks with the reader that did not stage them, and record what it read."""
    share = max(check.arguments["share"] for check in load.declaration.checks if check.expect == READ_AGAIN)
    with open_ledger(settings.db) as connection:
        staged = find_chunks_of_attempt(connection, load.load_id, attempt)
    chunks = choose_share(staged, share, random.SystemRandom().getrandbits(32))
    requests = [Request(chunk, load.declaration.topic, None, None) for chunk in chunks]
    source = Source(settings.kafka, load.declaration.topic, load.declaration.isolation)
    if load.declaration.reader == "native":
        sums = try_reading(spark.session, source, requests)
    else:
        sums = read_natively(source, requests)
    read = [
        {"task": chunk.task, "records": of_chunk.log.records, "log_hash": of_chunk.log.hash}
        for chunk, of_chunk in zip(chunks, sums, strict=True)
    ]
    with open_ledger(settings.db) as connection:
        record_second_reading(connection, load.load_id, attempt, read)
