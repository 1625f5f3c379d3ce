"""The demo, as `make demo` runs it: two loads into a new table, by a real Airflow."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from penstock_stack.embedded import find_stack, take_down

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

ACCOUNT = "select sum(rows), sum(quarantined), sum(holes), sum(until_offset - from_offset) from penstock.ranges"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    try:
        yield tmp_path / ".penstock"
    finally:
        take_down(tmp_path / ".penstock", tell=print)


def test_the_demo_loads_twice_accounts_for_every_offset_and_leaves_no_process(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock_stack.demo"],
        cwd=folder.parent, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    stack = find_stack(folder)
    with psycopg.connect(stack.postgres.uri()) as conn:
        # 20,000 + 2 * 1,000 + 5,000 + 500 orders; 1,000 were aborted, and each transaction marked up to 4 partitions.
        counted = conn.execute("select count(*), count(distinct order_id) from analytics.orders").fetchone()
        assert counted == (27_500, 27_500)
        assert conn.execute(ACCOUNT).fetchone() == (27_500, 7, 1_016, 28_523)
        assert (
            conn.execute("select sum(orders), sum(amount) from analytics.sales_by_hour").fetchone()
            == conn.execute("select count(*), sum(amount) from analytics.orders").fetchone()
        )
        newest = "select distinct on (customer_id) customer_id, order_id from analytics.orders"
        order = "_timestamp desc, _partition desc, _offset desc"
        assert conn.execute("select customer_id, last_order from analytics.customers order by 1").fetchall() == (
            conn.execute(f"{newest} order by customer_id, {order}".encode()).fetchall()
        )
    assert "28,523 offsets = 27,500 rows + 7 quarantined + 1,016 holes" in done.stdout
    assert "27,500 orders in the totals, 27,500 rows in analytics.orders" in done.stdout
    assert stack.airflow().url in done.stdout

    pids = [pid for service in stack.services() for pid in service.pids()]
    assert listening_hosts(pids) == {"127.0.0.1"}
    assert take_down(folder, tell=print)
    assert not any(runs(pid) for pid in pids)


def runs(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def listening_hosts(pids: list[int]) -> set[str]:
    listening = set()
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # Airflow's own come and go
            connections = psutil.Process(pid).net_connections("inet")
            listening |= {found.laddr for found in connections if found.status == psutil.CONN_LISTEN}
    assert len(listening) >= 4  # the database, the broker and its controller, and Airflow
    return {address.ip.removeprefix("::ffff:") for address in listening}
