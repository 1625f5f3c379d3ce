"""The document and the tables of `penstock doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Column, Table

from penstock.cli.output import people, result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.doctor.examination import Diagnosis
    from penstock.doctor.headroom import Headroom

COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red"}


def doctor_document(found: Sequence[Diagnosis]) -> dict[str, Any]:
    """What `doctor --json` prints."""
    return {"pipelines": [asdict(diagnosis) for diagnosis in found]}


def print_doctor(found: Sequence[Diagnosis]) -> None:
    """What `doctor` prints: all findings in a table, what to do about those that do not fit, and the headroom."""
    if not found:
        people.print("no pipelines are declared.")
    for diagnosis in found:
        result.print(f"[bold]{diagnosis.name}[/]")
        _print_findings(diagnosis)
        _print_changes(diagnosis)
        _print_headroom(diagnosis.headroom)


def _print_findings(diagnosis: Diagnosis) -> None:
    whole = [Column(name, no_wrap=True) for name in ("of", "setting", "")]
    folded = [Column(name, overflow="fold") for name in ("found", "wanted")]
    table = Table(*whole, *folded, box=None, pad_edge=False)
    for finding in diagnosis.findings:
        word = f"[{COLOURS[finding.level]}]{finding.level}[/]"
        told = (finding.found or "cannot be read", finding.wanted)
        table.add_row(finding.scope, escape(finding.setting), word, *map(escape, told))
    result.print(table)


def _print_changes(diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        if finding.level != "ok":
            result.print(f"{finding.setting}: {finding.told}\n  next: {finding.change}", markup=False)


def _print_headroom(headroom: Sequence[Headroom]) -> None:
    """A row for each partition where something waits; those that are done with are counted."""
    waiting = [each for each in headroom if each.state != "nothing_waits"]
    table = Table("partition", "waiting", "hours", "until it is deleted", box=None, pad_edge=False)
    for each in waiting:
        hours = "-" if each.hours is None else f"{each.hours:g}"
        table.add_row(str(each.partition), str(each.waiting), hours, escape(each.told))
    if waiting:
        result.print(table)
    if len(waiting) < len(headroom):
        result.print(f"nothing waits in {len(headroom) - len(waiting)} of {len(headroom)} partitions.")
