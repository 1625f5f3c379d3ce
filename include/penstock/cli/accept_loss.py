"""`penstock accept-loss`: a person accepts the offsets that the log lost."""

from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, Why, find_user, read_environment
from penstock.declaration.pipeline import read_named


def accept_loss(name: Name, *, why: Why, who: Who = None, json: Json = False) -> None:
    """Record exactly the offsets that the log lost; the next run continues from the log's start."""
    from penstock.decide.accept_loss import accept_loss as accept

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        accepted = accept(settings.db, settings.kafka, pipeline, who or find_user(), why)
        output.print_message(accepted.message)
        if json:
            losses = [{**output.describe_range(loss.range), "reason": str(loss)} for loss in accepted.losses]
            output.print_json({"pipeline": name, "state": "accepted", "losses": losses})
