"""`penstock verify`: whether the table holds what was published, and the log what was loaded."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, read_environment, whoami
from penstock.cli.output import stopping
from penstock.declaration.pipeline import read_named

if TYPE_CHECKING:
    from penstock.verify.faults import Fault
    from penstock.verify.run import Verified


def verify(
    name: Name,
    *,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Which share of what the log still holds is read again.")
    ] = 1.0,
    who: Who = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log while it reads.")] = False,
    json: Json = False,
) -> None:
    """Prove that the table holds what was published, row by row, and that the log still says the same."""
    from penstock.spark.submit import submit_reread
    from penstock.verify.run import verify_pipeline

    with stopping(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        spark_log = output.open_spark_log(verbose=verbose)
        verified = verify_pipeline(
            settings,
            pipeline,
            who or whoami(),
            share,
            lambda settings, verification: submit_reread(settings, verification, spark_log),
        )
        if verified is None:
            output.tell(f"{name}: it has loaded nothing yet.")
            if json:
                output.print_json({"pipeline": name, "verification": None, "state": "empty"})
            return
        if json:
            output.print_json(describe_verified(verified))
        else:
            _print_verified(verified)
        if verified.faults:
            raise typer.Exit(1)


def describe_verified(verified: "Verified") -> dict[str, Any]:
    """What `verify --json` prints."""
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
        "holes": dict(verified.holes),
        "faults": [_describe_fault(fault) for fault in verified.faults],
    }


def _describe_fault(fault: "Fault") -> dict[str, Any]:
    range_ = fault.range
    where = {"partition": range_.partition, "from": range_.from_offset, "until": range_.until_offset} if range_ else {}
    return {"kind": fault.kind, "generation": fault.generation, "load": fault.load, **where, "told": fault.told}


def _print_verified(verified: "Verified") -> None:
    output.result.print(verified.told, markup=False)
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
        table.add_row(fault.kind, *generation, str(fault.load or ""), *where, escape(fault.told))
    output.result.print(table)
    output.tell(f"Next: {' '.join(verified.next_steps)}")
