"""The limit of staging: Penstock's own reading, decoding and writing in two plain processes, without Spark.

The load is planned and its attempt begun as always; what is left out is Spark, the key, the checks and the publishing.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time

from bench.limits.workers import WORKERS, run_workers
from bench.records import PIPELINE
from penstock.assignment import make_assignment
from penstock.ledger import open_ledger, read_load
from penstock.pipeline import read_pipelines
from penstock.planning import plan_load
from penstock.ranges import cut_chunks
from penstock.settings import read_settings
from penstock.staging import begin_staging, choose_chunk_size
from penstock.tasks import stage_natively


def begin() -> tuple[int, int]:
    """Plan the load and begin an attempt."""
    settings = read_settings(os.environ)
    planned = plan_load(settings.db, settings.kafka, read_pipelines(settings.pipelines)[PIPELINE], "plain")
    assert planned.load is not None
    with open_ledger(settings.db) as connection:
        attempt = begin_staging(connection, planned.load.load_id)
    assert attempt is not None
    return planned.load.load_id, attempt


def stage_share(load_id: int, attempt: int, worker: int) -> tuple[int, float, float]:
    """Stage every chunk that falls to this worker."""
    began = time.time()
    settings = read_settings(os.environ)
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    assignment = make_assignment(settings, load, attempt)
    chunks = cut_chunks(list(load.ranges), choose_chunk_size(load.ranges))
    rows = sum(stage_natively(assignment, chunk).rows for chunk in chunks[worker::WORKERS])
    return rows, began, time.time()


if __name__ == "__main__":
    json.dump(run_workers(functools.partial(stage_share, *begin())), sys.stdout)
