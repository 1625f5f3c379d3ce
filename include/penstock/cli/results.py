"""`penstock results`: the tables that are derived from the rows of a pipeline."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, read_environment

if TYPE_CHECKING:
    from penstock.status.results import ResultStatus


def results(name: Name, *, json: Json = False) -> None:
    """Show the results of a pipeline: state, rows, the load that each stands at, and its last verification."""
    from penstock.declaration.pipeline import read_named
    from penstock.ledger.connection import open_ledger
    from penstock.status.results import read_results

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        with open_ledger(settings.db) as connection:
            found = read_results(connection, name, pipeline)
        if json:
            output.print_json({"pipeline": name, "results": [asdict(each) for each in found]})
        elif found:
            _print(found)
        else:
            output.print_message(f"{name}: no result is declared.")


def _print(found: Sequence["ResultStatus"]) -> None:
    columns = ("table", "mode", "state", "rows, about", "load", "rebuilt", "last verification")
    table = Table(*columns, box=None, pad_edge=False)
    for each in found:
        rows = "-" if each.rows is None else f"{each.rows:,}"
        load = "-" if each.load is None else str(each.load)
        table.add_row(each.table, each.mode, each.state, rows, load, _write_rebuild(each), _write_verification(each))
    output.results.print(table)
    for each in found:
        if each.next_step:
            output.results.print(f"{each.table}: next: {each.next_step}", markup=False)


def _write_rebuild(result: "ResultStatus") -> str:
    rebuild = result.rebuild
    return "-" if rebuild is None else f"{rebuild.rows:,} of about {rebuild.rows_to_read:,} rows"


def _write_verification(result: "ResultStatus") -> str:
    found = result.verification
    if found is None:
        return "none" if result.provable else "none: it has no check query, or old rows were dropped"
    return f"{found.verification}: {found.fault or 'no fault'}"
