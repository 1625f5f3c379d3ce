"""The demo: start the stack, produce and load orders twice, and show the results."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from penstock.errors import PenstockError
from penstock.kafka.admin import read_log
from penstock_stack.demo import orders, summary
from penstock_stack.demo.runs import Airflow, Run
from penstock_stack.embedded import Addresses, Ports, bring_up

FOLDER = Path(".penstock")
PIPELINE, TARGET = "orders", "analytics.orders"
TOPICS = {"orders": 4, "access_log": 2}
MARKS = {"success": "[green]done[/]", "failed": "[red]failed[/]", "running": "[cyan]running[/]", "skipped": "skipped"}

messages = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False)


def main() -> int:
    """Run the demo; print an error as one line."""
    try:
        demonstrate(time.monotonic())
    except PenstockError as error:
        messages.print(f"demo: {error}", markup=False)
        return error.exit_code
    except KeyboardInterrupt:
        messages.print("the demo was stopped. `make down` stops the stack too.")
        return 130
    return 0


def demonstrate(began: float) -> None:
    """Run two rounds of produce and load; the second load reads only the new orders."""
    # The topics are created before Airflow starts, so that no scheduled run misses them.
    services = bring_up(FOLDER, Ports(), airflow=False, tell=_print_message)
    kafka, before = services.kafka, summary.newest_load(services.db, PIPELINE)
    orders.create_topics(kafka, TOPICS)
    orders.send(kafka, "access_log", orders.make_log_lines(100))
    _print_message(produce_first(kafka))
    addresses = bring_up(FOLDER, Ports(), airflow=True, tell=_print_message)
    airflow = _log_in(addresses)
    _print_message(f"everything runs, {time.monotonic() - began:.0f} s after the start")

    times = [load(airflow, addresses, 1)]
    _print_message(produce_second(kafka))
    times.append(load(airflow, addresses, 2))

    out.print()
    summary.print_summary(out, addresses.db, PIPELINE, TARGET, before)
    durations = " and ".join(f"{seconds:.0f} s" for seconds in times)
    out.print(f"The loads took {durations}, trigger to publish; the whole demo took {time.monotonic() - began:.0f} s.")
    out.print(
        f"The pipeline's page: {airflow.page(PIPELINE)}   user and password: in {airflow.passwords}", soft_wrap=True
    )
    out.print("`make demo` again loads more orders; `make down` stops the stack.")


def produce_first(kafka: str) -> str:
    """Produce orders, two committed transactions, an aborted one between them, and broken records; describe them."""
    first = _next_order(kafka)
    orders.send(kafka, PIPELINE, orders.make_orders(first, 20_000))
    orders.send_transaction(kafka, PIPELINE, orders.make_orders(first + 20_000, 1000), commit=True)
    orders.send_transaction(kafka, PIPELINE, orders.make_orders(first + 21_000, 1000), commit=False)
    orders.send_transaction(kafka, PIPELINE, orders.make_orders(first + 22_000, 1000), commit=True)
    orders.send(kafka, PIPELINE, orders.BROKEN)
    return (
        "produced 20,000 orders, 2,000 more in two committed transactions, 1,000 in an aborted one, "
        f"and {len(orders.BROKEN)} broken records"
    )


def produce_second(kafka: str) -> str:
    """Produce more orders; describe them."""
    first = _next_order(kafka)
    orders.send(kafka, PIPELINE, orders.make_orders(first, 5_000))
    orders.send_transaction(kafka, PIPELINE, orders.make_orders(first + 5_000, 500), commit=True)
    return "produced 5,000 orders, and 500 more in a committed transaction"


def load(airflow: Airflow, addresses: Addresses, number: int) -> float:
    """Trigger the pipeline's DAG and follow the run to its end; return its duration in seconds."""
    began = time.monotonic()
    before = summary.newest_load(addresses.db, PIPELINE)
    run_id = airflow.find_active(PIPELINE)
    if run_id:
        _print_message(f"load {number}: Airflow has just started the hourly run by itself; the demo follows that run")
    else:
        run_id = f"demo_{datetime.now(UTC):%Y%m%dT%H%M%S}_{number}"
        airflow.trigger(PIPELINE, run_id)
    state = ""
    with messages.status(f"load {number}") as line:
        for run in airflow.follow(PIPELINE, run_id):
            done, planned = summary.read_progress(addresses.db, PIPELINE, before)
            progress = f"load {number}: {_describe(run)}"
            line.update(f"{progress}   {done:,} of {planned:,} offsets staged   {time.monotonic() - began:.0f} s")
            if not messages.is_terminal and progress != state:
                messages.print(progress)
            state = progress
    if run.state != "success":
        raise PenstockError(
            f"the run {run_id} failed; {summary.read_cause(addresses.db, PIPELINE)}.",
            next_step=f"see {airflow.page(PIPELINE)}.",
        )
    messages.print(f"load {number}: {_describe(run)} in {time.monotonic() - began:.0f} s")
    return time.monotonic() - began


def _describe(run: Run) -> str:
    return "   ".join(f"{task} {MARKS.get(state, f'[dim]{state}[/]')}" for task, state in run.tasks.items())


def _log_in(addresses: Addresses) -> Airflow:
    if addresses.airflow is None:
        raise PenstockError("Airflow does not run.", next_step=f"look into {addresses.dir}/airflow.")
    airflow = Airflow(addresses.airflow, Path(addresses.dir) / "airflow" / "passwords.json")
    airflow.log_in()
    airflow.await_dag(PIPELINE)
    return airflow


def _next_order(kafka: str) -> int:
    # Every order used an offset, so this number is higher than the number of any earlier order.
    log = read_log({"bootstrap.servers": kafka}, PIPELINE, "read_uncommitted")
    return 1 + sum(partition.end for partition in log.partitions.values())


def _print_message(text: str) -> None:
    messages.print(text, markup=False)


if __name__ == "__main__":
    sys.exit(main())
