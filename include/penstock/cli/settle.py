"""`penstock approve` and `penstock discard`: the two ends of a load that is held."""

from penstock.cli import output
from penstock.cli.arguments import Json, LoadId, Who, Why, find_user, read_environment


def approve(load: LoadId, *, why: Why, who: Who = None, json: Json = False) -> None:
    """Publish a held load as it is."""
    from penstock.decide.settle import approve_load
    from penstock.lineage.emit import emit_lineage

    with output.exit_on_error(as_json=json, load=load):
        settings = read_environment()
        approve_load(settings.db, settings.kafka, load, who or find_user(), why)
        emit_lineage(settings, load)
        _print_state(load, "published", as_json=json)


def discard(load: LoadId, *, why: Why, who: Who = None, json: Json = False) -> None:
    """Discard an unpublished load; the next load plans its offsets again."""
    from penstock.decide.settle import discard_load

    with output.exit_on_error(as_json=json, load=load):
        discard_load(read_environment().db, load, who or find_user(), why)
        _print_state(load, "discarded", as_json=json)


def _print_state(load: int, state: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"load": load, "state": state})
    else:
        output.print_message(f"load {load} is {state}.")
