"""`penstock status`: the health of pipelines, with cause and next step."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Names, choose_each, read_environment

if TYPE_CHECKING:
    from penstock.status.pipelines import PartitionStatus, PipelineStatus

# A screen of partitions; a topic may have thousands.
MOST_SHOWN = 30
COLOURS = {"ok": "green", "behind": "cyan", "loading": "cyan", "new": "cyan"}


def status(names: Names = None, *, json: Json = False) -> None:
    """Show the health of each pipeline, its cause, and the next step."""
    from penstock.ledger.connection import open_ledger
    from penstock.status.pipelines import read_broken_status, read_status

    with output.exit_on_error(as_json=json):
        settings = read_environment()
        chosen = choose_each(settings.pipelines, names)
        with open_ledger(settings.db) as connection:
            found = read_status(connection, settings.kafka, chosen.pipelines)
            found += [read_broken_status(connection, each.name, each.error.what) for each in chosen.broken]
        if json:
            output.print_json({"pipelines": [_describe(each) for each in found]})
        else:
            _print(found)
        if chosen.broken:
            raise typer.Exit(chosen.exit_code())


def _describe(found: "PipelineStatus") -> dict[str, Any]:
    return {
        "name": found.name,
        "state": found.health.state,
        "cause": found.health.cause,
        "next_step": found.health.next_step,
        "load": found.load,
        "gaps": found.missing.gaps,
        "lost": found.missing.lost,
        "backfills": list(found.missing.backfills),
        "transform": found.transform,
        "transform_sha256": found.transform_sha256,
        "partitions": [asdict(partition) for partition in found.partitions],
    }


def _print(found: Sequence["PipelineStatus"]) -> None:
    if not found:
        output.print_message("no pipelines are declared.")
    for each in found:
        colour = COLOURS.get(each.health.state, "red")
        output.results.print(f"[bold]{each.name}[/]  [{colour}]{each.health.state}[/]", highlight=False)
        output.results.print(f"  why:  {each.health.cause}\n  next: {each.health.next_step}", markup=False)
        if each.transform:
            version = f"version {each.transform_sha256} in load {each.load}" if each.transform_sha256 else "has not run"
            output.results.print(f"  transform: {each.transform}, {version}", markup=False, soft_wrap=True)
        if not each.partitions:
            continue
        table = Table("partition", "position", "log start", "end", "lag", "lag seconds", box=None, pad_edge=False)
        shown, others = choose_shown(each.partitions)
        for partition in shown:
            table.add_row(*("-" if value is None else str(value) for value in asdict(partition).values()))
        output.results.print(table)
        if others:
            lag = sum(partition.lag or 0 for partition in others)
            output.results.print(f"and {len(others):,} more with a lag of {lag:,} together; --json lists all of them")


def choose_shown(
    partitions: Sequence["PartitionStatus"],
) -> tuple[list["PartitionStatus"], list["PartitionStatus"]]:
    """Choose the partitions with the greatest lags, in the order of their numbers, and return the others too."""
    by_lag = sorted(partitions, key=lambda each: (-(each.lag or 0), each.partition))
    shown = set(by_lag[:MOST_SHOWN])
    return [each for each in partitions if each in shown], by_lag[MOST_SHOWN:]
