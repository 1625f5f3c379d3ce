"""`penstock rebuild`: a result is computed again from the rows of the target."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from dataclasses import asdict
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, find_user, read_environment
from penstock.declaration.pipeline import read_named


def rebuild(
    name: Name,
    table: Annotated[str, typer.Argument(help="The table of the result, schema.table.")],
    *,
    who: Who = None,
    json: Json = False,
) -> None:
    """Compute a result again from the rows of the target, while loads continue."""
    from penstock.ledger.connection import concerning
    from penstock.load.results.rebuild import rebuild_result

    with output.exit_on_error(as_json=json, pipeline=name), concerning(name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        rebuilt = rebuild_result(settings.db, pipeline, table, who or find_user(), output.print_message)
        output.print_message(f"{name}: {rebuilt.message}")
        if json:
            output.print_json({"pipeline": name, **asdict(rebuilt)})
