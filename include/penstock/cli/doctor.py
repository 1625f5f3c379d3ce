"""`penstock doctor`: settings that can lose records, and the time until Kafka deletes records that wait."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Column, Table

from penstock.cli import output
from penstock.cli.arguments import Json, Names, choose_each, read_environment

if TYPE_CHECKING:
    from penstock.doctor.examination import Diagnosis
    from penstock.doctor.headroom import Headroom

COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red"}


def doctor(names: Names = None, *, json: Json = False) -> None:
    """Find settings that can lose records, and show how long Kafka keeps the records that wait."""
    from penstock.doctor.answers import read_known
    from penstock.doctor.examination import describe_path, diagnose_broken, examine_pipelines
    from penstock.ledger.connection import open_ledger

    with output.exit_on_error(as_json=json):
        settings = read_environment()
        chosen = choose_each(settings.pipelines, names)
        with open_ledger(settings.db) as connection:
            known = read_known(connection, chosen.pipelines)
        examined = examine_pipelines(known, settings.kafka, chosen.pipelines)
        found = [
            replace(diagnosis, findings=(*diagnosis.findings, describe_path(pipeline, rust=settings.rust)))
            for diagnosis, pipeline in zip(examined, chosen.pipelines, strict=True)
        ]
        found += [diagnose_broken(each.name, each.error.what) for each in chosen.broken]
        if json:
            output.print_json({"pipelines": [asdict(diagnosis) for diagnosis in found]})
        else:
            _print(found)
        wrong = sum(finding.level == "wrong" for diagnosis in found for finding in diagnosis.findings)
        if wrong:
            output.print_message(
                f"{wrong} findings are wrong: records can be lost. Next: change the settings marked wrong."
            )
            raise typer.Exit(chosen.exit_code(1))


def _print(found: Sequence["Diagnosis"]) -> None:
    """Print for each pipeline a table of the findings, the changes to make, and the headroom."""
    if not found:
        output.print_message("no pipelines are declared.")
    for diagnosis in found:
        output.results.print(f"[bold]{diagnosis.name}[/]")
        _print_findings(diagnosis)
        _print_changes(diagnosis)
        _print_headroom(diagnosis.headroom)


def _print_findings(diagnosis: "Diagnosis") -> None:
    whole = [Column(name, no_wrap=True) for name in ("of", "setting", "")]
    folded = [Column(name, overflow="fold") for name in ("found", "wanted")]
    table = Table(*whole, *folded, box=None, pad_edge=False)
    for finding in diagnosis.findings:
        word = f"[{COLOURS[finding.level]}]{finding.level}[/]"
        values = (finding.found or "cannot be read", finding.wanted)
        table.add_row(finding.scope, escape(finding.setting), word, *map(escape, values))
    output.results.print(table)


def _print_changes(diagnosis: "Diagnosis") -> None:
    for finding in diagnosis.findings:
        if finding.level != "ok":
            output.results.print(f"{finding.setting}: {finding.told}\n  next: {finding.change}", markup=False)


def _print_headroom(headroom: Sequence["Headroom"]) -> None:
    """Print a row for each partition with waiting records; count the other partitions."""
    waiting = [each for each in headroom if each.state != "nothing_waits"]
    table = Table("partition", "waiting", "hours", "until it is deleted", box=None, pad_edge=False)
    for each in waiting:
        hours = "-" if each.hours is None else f"{each.hours:g}"
        table.add_row(str(each.partition), str(each.waiting), hours, escape(each.told))
    if waiting:
        output.results.print(table)
    if len(waiting) < len(headroom):
        output.results.print(f"nothing waits in {len(headroom) - len(waiting)} of {len(headroom)} partitions.")
