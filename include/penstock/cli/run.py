"""`penstock run`: one whole load, with its progress at a terminal."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, read_environment
from penstock.declaration.pipeline import Pipeline, read_named
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_staged_ranges
from penstock.ledger.status import read_progress
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.model.load import Load


def run(
    name: Name,
    *,
    run_id: Annotated[
        str | None, typer.Option(help="A name for this run; the same name finds the same load again.")
    ] = None,
    ignore_window: Annotated[
        bool, typer.Option("--ignore-window", help="Load now, also outside the window of the declaration.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print Spark's log while it stages.")] = False,
    json: Json = False,
) -> None:
    """Load the new records of a pipeline: plan, stage, validate, publish."""
    from penstock.load.run import name_run, run_load

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        with _showing_progress(settings.db, pipeline.name):
            spark_log = output.open_spark_log(verbose=verbose)
            load = run_load(
                settings, pipeline, run_id or name_run(), output.print_message, spark_log, ignore_window=ignore_window
            )
        if json:
            output.print_json(_describe(settings, pipeline, load))
        elif load:
            _print(settings, load)


def _describe(settings: Settings, pipeline: Pipeline, load: "Load | None") -> dict[str, Any]:
    if load is None:
        return {"load": None, "state": "empty", "pipeline": pipeline.name, "rows": 0, "ranges": []}
    return {
        "load": load.load_id,
        "state": load.state,
        "pipeline": load.pipeline,
        "rows": load.rows,
        "quarantined": load.quarantined,
        "holes": load.holes,
        "filtered": load.filtered,
        "transform_sha256": load.transform_sha256,
        "ranges": _read_ranges(settings, load),
    }


def _print(settings: Settings, load: "Load") -> None:
    names = ["partition", "from", "until", "rows", "quarantined", "holes"]
    names += ["filtered"] if load.declaration.transform else []
    table = Table(*names, box=None, pad_edge=False)
    for range_ in _read_ranges(settings, load):
        table.add_row(*(str(range_[name]) for name in names))
    output.results.print(table)


def _read_ranges(settings: Settings, load: "Load") -> list[dict[str, Any]]:
    """Read the ranges of a load with the counts of each."""
    with open_ledger(settings.db) as connection:
        return read_staged_ranges(connection, load.load_id)


@contextmanager
def _showing_progress(uri: str, pipeline: str) -> Iterator[None]:
    """Show the progress of the pipeline's newest load while the block runs, if stderr is a terminal."""
    if not output.messages.is_terminal:
        yield
        return
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
        console=output.messages, transient=True,
    )  # fmt: skip
    done = threading.Event()
    thread = threading.Thread(target=_update_progress, args=(uri, pipeline, bar, done), daemon=True)
    with bar:
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(timeout=2)


def _update_progress(uri: str, pipeline: str, bar: Progress, done: threading.Event) -> None:
    tasks: dict[int, object] = {}
    with open_ledger(uri) as connection:
        connection.autocommit = True
        while not done.wait(0.5):
            try:
                partitions = read_progress(connection, pipeline)
            except psycopg.OperationalError:
                return  # the load meets the same error, and reports it
            for each in partitions:
                if each.partition not in tasks:
                    tasks[each.partition] = bar.add_task(f"partition {each.partition}", total=each.planned, rate="")
                rate = f"{each.rows_per_second:,} rows/s"
                bar.update(tasks[each.partition], completed=each.done, rate=rate)  # type: ignore[arg-type]
