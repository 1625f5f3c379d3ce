"""The groups of chunks that become Spark tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.load.stage import choose_chunk_size, make_groups
from penstock.model.ranges import Range, cut_chunks

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("offsets", "transform", "tasks"),
    [
        (MILLION, None, 4),
        (MILLION, "rows:made", 4),
        (4 * MILLION, None, 16),
        (4 * MILLION, "rows:made", 8),
        (64 * MILLION, None, 128),
        (64 * MILLION, "rows:made", 128),
    ],
)
def test_a_task_of_a_transform_takes_more_offsets(offsets: int, transform: str | None, tasks: int) -> None:
    ranges = tuple(Range(partition, 0, offsets // 4) for partition in range(4))
    load: Any = SimpleNamespace(declaration=SimpleNamespace(transform=transform), ranges=ranges)
    groups = make_groups(load, cut_chunks(list(ranges), choose_chunk_size(ranges)))
    assert len(groups) == tasks
    assert [chunk for group in groups for chunk in group] == cut_chunks(list(ranges), choose_chunk_size(ranges))
