"""`penstock incidents`, `penstock mute` and `penstock unmute`: the open trouble, and its notices."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Who, Why, find_user, read_environment

if TYPE_CHECKING:
    from penstock.ledger.incident import Incident

IncidentId = Annotated[int, typer.Argument(help="The incident's number.")]


def incidents(
    name: Annotated[str | None, typer.Argument(help="The pipeline's name; all pipelines without it.")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Show the newest 200, also those that have ended.")] = False,
    json: Json = False,
) -> None:
    """Show the open incidents: what is wrong, where, since when, how often, and the next step."""
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.incident import read_incidents

    with output.exit_on_error(as_json=json, pipeline=name):
        with open_ledger(read_environment().db) as connection:
            found = read_incidents(connection, name, ended=all_)
        if json:
            output.print_json({"incidents": [_describe(each) for each in found]})
        else:
            _print(found)


def mute(
    incident: IncidentId,
    *,
    why: Why,
    for_: Annotated[str | None, typer.Option("--for", help="How long: 30m, 12h or 7d.")] = None,
    until: Annotated[str | None, typer.Option(help="Until when: 2026-01-31T00:00:00Z.")] = None,
    who: Who = None,
    json: Json = False,
) -> None:
    """Send no notice about an incident until a time, except the notice of its end."""
    from penstock.decide.mute import mute_incident, read_end

    with output.exit_on_error(as_json=json):
        end = read_end(for_, until, datetime.now(UTC))
        found = mute_incident(read_environment().db, incident, end, who or find_user(), why)
        _report(found, as_json=json)


def unmute(incident: IncidentId, *, why: Why, who: Who = None, json: Json = False) -> None:
    """End the mute of an incident: the notices that waited are sent."""
    from penstock.decide.mute import unmute_incident

    with output.exit_on_error(as_json=json):
        found = unmute_incident(read_environment().db, incident, who or find_user(), why)
        _report(found, as_json=json)


def _report(found: "Incident", *, as_json: bool) -> None:
    if as_json:
        output.print_json(_describe(found))
        return
    until = f" until {found.muted_until.isoformat(timespec='seconds')}" if found.muted_until else ""
    output.print_message(f"incident {found.incident} of {found.pipeline} is {found.state}{until}.")


def _describe(found: "Incident") -> dict[str, Any]:
    moments = {name: value for name, value in asdict(found).items() if isinstance(value, datetime)}
    ranges = [output.describe_range(range_) for range_ in found.ranges]
    return asdict(found) | {name: value.isoformat() for name, value in moments.items()} | {"ranges": ranges}


def _print(found: Sequence["Incident"]) -> None:
    from penstock.errors import name_ranges

    if not found:
        output.print_message("no open incidents.")
    for each in found:
        colour = {"open": "red", "muted": "yellow"}.get(each.state, "green")
        load = f" load {each.load}" if each.load is not None else ""
        output.results.print(
            f"[bold]{each.incident}[/]  {each.pipeline}{load}  [{colour}]{each.kind}[/] ({each.state})"
        )
        times = f", seen {each.times_seen} times, last {each.last_seen_at:%Y-%m-%d %H:%M} UTC"
        lines = {
            "why": each.message,
            "where": name_ranges(each.ranges),
            "since": f"{each.opened_at:%Y-%m-%d %H:%M} UTC{times if each.times_seen > 1 else ''}",
            "muted": f"until {each.muted_until:%Y-%m-%d %H:%M} UTC by {each.muted_by}: {each.muted_why}"
            if each.state == "muted"
            else "",
            "ended": f"{each.ended_at:%Y-%m-%d %H:%M} UTC: {each.ended_why or 'another incident replaced it'}"
            if each.ended_at
            else "",
            "next": "" if each.ended_at else each.next_step,
        }
        for word, text in lines.items():
            if text:
                output.results.print(f"  {word + ':':6} {text}", markup=False)
