"""`penstock verify`: a comparison of the table with the ledger and with the log."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, find_user, read_environment
from penstock.declaration.pipeline import read_named
from penstock.model.spans import read_ranges

if TYPE_CHECKING:
    from penstock.verify.faults import Fault
    from penstock.verify.run import Verified


def verify(
    name: Name,
    *,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="The share of the offsets in the log that is read again: 0 to 1.")
    ] = 1.0,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            "--offsets", help="Read only these offsets again, as partition:from-until; repeat it for each partition."
        ),
    ] = None,
    within: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=36_500,
            help="Count the rows of new loads and of a share of the others, such that daily verifications count every "
            "load again within so many days; without it all rows are counted.",
        ),
    ] = None,
    who: Who = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print Spark's log while it reads.")] = False,
    json: Json = False,
) -> None:
    """Prove that the table holds the published rows, row by row, and that the log still holds the same records."""
    from penstock.spark.submit import submit_reread
    from penstock.verify.rotation import Rotation
    from penstock.verify.run import verify_pipeline

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        ranges = read_ranges(offsets or ())
        pipeline = read_named(settings.pipelines, name)
        spark_log = output.open_spark_log(verbose=verbose)
        verified = verify_pipeline(
            settings,
            pipeline,
            who or find_user(),
            share,
            lambda settings, verification: submit_reread(settings, verification, spark_log),
            ranges,
            None if within is None else Rotation(within),
        )
        if verified is None:
            output.print_message(f"{name}: it has loaded nothing yet.")
            if json:
                output.print_json({"pipeline": name, "verification": None, "state": "empty"})
            return
        if json:
            output.print_json(_describe(verified))
        else:
            _print(verified)
        if verified.faults:
            raise typer.Exit(1)


def _describe(verified: "Verified") -> dict[str, Any]:
    return {
        "pipeline": verified.pipeline,
        "verification": verified.verification_id,
        "state": "faulty" if verified.faults else "proven",
        "ranges": verified.ranges,
        "rows": verified.rows,
        "chunks": verified.chunks,
        "chunks_held": verified.chunks_held,
        "chunks_reread": verified.chunks_reread,
        "rows_compared": verified.rows_compared,
        "loads_skipped": verified.loads_skipped,
        "loads_dropped": verified.loads_dropped,
        "holes": dict(verified.holes),
        "faults": [_describe_fault(fault) for fault in verified.faults],
    }


def _describe_fault(fault: "Fault") -> dict[str, Any]:
    range_ = fault.range
    where = {"partition": range_.partition, "from": range_.from_offset, "until": range_.until_offset} if range_ else {}
    return {"kind": fault.kind, "generation": fault.generation, "load": fault.load, **where, "told": fault.message}


def _print(verified: "Verified") -> None:
    output.results.print(verified.summary, markup=False)
    if not verified.faults:
        return
    earlier = any(fault.generation not in (None, verified.generation) for fault in verified.faults)
    table = Table(
        "fault", *(["generation"] if earlier else []), "load", "partition", "offsets", "", box=None, pad_edge=False
    )
    for fault in verified.faults:
        range_ = fault.range
        where = (str(range_.partition), f"{range_.from_offset}-{range_.until_offset}") if range_ else ("", "")
        generation = [str(fault.generation or "")] if earlier else []
        table.add_row(fault.kind, *generation, str(fault.load or ""), *where, escape(fault.message))
    output.results.print(table)
    output.print_message(f"Next: {' '.join(verified.next_steps)}")
