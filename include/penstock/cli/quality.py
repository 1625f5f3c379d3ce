"""`penstock quality`: the history of a pipeline's checks."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from penstock.cli import output
from penstock.cli.arguments import Json, Name, read_environment
from penstock.model.checks import describe_figures

if TYPE_CHECKING:
    from penstock.ledger.check_result import Failure, HistoryRow
    from penstock.status.quality import CheckHistory, QualityHistory

DRAWN = 40  # loads in the course of a check in the table of all checks

Last = Annotated[int, typer.Option(min=1, max=1000, help="How many loads to show: the last ones that were checked.")]
Expectation = Annotated[str | None, typer.Option(help="One expectation only, load by load, with its failures.")]


def quality(name: Name, *, expectation: Expectation = None, last: Last = 20, json: Json = False) -> None:
    """Show the results of the checks on the last loads: how often each failed, its figures, and their course."""
    from penstock.declaration.pipeline import read_named
    from penstock.ledger.connection import open_ledger
    from penstock.status.quality import read_quality

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        with open_ledger(settings.db) as connection:
            found = read_quality(connection, name, last, expectation)
        if not found.loads:
            read_named(settings.pipelines, name)  # an unknown name is an error; a pipeline without loads is not
        if json:
            output.print_json(_describe(found))
        elif not found.loads:
            output.print_message(f"{name}: no load was checked yet, or their results were dropped after their time.")
        elif expectation is None:
            _print_checks(found)
        else:
            _print_loads(found)


def _describe(found: "QualityHistory") -> dict[str, Any]:
    return {
        "pipeline": found.pipeline,
        "loads": list(found.loads),
        "checks": [_describe_check(check) for check in found.checks],
        "failures": [_describe_failure(failure) for failure in found.failures],
    }


def _describe_check(check: "CheckHistory") -> dict[str, Any]:
    return {
        "expectation": check.expectation,
        "column": check.column,
        "suite": check.suite,
        "check_id": check.check_id,
        "kind": check.kind,
        "severity": check.severity,
        "failed": check.failed,
        "results": [_describe_result(result) for result in check.results],
    }


def _describe_result(result: "HistoryRow") -> dict[str, Any]:
    return {
        "load": result.load_id,
        "load_kind": result.load_kind,
        "state": result.state,
        "checked_at": result.checked_at.isoformat(),
        "success": result.success,
        "partitions_failed": result.partitions_failed,
        "figure": result.figure,
    }


def _describe_failure(failure: "Failure") -> dict[str, Any]:
    described = asdict(failure)
    return {"load": described.pop("load_id"), **described}


def _print_checks(found: "QualityHistory") -> None:
    """Print one line for each check. Its name comes last, because it is the one that a narrow terminal may wrap."""
    table = Table(box=None, pad_edge=False)
    for heading in ("failed", "last", "greatest", "course", "severity"):
        table.add_column(heading, no_wrap=True)
    table.add_column("check", overflow="fold")
    for check in found.checks:
        figures = [result.figure for result in check.results]
        known = [figure for figure in figures if figure is not None]
        table.add_row(
            f"{check.failed} of {len(check.results)}",
            _number(figures[-1]),
            _number(max(known, default=None)),
            _plot(check)[-DRAWN:],
            check.severity,
            _label(check, found),
        )
    output.results.print(table)
    output.print_message(
        f"{found.pipeline}: {len(found.loads)} loads, {found.loads[0]} to {found.loads[-1]}. "
        f"Next: `penstock quality {found.pipeline} --expectation …` shows one expectation load by load."
    )


def _plot(check: "CheckHistory") -> Text:
    """The course of the figures; the loads on which the check failed are red."""
    from penstock.status.quality import ASCII_BLOCKS, BLOCKS, plot

    marks = plot(
        [result.figure for result in check.results],
        BLOCKS if output.results.encoding.startswith("utf") else ASCII_BLOCKS,
    )
    drawn = Text()
    for mark, result in zip(marks, check.results, strict=True):
        drawn.append(mark, style=None if result.success else "red")
    return drawn


def _print_loads(found: "QualityHistory") -> None:
    """Print one line for each load, then the partitions in which the expectation failed."""
    for check in found.checks:
        table = Table(
            "load", "kind", "state", "checked at", "", "partitions failed", "figure", box=None, pad_edge=False
        )
        for result in check.results:
            table.add_row(
                str(result.load_id),
                result.load_kind,
                result.state,
                f"{result.checked_at:%Y-%m-%d %H:%M:%S%z}",
                "[green]passed[/]" if result.success else "[red]failed[/]",
                str(result.partitions_failed),
                _number(result.figure),
            )
        output.results.print(f"{_label(check, found)}  {check.severity}", markup=False, style="bold")
        output.results.print(table)
        output.results.print(Text("course  ").append_text(_plot(check)))
    for failure in found.failures:
        where = "" if failure.partition is None else f", partition {failure.partition}"
        output.results.print(f"load {failure.load_id}{where}: {describe_figures(failure.observed)}", markup=False)


def _label(check: "CheckHistory", found: "QualityHistory") -> str:
    """Name a check; two checks of one expectation on one column differ by their ids."""
    column = f" column {check.column}" if check.column else ""
    suite = f" of the suite {check.suite}" if check.suite else ""
    same = [
        each
        for each in found.checks
        if (each.expectation, each.column, each.suite) == (check.expectation, check.column, check.suite)
    ]
    return f"{check.expectation}{column}{suite}{f' #{check.check_id}' if len(same) > 1 else ''}"


def _number(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{int(figure):,}" if figure == int(figure) else f"{figure:,.4g}"
