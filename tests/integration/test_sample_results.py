"""The results of the sample pipeline stay exact: publish, replay, rollback and undo are killed, and then done again."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loading_process import await_blocked, locked
from penstock.backfill.request import ByOffsets, Span
from penstock.declaration.pipeline import read_pipelines
from penstock.ledger.connection import open_ledger
from penstock.ledger.pipeline import lock_pipeline
from penstock.load.publish import publish_load
from penstock.load.results.proof import find_result_faults
from penstock_stack.demo.orders import make_orders

if TYPE_CHECKING:
    from fix_loaders import Start
    from producing import Account
    from whole_loads import Loader

REPOSITORY = Path(__file__).parents[2]
PUBLISH = "from penstock.load.publish import publish_load; publish_load(os.environ['DB'], {KAFKA}, {load})"
ROLL_BACK = "from penstock.decide.rollback import roll_back; roll_back(os.environ['DB'], {load}, 'ann', 'a test')"
UNDO = "from penstock.decide.rollback import undo_rollback; undo_rollback(os.environ['DB'], {load}, 'ann', 'a test')"


def kill_then_do(loader: Loader, statement: str, load: int) -> None:
    """Run a statement of Python in a process, kill it while its transaction changes the totals, and run it again."""
    text = "import os; " + statement.format(KAFKA=loader.settings.kafka, load=load)
    command, environment = [sys.executable, "-c", text], {**os.environ, "DB": loader.db}
    before = read_results(loader)
    with locked(loader.db, "lock table analytics.sales_by_hour in share mode"):
        process = subprocess.Popen(command, env=environment)
        await_blocked(loader.db)
        process.kill()
        process.wait(60)
    assert read_results(loader) == before
    subprocess.run(command, env=environment, check=True, timeout=300)
    check(loader)


def read_results(loader: Loader) -> list[object]:
    return [
        *loader.query("select hour, currency, orders, amount from analytics.sales_by_hour order by 1, 2"),
        *loader.query("select customer_id, last_order, _partition, _offset from analytics.customers order by 1"),
    ]


def check(loader: Loader) -> None:
    """Compare both results with the rows of the target, and let `penstock verify` do the same."""
    totals = (
        "select date_trunc('hour', placed, 'UTC'), currency, count(*), sum(amount) from analytics.orders"
        " group by 1, 2 order by 1, 2"
    )
    newest = (
        "select customer_id, order_id, _partition, _offset from (select *, row_number() over (partition by customer_id"
        " order by _timestamp desc, _partition desc) as place from (select distinct on (customer_id, _partition) *"
        " from analytics.orders order by customer_id, _partition, _offset desc) t) t where place = 1 order by 1"
    )
    assert read_results(loader) == [*loader.query(totals), *loader.query(newest)]
    with open_ledger(loader.db) as connection:
        pipeline_id = lock_pipeline(connection, "orders") or 0
        assert find_result_faults(connection, pipeline_id, loader.pipeline.target, 1.0) == []


def stage(loader: Loader, account: Account, first: int) -> int:
    """Send 2,000 orders of a few thousand customers, half of them to each partition, and stage them."""
    orders = list(make_orders(first, 2_000))
    for partition in range(2):
        account.send(orders[partition::2], partition=partition)
    load = loader.plan()
    assert load is not None
    loader.stage(load.load_id)
    return load.load_id


def test_results_of_the_sample_stay_exact_through_kills_of_each_change(start: Start) -> None:
    account, loader = start(2)
    sample = read_pipelines(REPOSITORY / "include" / "pipelines")["orders"]
    loader = replace(loader, pipeline=sample.model_copy(update={"topic": account.topic}))

    first = stage(loader, account, 0)
    kill_then_do(loader, PUBLISH, first)
    kill_then_do(loader, PUBLISH, stage(loader, account, 2_000))
    replay = loader.plan_backfill(ByOffsets((Span(0, 100, 1200), Span(1, 50, 60))), replace=True).load_ids[0]
    loader.stage(replay)
    kill_then_do(loader, PUBLISH, replay)
    kill_then_do(loader, ROLL_BACK, first)
    assert loader.query("select sum(orders) < 4000 from analytics.sales_by_hour") == [(True,)]
    kill_then_do(loader, UNDO, first)

    assert loader.query("select sum(orders) from analytics.sales_by_hour") == [(4000,)]
    publish_load(loader.db, loader.settings.kafka, first)  # a second time: it adds nothing
    assert loader.query("select sum(orders) from analytics.sales_by_hour") == [(4000,)]
