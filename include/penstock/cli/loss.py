"""`penstock accept-loss` and `penstock adopt`: what a person decides when the log is not what it was."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, Why, read_environment, whoami
from penstock.cli.output import stopping
from penstock.declaration.pipeline import read_named
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from penstock.decide.adopt import Adoption


From = Annotated[
    Literal["earliest", "latest"] | None,
    typer.Option("--from", help="Where to begin in a topic not loaded before; earliest if not given."),
]


def accept_loss(name: Name, *, why: Why, who: Who = None, json: Json = False) -> None:
    """Record what the log has lost, exactly, and let the next run go on from the log's start."""
    from penstock.cli.tables import describe_range
    from penstock.decide.accept_loss import accept_loss as accept

    with stopping(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        accepted = accept(settings.db, settings.kafka, pipeline, who or whoami(), why)
        output.tell(accepted.told)
        if json:
            losses = [{**describe_range(loss.range), "reason": str(loss)} for loss in accepted.losses]
            output.print_json({"pipeline": name, "state": "accepted", "losses": losses})


def adopt(
    name: Name,
    *,
    why: Why,
    who: Who = None,
    start: From = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    json: Json = False,
) -> None:
    """Go on with another topic under the pipeline's name, or with a log that was cut; say first what that means."""
    from penstock.decide.adopt import adopt as adopt_log
    from penstock.decide.adopt import preview_adoption

    with stopping(as_json=json, pipeline=name):
        if json and not yes:
            raise WrongUseError("--json asks nobody.", next_step="give --yes with it.")
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        shown = preview_adoption(settings.db, settings.kafka, pipeline, start)
        for line in describe_adoption(shown):
            output.tell(line)
        if not yes and not typer.confirm("adopt it?", err=True):
            output.tell("nothing is changed.")
            raise typer.Exit(1)
        adopted = adopt_log(settings.db, settings.kafka, pipeline, start, who or whoami(), why, shown)
        output.tell(adopted.told)
        if json:
            output.print_json(_describe_adopted(name, adopted.generation_id, dict(adopted.positions)))


def _describe_adopted(name: str, generation: int, positions: dict[int, int]) -> dict[str, Any]:
    described = [{"partition": number, "position": position} for number, position in sorted(positions.items())]
    return {"pipeline": name, "state": "adopted", "generation": generation, "positions": described}


def describe_adoption(drafted: "Adoption") -> list[str]:
    """Say what an adoption means, line by line."""
    from penstock.errors import name_few
    from penstock.kafka.identity import describe_change

    old, name = drafted.old, drafted.pipeline.name
    changed = describe_change(drafted.pipeline.topic, old.identity, drafted.log.identity)
    return [
        f"{name}: {changed or 'the log was cut'}.",
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
                f"  partition {number}: the log holds [{part.start}, {part.end}){_describe_cut(drafted, number)}; "
                f"the next load starts at {drafted.positions[number]}"
                for number, part in drafted.log.partitions.items()
            ]
        ),
        *name_few(
            [f"  partition {number} is gone" for number in old.positions if number not in drafted.log.partitions]
        ),
        f"the rows of generation {old.generation_id} stay in {drafted.pipeline.target}; _load_id leads to it.",
        *name_few([f"not in the table, and out of reach for backfills from then on: {gap}" for gap in old.gaps]),
    ]


def _describe_cut(drafted: "Adoption", partition: int) -> str:
    if drafted.known is None or partition not in drafted.cuts:
        return ""
    cut, position = drafted.cuts[partition], drafted.known.positions[partition]
    return f" and was cut at {cut}: what the table holds of [{cut}, {position}) is not in it any more"
