"""`penstock plan`: a preview of the next load."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, read_environment
from penstock.declaration.pipeline import read_named

if TYPE_CHECKING:
    from penstock.load.plan import Planned


def plan(name: Name, *, json: Json = False) -> None:
    """Show the ranges of the next load; write nothing."""
    from penstock.load.run import preview_load

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        planned = preview_load(settings, read_named(settings.pipelines, name))
        if json:
            output.print_json(_describe(planned))
        else:
            _print(planned)


def _describe(planned: "Planned") -> dict[str, Any]:
    ranges = planned.load.ranges if planned.load else ()
    return {
        "load": None,
        "state": "preview" if ranges else "empty",
        "ranges": [output.describe_range(range_) for range_ in ranges],
    }


def _print(planned: "Planned") -> None:
    if planned.load is None:
        output.print_message(planned.message)
        return
    table = Table("partition", "from", "until", "offsets", box=None, pad_edge=False)
    for range_ in planned.load.ranges:
        table.add_row(*(str(value) for value in output.describe_range(range_).values()))
    output.results.print(table)
    output.print_message(f"nothing was written. Next: load these ranges by `penstock run {planned.load.pipeline}`.")
