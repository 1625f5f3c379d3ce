"""The declared rate holds for every reader."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fix_loaders import Start


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_load_is_never_read_faster_than_its_rate(start: Start, reader: str) -> None:
    account, loader = start(2, rate=400, reader=reader)
    account.send_orders(800, partition=0)
    account.send_orders(800, partition=1)
    load = loader.plan()
    assert load is not None
    began = time.monotonic()
    loader.stage(load.load_id)
    assert time.monotonic() - began >= 4
    assert loader.publish(load.load_id).rows == 1600
