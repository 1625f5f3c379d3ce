"""Documents and tables of the commands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row
from rich.table import Table

from penstock.cli.output import people, result, tell
from penstock.ledger.connection import open_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.doctor.services import Finding
    from penstock.load.plan import Planned
    from penstock.model.load import Load
    from penstock.model.ranges import Range
    from penstock.settings import Settings
    from penstock.status.pipelines import PipelineStatus

COLOURS = {"ok": "green", "behind": "cyan", "loading": "cyan", "new": "cyan"}


def findings_document(pipelines: Sequence[Pipeline], findings: Sequence[Finding]) -> dict[str, Any]:
    """What `check --json` prints."""
    return {
        "pipelines": [pipeline.name for pipeline in pipelines],
        "ok": all(finding.fits for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def print_findings(pipelines: Sequence[Pipeline], findings: Sequence[Finding]) -> None:
    """What `check` prints."""
    names = ", ".join(pipeline.name for pipeline in pipelines)
    result.print(f"declarations read without a mistake: {names or 'none'}")
    if not findings:
        return
    table = Table("pipeline", "what", "", "found", box=None, pad_edge=False)
    for finding in findings:
        word = "[green]ok[/]" if finding.fits else "[red]wrong[/]"
        table.add_row(finding.pipeline, finding.what, word, finding.told)
    result.print(table)


def plan_document(planned: Planned) -> dict[str, Any]:
    """What `plan --json` prints."""
    ranges = planned.load.ranges if planned.load else ()
    return {
        "load": None,
        "state": "preview" if ranges else "empty",
        "ranges": [describe_range(range_) for range_ in ranges],
    }


def describe_range(range_: Range) -> dict[str, int]:
    """A range as a document."""
    return {
        "partition": range_.partition,
        "from": range_.from_offset,
        "until": range_.until_offset,
        "offsets": len(range_),
    }


def print_plan(planned: Planned) -> None:
    """What `plan` prints."""
    if planned.load is None:
        tell(planned.told)
        return
    table = Table("partition", "from", "until", "offsets", box=None, pad_edge=False)
    for range_ in planned.load.ranges:
        table.add_row(*(str(value) for value in describe_range(range_).values()))
    result.print(table)
    tell("nothing was written; `penstock run` loads this.")


def load_document(settings: Settings, pipeline: Pipeline, load: Load | None) -> dict[str, Any]:
    """What `run --json` prints."""
    if load is None:
        return {"load": None, "state": "empty", "pipeline": pipeline.name, "rows": 0, "ranges": []}
    return {
        "load": load.load_id,
        "state": load.state,
        "pipeline": load.pipeline,
        "rows": load.rows,
        "quarantined": load.quarantined,
        "holes": load.holes,
        "ranges": read_ranges(settings, load),
    }


def read_ranges(settings: Settings, load: Load) -> list[dict[str, Any]]:
    """The ranges of a load with what came of each."""
    with open_ledger(settings.db) as connection:
        return (
            connection.cursor(row_factory=dict_row)
            .execute(
                'select partition, from_offset as "from", until_offset as until, rows, quarantined, holes'
                " from penstock.ranges where load_id = %s order by 1, 2",
                [load.load_id],
            )
            .fetchall()
        )


def print_load(settings: Settings, load: Load) -> None:
    """What `run` prints."""
    table = Table("partition", "from", "until", "rows", "quarantined", "holes", box=None, pad_edge=False)
    for range_ in read_ranges(settings, load):
        table.add_row(*(str(value) for value in range_.values()))
    result.print(table)


def status_document(found: Sequence[PipelineStatus]) -> dict[str, Any]:
    """What `status --json` prints."""
    return {
        "pipelines": [
            {
                "name": status.name,
                "state": status.health.state,
                "cause": status.health.cause,
                "next_step": status.health.next_step,
                "load": status.load,
                "gaps": status.missing.gaps,
                "lost": status.missing.lost,
                "backfills": list(status.missing.backfills),
                "partitions": [asdict(partition) for partition in status.partitions],
            }
            for status in found
        ]
    }


def print_status(found: Sequence[PipelineStatus]) -> None:
    """What `status` prints."""
    if not found:
        people.print("no pipelines are declared.")
    for status in found:
        colour = COLOURS.get(status.health.state, "red")
        result.print(f"[bold]{status.name}[/]  [{colour}]{status.health.state}[/]", highlight=False)
        result.print(f"  why:  {status.health.cause}\n  next: {status.health.next_step}", markup=False)
        if not status.partitions:
            continue
        table = Table("partition", "position", "log start", "end", "lag", "lag seconds", box=None, pad_edge=False)
        for partition in status.partitions:
            table.add_row(*("-" if value is None else str(value) for value in asdict(partition).values()))
        result.print(table)
