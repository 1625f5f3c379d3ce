"""`penstock adopt`: a person lets a pipeline continue with another topic, or with a truncated log."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, Why, find_user, read_environment
from penstock.declaration.pipeline import read_named
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from penstock.decide.adopt import Adoption

From = Annotated[
    Literal["earliest", "latest"] | None,
    typer.Option("--from", help="Start position in a topic that was never loaded; earliest by default."),
]


def adopt(
    name: Name,
    *,
    why: Why,
    who: Who = None,
    start: From = None,
    yes: Annotated[bool, typer.Option("--yes", help="Adopt without a question.")] = False,
    json: Json = False,
) -> None:
    """Continue with another topic of the same name, or with a truncated log; show the consequences and ask first."""
    from penstock.decide.adopt import adopt as adopt_log
    from penstock.decide.adopt import preview_adoption

    with output.exit_on_error(as_json=json, pipeline=name):
        if json and not yes:
            raise WrongUseError("--json asks no question.", next_step="pass --yes with --json.")
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        shown = preview_adoption(settings.db, settings.kafka, pipeline, start)
        for line in _describe_consequences(shown):
            output.print_message(line)
        if not yes and not typer.confirm("adopt it?", err=True):
            output.print_message("nothing was changed.")
            raise typer.Exit(1)
        adopted = adopt_log(settings.db, settings.kafka, pipeline, start, who or find_user(), why, shown)
        output.print_message(adopted.message)
        if json:
            output.print_json(_describe(name, adopted.generation_id, dict(adopted.positions)))


def _describe(name: str, generation: int, positions: dict[int, int]) -> dict[str, Any]:
    described = [{"partition": number, "position": position} for number, position in sorted(positions.items())]
    return {"pipeline": name, "state": "adopted", "generation": generation, "positions": described}


def _describe_consequences(drafted: "Adoption") -> list[str]:
    """The consequences of an adoption, line by line."""
    from penstock.errors import name_few
    from penstock.kafka.identity import describe_change

    old, name = drafted.old, drafted.pipeline.name
    changed = describe_change(drafted.pipeline.topic, old.identity, drafted.log.identity)
    return [
        f"{name}: {changed or 'the log was truncated'}.",
        f"so far generation {old.generation_id}, cluster {old.identity.cluster_id}, topic id {old.identity.topic_id}:",
        *name_few(
            [
                f"  partition {number}: {old.covered[number]} offsets in the table, position {position}"
                for number, position in old.positions.items()
            ]
        ),
        f"now cluster {drafted.log.cluster_id}, topic id {drafted.log.topic_id}:",
        *name_few(
            [
                f"  partition {number}: the log holds [{part.start}, {part.end}){_describe_truncation(drafted, number)}"
                f"; the next load starts at {drafted.positions[number]}"
                for number, part in drafted.log.partitions.items()
            ]
        ),
        *name_few(
            [f"  partition {number} is missing" for number in old.positions if number not in drafted.log.partitions]
        ),
        f"the rows of generation {old.generation_id} stay in {drafted.pipeline.target}; their _load_id leads to it.",
        *name_few([f"not in the table, and after the adoption no backfill can load it: {gap}" for gap in old.gaps]),
    ]


def _describe_truncation(drafted: "Adoption", partition: int) -> str:
    if drafted.known is None or partition not in drafted.truncations:
        return ""
    truncated_at, position = drafted.truncations[partition], drafted.known.positions[partition]
    lost = f"[{truncated_at}, {position})"
    return f" and was truncated at {truncated_at}: it no longer holds the records of {lost} that the table holds"
