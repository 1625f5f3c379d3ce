"""The limit of staging: Penstock's own reading, decoding and writing in two plain processes, without Spark.

The load is planned and its attempt begun as usual. Spark, the key, the checks and the publish step are left out.
For `bench.tuning` the key may be built first or last.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time

from bench.changes import apply_changes
from bench.limits import workers
from bench.limits.workers import WORKERS, run_workers
from bench.records import PIPELINE
from penstock.declaration.pipeline import read_pipelines
from penstock.kafka.readers.native import open_group
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.load.plan import plan_load
from penstock.load.stage import begin_staging, choose_chunk_size
from penstock.load.task import stage_group
from penstock.model.ranges import cut_chunks
from penstock.settings import read_settings
from penstock.target.assignment import make_assignment
from penstock.target.postgres.attempt import key_attempt_table


def begin() -> tuple[int, int]:
    """Plan the load and begin an attempt."""
    settings = read_settings(os.environ)
    planned = plan_load(settings.db, settings.kafka, read_pipelines(settings.pipelines)[PIPELINE], "plain")
    assert planned.load is not None
    attempt = begin_staging(settings.db, planned.load.load_id)
    assert attempt is not None
    if workers.KEY == "first":
        with open_ledger(settings.db) as connection:
            key_attempt_table(connection, planned.load, attempt)
    return planned.load.load_id, attempt


def stage_share(load_id: int, attempt: int, worker: int) -> tuple[int, float, float]:
    """Stage every chunk of this worker."""
    began = time.time()
    apply_changes()
    settings = read_settings(os.environ)
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    assignment = make_assignment(settings, load, attempt)
    chunks = cut_chunks(list(load.ranges), choose_chunk_size(load.ranges))
    rows = sum(
        written.rows
        for chunk in chunks[worker::WORKERS]
        for written in stage_group(assignment, [chunk], open_group(assignment.source, [chunk]))
    )
    return rows, began, time.time()


def stage() -> dict[str, float]:
    """Stage all chunks; the time includes a key that is built last."""
    load_id, attempt = begin()
    done = run_workers(functools.partial(stage_share, load_id, attempt))
    if workers.KEY == "last":
        began = time.time()
        with open_ledger(read_settings(os.environ).db) as connection:
            key_attempt_table(connection, read_load(connection, load_id), attempt)
        done["seconds"] += time.time() - began
    return done


if __name__ == "__main__":
    apply_changes()
    json.dump(stage(), sys.stdout)
