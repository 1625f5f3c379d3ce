"""`penstock holes`: which kind of hole each hole is."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, read_environment
from penstock.cli.output import stopping
from penstock.declaration.pipeline import read_named
from penstock.errors import name_few

if TYPE_CHECKING:
    from penstock.holes.examination import HoleRange, HolesNamed


def holes(name: Name, *, json: Json = False) -> None:
    """Tell the holes apart by a second reader of the log: aborted, marker, compacted, or unexplained."""
    from penstock.holes.examination import count_holes, name_holes
    from penstock.ledger.connection import open_ledger

    with stopping(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        named = name_holes(settings.db, settings.kafka, pipeline)
        with open_ledger(settings.db) as connection:
            counted = count_holes(connection, pipeline.name)
        if json:
            output.print_json(holes_document(named, counted))
        else:
            print_holes(named, counted)
        unexplained = sum(row["holes"] for row in counted if row["kind"] == "unexplained")
        if unexplained:
            output.tell(f"{unexplained} holes are unexplained: records may be missing from {pipeline.target}.")
            raise typer.Exit(1)


def holes_document(named: "HolesNamed", counted: list[dict[str, Any]]) -> dict[str, Any]:
    """What `holes --json` prints."""
    return {
        "pipeline": named.pipeline,
        "ok": not named.unexplained,
        "named": dict(named.counts),
        "holes": counted,
        "unexplained": [{**_describe(each), "why": each.why} for each in named.unexplained],
        "gone": list(map(_describe, named.gone)),
        "beyond": list(map(_describe, named.beyond)),
    }


def _describe(found: "HoleRange") -> dict[str, Any]:
    return {
        "load": found.load_id,
        "partition": found.partition,
        "from": found.from_offset,
        "until": found.until_offset,
    }


def print_holes(named: "HolesNamed", counted: list[dict[str, Any]]) -> None:
    """What `holes` prints: how many of each kind every covered range has, and each that is unexplained."""
    table = Table("load", "partition", "from", "until", "kind", "holes", box=None, pad_edge=False)
    for row in counted:
        table.add_row(*(str(value) for value in row.values()))
    if counted:
        output.result.print(table)
    else:
        output.tell(f"{named.pipeline}: no published range has a hole.")
    told = ", ".join(f"{holes} {kind}" for kind, holes in named.counts.items() if holes)
    output.tell(f"named now: {told or 'nothing; all was named before'}.")
    for line in (
        *name_few([f"gone from the log before it was named, in part at least: {each}" for each in named.gone]),
        *name_few([f"not named, for the log ends before it: {each}" for each in named.beyond]),
        *name_few([f"unexplained: {each}" for each in named.unexplained]),
    ):
        output.tell(line)
