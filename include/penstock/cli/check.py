"""`penstock check`: the mistakes of declarations, and the differences between declarations and services."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Names, choose_pipelines, find_folder, find_transforms, read_environment
from penstock.declaration.pipeline import Pipeline
from penstock.declaration.transforms import find_each_file

if TYPE_CHECKING:
    from penstock.doctor.services import Finding


def check(
    names: Names = None,
    *,
    offline: Annotated[bool, typer.Option("--offline", help="Read the files only; connect to no service.")] = False,
    json: Json = False,
) -> None:
    """Check declarations: report all mistakes at once, then compare topic, target and rights with the services."""
    from penstock.doctor.services import check_services

    with output.exit_on_error(as_json=json):
        pipelines = choose_pipelines(find_folder(), names)
        find_each_file(pipelines, find_transforms())
        findings = [] if offline else check_services(read_environment(), pipelines)
        if json:
            output.print_json(_describe(pipelines, findings))
        else:
            _print(pipelines, findings)
        failed = sum(not finding.fits for finding in findings)
        if failed:
            output.print_message(
                f"{failed} of {len(findings)} checks against the services failed. Next: fix the findings marked wrong."
            )
            raise typer.Exit(2)


def _describe(pipelines: Sequence[Pipeline], findings: Sequence["Finding"]) -> dict[str, Any]:
    return {
        "pipelines": [pipeline.name for pipeline in pipelines],
        "ok": all(finding.fits for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def _print(pipelines: Sequence[Pipeline], findings: Sequence["Finding"]) -> None:
    names = ", ".join(pipeline.name for pipeline in pipelines)
    output.results.print(f"declarations without a mistake: {names or 'none'}")
    if not findings:
        return
    table = Table("pipeline", "what", "", "found", box=None, pad_edge=False)
    for finding in findings:
        word = "[green]ok[/]" if finding.fits else "[red]wrong[/]"
        table.add_row(finding.pipeline, finding.what, word, finding.told)
    output.results.print(table)
