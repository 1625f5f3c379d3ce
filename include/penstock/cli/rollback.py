"""`penstock rollback`: a published load leaves its target, or returns to it."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, LoadId, Who, Why, find_user, read_environment


def rollback(
    load: LoadId,
    *,
    why: Why,
    who: Who = None,
    undo: Annotated[bool, typer.Option("--undo", help="Put a load back that was rolled back.")] = False,
    json: Json = False,
) -> None:
    """Take a published load out of its target; its ranges become gaps, and its rows are kept for a while."""
    from penstock.decide.rollback import roll_back, undo_rollback
    from penstock.lineage.emit import emit_lineage_of_move

    with output.exit_on_error(as_json=json, load=load):
        settings = read_environment()
        moved = (undo_rollback if undo else roll_back)(settings.db, load, who or find_user(), why)
        emit_lineage_of_move(settings, moved.load, moved.ranges)
        output.print_message(moved.message)
        if json:
            ranges = [output.describe_range(range_) for range_ in moved.ranges]
            output.print_json({"load": load, "state": moved.load.state, "ranges": ranges})
