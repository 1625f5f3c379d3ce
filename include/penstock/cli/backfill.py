"""`penstock backfill` and `penstock rollback`: any range in, again or out."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from datetime import datetime
from typing import Annotated, TextIO

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, Why, read_environment, whoami
from penstock.cli.output import stopping
from penstock.declaration.pipeline import Pipeline, read_named
from penstock.errors import WrongUseError
from penstock.settings import Settings

Offsets = Annotated[
    list[str] | None,
    typer.Option("--offsets", help="Offsets of a partition, as partition:from-until; again for each partition."),
]
TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M%z"]
Time = Annotated[datetime | None, typer.Option(formats=TIMES, help="A time with a zone, such as 2026-01-31T00:00:00Z.")]


def backfill(
    name: Name,
    *,
    offsets: Offsets = None,
    from_time: Time = None,
    until_time: Time = None,
    gaps: Annotated[bool, typer.Option("--gaps", help="Whatever lies below the positions and is not there.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Load again what is there, in its place.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be loaded; write nothing.")] = False,
    resume: Annotated[int | None, typer.Option(help="Go on with this backfill; what failed is tried again.")] = None,
    records_per_load: Annotated[
        int | None, typer.Option(min=1, help="At most so many records a load; the pipeline's cap if not given.")
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, help="So many loads at once.")] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log while it stages.")] = False,
    json: Json = False,
) -> None:
    """Load any range below the positions: for the first time after all, or in place of what is there."""
    from penstock.backfill.plan import plan_backfill, preview_backfill
    from penstock.backfill.request import Asked, read_what
    from penstock.cli.backfill_tables import show_draft
    from penstock.load.run import name_run

    with stopping(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        spark_log = output.open_spark_log(verbose=verbose)
        if resume is not None:
            _refuse_both(resume, offsets, from_time, until_time, gaps, replace, dry_run, records_per_load)
            _run(settings, pipeline, resume, parallel, spark_log, as_json=json)
            return
        what = read_what(offsets or [], from_time, until_time, gaps=gaps)
        asked = Asked(what, whoami(), replace, records_per_load)
        if dry_run:
            show_draft(preview_backfill(settings.db, settings.kafka, pipeline, asked), as_json=json)
            return
        planned = plan_backfill(settings.db, settings.kafka, pipeline, asked, name_run())
        output.tell(planned.told)
        if planned.backfill_id is None:
            if json:
                output.print_json({"backfill": None, "state": "empty", "pipeline": name, "loads": []})
            return
        _run(settings, pipeline, planned.backfill_id, parallel, spark_log, as_json=json)


def rollback(
    load: Annotated[int, typer.Argument(help="The load's number.")],
    *,
    why: Why,
    who: Who = None,
    undo: Annotated[bool, typer.Option("--undo", help="Bring a load back that was rolled back.")] = False,
    json: Json = False,
) -> None:
    """Take a published load out of its target; its ranges become gaps, its rows are kept for a while."""
    from penstock.cli.tables import describe_range
    from penstock.decide.rollback import roll_back, undo_rollback

    with stopping(as_json=json, load=load):
        moved = (undo_rollback if undo else roll_back)(read_environment().db, load, who or whoami(), why)
        output.tell(moved.told)
        if json:
            ranges = [describe_range(range_) for range_ in moved.ranges]
            output.print_json({"load": load, "state": moved.load.state, "ranges": ranges})


def _refuse_both(resume: int, *asked: object) -> None:
    if any(asked):
        raise WrongUseError(
            f"backfill {resume} is to go on, and something else is asked for too.",
            next_step="give --resume alone: what it loads was fixed when it was planned.",
        )


def _run(
    settings: Settings, pipeline: Pipeline, backfill_id: int, parallel: int, spark_log: TextIO, *, as_json: bool
) -> None:
    from penstock.backfill.run import run_backfill
    from penstock.cli.backfill_tables import describe_progress

    progress = run_backfill(settings, pipeline, backfill_id, parallel, output.tell, spark_log)
    if as_json:
        output.print_json(describe_progress(backfill_id, progress))
