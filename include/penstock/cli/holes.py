"""`penstock holes`: the kind of each hole."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, read_environment
from penstock.declaration.pipeline import read_named
from penstock.errors import name_few

if TYPE_CHECKING:
    from penstock.holes.examination import HoleRange, HolesNamed


def holes(name: Name, *, json: Json = False) -> None:
    """Find the kind of each hole by a second reader of the log: aborted, marker, compacted, or unexplained."""
    from penstock.holes.examination import count_holes, name_holes
    from penstock.ledger.connection import open_ledger

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        named = name_holes(settings.db, settings.kafka, pipeline)
        with open_ledger(settings.db) as connection:
            counted = count_holes(connection, pipeline.name)
        if json:
            output.print_json(_describe(named, counted))
        else:
            _print(named, counted)
        unexplained = sum(row["holes"] for row in counted if row["kind"] == "unexplained")
        if unexplained:
            output.print_message(f"{unexplained} holes are unexplained: records may be missing from {pipeline.target}.")
            raise typer.Exit(1)


def _describe(named: "HolesNamed", counted: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "pipeline": named.pipeline,
        "ok": not named.unexplained,
        "named": dict(named.counts),
        "holes": counted,
        "unexplained": [{**_describe_range(each), "why": each.why} for each in named.unexplained],
        "gone": list(map(_describe_range, named.gone)),
        "beyond": list(map(_describe_range, named.beyond)),
    }


def _describe_range(found: "HoleRange") -> dict[str, Any]:
    return {
        "load": found.load_id,
        "partition": found.partition,
        "from": found.from_offset,
        "until": found.until_offset,
    }


def _print(named: "HolesNamed", counted: list[dict[str, Any]]) -> None:
    """Print the count of each kind in each covered range, and each range whose holes have no kind."""
    table = Table("load", "partition", "from", "until", "kind", "holes", box=None, pad_edge=False)
    for row in counted:
        table.add_row(*(str(value) for value in row.values()))
    if counted:
        output.results.print(table)
    else:
        output.print_message(f"{named.pipeline}: no published range has a hole.")
    kinds = ", ".join(f"{holes} {kind}" for kind, holes in named.counts.items() if holes)
    output.print_message(f"named now: {kinds or 'none; all holes had been named before'}.")
    for line in (
        *name_few([f"deleted from the log, at least in part, before it was named: {each}" for each in named.gone]),
        *name_few([f"not named, because the log ends before it: {each}" for each in named.beyond]),
        *name_few([f"unexplained: {each}" for each in named.unexplained]),
    ):
        output.print_message(line)
