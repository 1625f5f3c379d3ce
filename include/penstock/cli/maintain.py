"""`penstock maintain`: leaves are merged, and data past its keeping time is dropped."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Names, choose_each, read_environment
from penstock.declaration.pipeline import Pipeline
from penstock.errors import PenstockError
from penstock.ledger.connection import concerning

if TYPE_CHECKING:
    from penstock.maintenance.run import Maintained


def maintain(
    names: Names = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the merges and drops; change nothing.")] = False,
    json: Json = False,
) -> None:
    """Merge the leaves of targets, and drop data past its keeping time, while loads and readers continue."""
    with output.exit_on_error(as_json=json):
        settings = read_environment()
        chosen = choose_each(settings.pipelines, names)
        failed: list[tuple[str, PenstockError]] = [(broken.name, broken.error) for broken in chosen.broken]
        documents, codes = [], []
        for pipeline in chosen.pipelines:
            try:
                done = _maintain(settings.db, pipeline, dry_run=dry_run)
            except PenstockError as error:  # the other pipelines are maintained
                failed.append((pipeline.name, error))
                continue
            documents.append(asdict(done))
            if done.refused:
                output.print_message(str(done.refused))
                codes.append(done.refused.exit_code)
        for name, failure in failed:
            output.print_message(str(failure))
            documents.append(output.describe_error(failure) | {"pipeline": name})
        if json:
            output.print_json({"pipelines": documents})
        codes += [failure.exit_code for _, failure in failed]
        if codes:
            raise typer.Exit(max(codes))


def _maintain(db: str, pipeline: Pipeline, *, dry_run: bool) -> "Maintained":
    from penstock.maintenance.run import maintain as maintain_pipeline
    from penstock.maintenance.run import preview_maintenance

    with concerning(pipeline.name):
        done = preview_maintenance(db, pipeline) if dry_run else maintain_pipeline(db, pipeline, output.print_message)
    output.print_message(_describe(done, dry_run=dry_run))
    return done


def _describe(done: "Maintained", *, dry_run: bool) -> str:
    now, dropping = ("would be", "would drop") if dry_run else ("now", "dropped")
    dropped = done.dropped
    counts = [
        (len(dropped.kept_loads), "loads that were rolled back: rows no longer kept"),
        (dropped.uncounted, "quarantined records that never counted"),
        (dropped.emptied, "quarantined records: their contents"),
        (dropped.tasks, "records of tasks of old attempts"),
        (dropped.tables, "tables of old attempts"),
        (dropped.check_results, "results of checks"),
        (dropped.guards, "guards of deleted keys of results"),
        (dropped.leaves, "leaves with rows past keep_rows_days"),
    ]
    parts = "; ".join(f"{count:,} {noun}" for count, noun in counts if count)
    return (
        f"{done.pipeline}: leaves before: {done.leaves_before}, {now}: {done.leaves_after} (merges: {done.merges}); "
        f"{dropping}: {parts or 'nothing'}."
    )
