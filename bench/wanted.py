"""The target figures of Penstock, and whether it reached them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Results

SMALL, LARGE = 4_000_000, 16_000_000
MEMORY = (1_000_000, LARGE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One figure: the target, the measured value, and whether it is good enough."""

    what: str
    wanted: str
    found: str
    met: bool


def judge(results: Results) -> list[Wanted]:
    """Judge every figure that these results contain."""
    return [*_judge_ratios(results), *_judge_stage(results), *_judge_publish(results), *_judge_memory(results)]


def _judge_ratios(results: Results) -> Iterator[Wanted]:
    for records, other, title, least in (
        (SMALL, "spark_jdbc", "Spark's JDBC append", 3.5),
        (LARGE, "spark_jdbc", "Spark's JDBC append", 3.4),
        (LARGE, "dlt", "dlt", 3),
    ):
        ratio = results.ratio("penstock", other, records)
        if ratio is not None:
            what = f"rows/s at {records:,} records, against {title}"
            yield Wanted(what, f"at least {least:g}x", f"{ratio:.2f}x", ratio >= least)


def _judge_stage(results: Results) -> Iterator[Wanted]:
    for records in results.sizes():
        staged, plain = results.copy_rate(records), results.rate("plain", records)
        if staged and plain:
            what = f"stage once running at {records:,} records, against two plain processes"
            yield Wanted(what, "at least 75%", f"{staged / plain:.0%}", staged / plain >= 0.75)
        python = results.copy_rate(records, "python_path")
        if staged and python:
            what = f"stage once running at {records:,} records, against the path in Python"
            yield Wanted(what, "at least 2x", f"{staged / python:.2f}x", staged / python >= 2)


def _judge_publish(results: Results) -> Iterator[Wanted]:
    found = [run.phases["publish_transaction"] for run in results.runs if run.phases and not run.error]
    if found:
        slowest = max(found) * 1000
        yield Wanted("the publish transaction, the slowest of all", "under 50 ms", f"{slowest:.1f} ms", slowest < 50)


def _judge_memory(results: Results) -> Iterator[Wanted]:
    small, large = (results.peak("penstock", records) for records in MEMORY)
    if small and large:
        what = f"peak memory at {MEMORY[1]:,} records, against {MEMORY[0]:,}"
        yield Wanted(what, "flat (at most 125%)", f"{large / small:.0%}", large <= 1.25 * small)
    python = results.peak("python_path", LARGE)
    if large and python:
        what = f"peak memory at {LARGE:,} records, against the path in Python"
        yield Wanted(what, "not above it", f"{large / python:.0%}", large <= python)
