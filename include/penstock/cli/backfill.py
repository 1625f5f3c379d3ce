"""`penstock backfill`: any range of the log is loaded, for the first time or again."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Name, find_user, read_environment
from penstock.declaration.pipeline import Pipeline, read_named
from penstock.errors import WrongUseError
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.backfill.plan import Draft
    from penstock.ledger.backfill import BackfillProgress

Offsets = Annotated[
    list[str] | None,
    typer.Option("--offsets", help="Offsets of one partition, as partition:from-until; repeat it for each partition."),
]
TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M%z"]
Time = Annotated[datetime | None, typer.Option(formats=TIMES, help="A time with a zone, such as 2026-01-31T00:00:00Z.")]


def backfill(
    name: Name,
    *,
    offsets: Offsets = None,
    from_time: Time = None,
    until_time: Time = None,
    gaps: Annotated[bool, typer.Option("--gaps", help="All offsets below the positions that no load covers.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Load covered offsets again; the new rows replace the old ones.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the loads that the backfill would make; write nothing.")
    ] = False,
    resume: Annotated[
        int | None, typer.Option(help="Continue the backfill of this number; its failed loads are tried again.")
    ] = None,
    cancel: Annotated[
        int | None, typer.Option(help="Discard the open loads of the backfill of this number; needs --why.")
    ] = None,
    why: Annotated[str, typer.Option(help="With --cancel: the reason; the ledger keeps it.")] = "",
    records_per_load: Annotated[
        int | None, typer.Option(min=1, help="The largest number of records of a load; the pipeline's cap by default.")
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, help="The number of loads that run at the same time.")] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print Spark's log while it stages.")] = False,
    json: Json = False,
) -> None:
    """Load any range below the positions: offsets that no load covers, or covered offsets again."""
    from penstock.backfill.plan import plan_backfill, preview_backfill
    from penstock.backfill.request import Request, read_selection
    from penstock.load.run import name_run

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        spark_log = output.open_spark_log(verbose=verbose)
        if cancel is not None:
            _refuse_other_options("--cancel", cancel, offsets, from_time, until_time, gaps, replace, dry_run, resume)
            _cancel(settings, name, cancel, why, as_json=json)
            return
        if resume is not None:
            _refuse_other_options(
                "--resume", resume, offsets, from_time, until_time, gaps, replace, dry_run, records_per_load
            )
            _run(settings, pipeline, resume, parallel, spark_log, as_json=json)
            return
        selection = read_selection(offsets or [], from_time, until_time, gaps=gaps)
        request = Request(selection, find_user(), replace, records_per_load)
        if dry_run:
            _print_preview(preview_backfill(settings.db, settings.kafka, pipeline, request), as_json=json)
            return
        planned = plan_backfill(settings.db, settings.kafka, pipeline, request, name_run())
        output.print_message(planned.message)
        if planned.backfill_id is None:
            if json:
                output.print_json({"backfill": None, "state": "empty", "pipeline": name, "loads": []})
            return
        _run(settings, pipeline, planned.backfill_id, parallel, spark_log, as_json=json)


def _refuse_other_options(option: str, number: int, *others: object) -> None:
    if any(others):
        raise WrongUseError(
            f"{option} {number} was given together with options that choose other offsets.",
            next_step=f"pass {option} {number} without them: its loads were fixed when the backfill was planned.",
        )


def _cancel(settings: Settings, name: str, backfill_id: int, why: str, *, as_json: bool) -> None:
    from penstock.backfill.cancel import cancel_backfill

    cancelled = cancel_backfill(settings.db, backfill_id, find_user(), why, name)
    output.print_message(cancelled.message)
    if as_json:
        output.print_json({"backfill": backfill_id, "state": "cancelled", "discarded": list(cancelled.loads)})


def _run(
    settings: Settings, pipeline: Pipeline, backfill_id: int, parallel: int, spark_log: TextIO, *, as_json: bool
) -> None:
    from penstock.backfill.run import run_backfill

    progress = run_backfill(settings, pipeline, backfill_id, parallel, output.print_message, spark_log)
    if as_json:
        output.print_json(_describe(backfill_id, progress))


def _describe(backfill_id: int, progress: "BackfillProgress") -> dict[str, Any]:
    return {
        "backfill": backfill_id,
        "state": "done" if progress.loads == progress.loads_done else "stopped",
        "loads": progress.loads,
        "loads_done": progress.loads_done,
        "offsets": progress.offsets,
        "offsets_done": progress.offsets_done,
        "rows": progress.rows,
    }


def _print_preview(draft: "Draft", *, as_json: bool) -> None:
    from penstock.backfill.plan import describe_draft

    if as_json:
        output.print_json(_describe_preview(draft))
        return
    for line in describe_draft(draft):
        output.results.print(line, markup=False)


def _describe_preview(draft: "Draft") -> dict[str, Any]:
    choice, describe_range = draft.choice, output.describe_range
    return {
        "backfill": None,
        "state": "preview" if draft.loads else "empty",
        "pipeline": draft.pipeline,
        "offsets": draft.offsets,
        "seconds": draft.seconds,
        "ranges": [describe_range(range_) for range_ in choice.ranges],
        "loads": [[describe_range(range_) for range_ in ranges] for ranges in draft.loads],
        "replaced": [{"load": each.load, **describe_range(each.range)} for each in choice.replaced],
        "planned": [
            {"load": each.load, "backfill": each.backfill, **describe_range(each.range)} for each in choice.planned
        ],
        "gone": [describe_range(range_) for range_ in choice.deleted],
    }
