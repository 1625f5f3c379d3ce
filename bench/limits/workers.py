"""Two plain processes, and the duration of their work without their start."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 2
# When the primary key is built, for `bench.tuning`: first, last, or not at all.
KEY = ""


def run_workers(work: Callable[[int], tuple[int, float, float]]) -> dict[str, float]:
    """Run `work` in every worker; the rows of all, and the seconds from the first's beginning to the last's end."""
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        done = list(pool.map(work, range(WORKERS)))
    counts, begun, ended = zip(*done, strict=True)
    return {"rows": sum(counts), "seconds": max(ended) - min(begun)}
