"""`penstock quarantine`: the records that could not become rows, and decisions on them."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import base64
import json as json_library
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from penstock import advice
from penstock.cli import output
from penstock.cli.arguments import Json, Name, Who, Why, find_user, read_environment
from penstock.cli.notices import sending
from penstock.declaration.pipeline import read_named
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from penstock.ledger.quarantine import Quarantined, Selection
    from penstock.settings import Settings

app = typer.Typer(no_args_is_help=True, help="See the records that could not become rows, and decide on them.")

Reason = Annotated[str | None, typer.Option(help="Only records with this reason, such as bad_json or rule.")]
Rule = Annotated[str | None, typer.Option(help="Only records that failed this rule.")]
LoadOption = Annotated[int | None, typer.Option("--load", help="Only records of this load.")]
At = Annotated[str | None, typer.Option(help="Only the record at PARTITION:OFFSET.")]
Since = Annotated[str | None, typer.Option(help="Only loads published since this time, such as 2026-01-31T00:00Z.")]
Until = Annotated[str | None, typer.Option(help="Only loads published before this time.")]
All = Annotated[bool, typer.Option("--all", help="All quarantined records of the pipeline.")]


def select(
    pipeline: str,
    reason: str | None,
    rule: str | None,
    load: int | None,
    at: str | None,
    since: str | None,
    until: str | None,
) -> "Selection":
    """Make the selection that the options describe."""
    from penstock.decide.quarantine import read_selection

    return read_selection(pipeline, reason, rule, load, at, since, until)


def read_known(name: str) -> "Settings":
    """Read the settings; refuse the name of a pipeline that neither the ledger nor a declaration knows."""
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.pipeline import find_pipeline

    settings = read_environment()
    with open_ledger(settings.db) as connection:
        known = find_pipeline(connection, name) is not None
    if not known:
        read_named(settings.pipelines, name)
    return settings


@app.command(name="list")
def list_(
    name: Name,
    *,
    reason: Reason = None,
    rule: Rule = None,
    load: LoadOption = None,
    since: Since = None,
    until: Until = None,
    json: Json = False,
) -> None:
    """Count the quarantined records of published loads by load, reason and rule, with the places of the first ones."""
    from penstock.decide.quarantine import count_records

    with output.exit_on_error(as_json=json, pipeline=name):
        groups = count_records(read_known(name).db, select(name, reason, rule, load, None, since, until))
        if json:
            output.print_json({"pipeline": name, "records": sum(each["records"] for each in groups), "groups": groups})
        elif groups:
            _print_groups(groups)
        else:
            output.print_message(f"{name}: no quarantined record is selected.")


def _print_groups(groups: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("load", "published", "reason", "rule", "records", "dropped", "first"):
        # In 80 columns only names of rules and places are folded.
        table.add_column(heading, no_wrap=heading not in ("rule", "first"), overflow="fold")
    for each in groups:
        published = each["published_at"].astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ") if each["published_at"] else ""
        more = " …" if each["records"] > len(each["first"]) else ""
        values = (each["load"], published, each["reason"], each["rule"] or "", each["records"], each["dropped"])
        table.add_row(*map(str, values), ", ".join(each["first"]) + more)
    output.results.print(table)


@app.command()
def show(
    name: Name,
    *,
    at: At = None,
    reason: Reason = None,
    rule: Rule = None,
    load: LoadOption = None,
    payload: Annotated[
        bool, typer.Option("--payload", help="Show key, value and headers too; the ledger keeps an event.")
    ] = False,
    who: Who = None,
    json: Json = False,
) -> None:
    """Show quarantined records, at most a hundred; their contents are hidden without --payload."""
    from penstock.decide.quarantine import show_records

    with output.exit_on_error(as_json=json, pipeline=name):
        selection = select(name, reason, rule, load, at, None, None)
        records = show_records(read_known(name).db, selection, who or find_user(), payload=payload)
        documents = [describe_record(record, payload=payload) for record in records]
        if json:
            output.print_json({"pipeline": name, "records": documents})
            return
        if not documents:
            output.print_message(f"{name}: no quarantined record is selected.")
        for document in documents:
            for field, value in document.items():
                output.results.print(f"{field:>10}  {value}", markup=False)
            output.results.print()


@app.command()
def export(
    name: Name,
    *,
    to: Annotated[Path, typer.Option("--to", help="The file to write; - is stdout.")] = Path("-"),
    at: At = None,
    reason: Reason = None,
    rule: Rule = None,
    load: LoadOption = None,
    since: Since = None,
    until: Until = None,
    who: Who = None,
    json: Json = False,
) -> None:
    """Write quarantined records with their contents, one JSON document a line; the ledger keeps an event."""
    from penstock.decide.quarantine import export_records

    with output.exit_on_error(as_json=json, pipeline=name):
        if json and to == Path("-"):
            raise WrongUseError("stdout cannot hold the records and a document.", next_step=advice.EXPORT_TO_FILE)
        records = export_records(
            read_known(name).db, select(name, reason, rule, load, at, since, until), who or find_user()
        )
        try:
            file = sys.stdout if to == Path("-") else to.open("w", encoding="utf-8")
        except OSError as error:
            raise WrongUseError(f"{to}: {error.strerror}.", next_step=advice.EXPORT_TO_FILE) from error
        count = 0
        try:
            for record in records:
                file.write(json_library.dumps(describe_record(record, payload=True), default=str) + "\n")
                count += 1
        finally:
            if file is not sys.stdout:
                file.close()
        output.print_message(f"{name}: {count} quarantined records are written to {to}.")
        if json:
            output.print_json({"pipeline": name, "records": count, "file": str(to)})


@app.command()
def drop(
    name: Name,
    *,
    why: Why,
    at: At = None,
    reason: Reason = None,
    rule: Rule = None,
    load: LoadOption = None,
    since: Since = None,
    until: Until = None,
    everything: All = False,
    who: Who = None,
    json: Json = False,
) -> None:
    """Drop the contents of quarantined records for good; their offsets and reasons stay in the ledger."""
    from penstock.decide.quarantine import drop_records, refuse_everything

    with output.exit_on_error(as_json=json, pipeline=name):
        selection = select(name, reason, rule, load, at, since, until)
        refuse_everything(selection, everything=everything)
        dropped = drop_records(read_environment().db, selection, who or find_user(), why)
        output.print_message(dropped.message)
        if json:
            loads = [{"load": number, "records": records} for number, records in dropped.by_load.items()]
            output.print_json({"pipeline": name, "records": sum(dropped.by_load.values()), "loads": loads})


def redrive(
    name: Name,
    *,
    at: At = None,
    reason: Reason = None,
    rule: Rule = None,
    load: LoadOption = None,
    since: Since = None,
    until: Until = None,
    everything: All = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the records that would pass.")] = False,
    why: Annotated[str | None, typer.Option(help="The reason; the ledger keeps it.")] = None,
    who: Who = None,
    json: Json = False,
) -> None:
    """Decode and judge quarantined records by today's declaration and rules, and publish those that pass."""
    from penstock.backfill.redrive import redrive as redrive_records
    from penstock.decide.quarantine import refuse_everything

    with output.exit_on_error(as_json=json, pipeline=name):
        settings = read_environment()
        selection = select(name, reason, rule, load, at, since, until)
        refuse_everything(selection, everything=everything)
        pipeline = read_named(settings.pipelines, name)
        found = redrive_records(
            settings, pipeline, selection, who or find_user(), output.print_message, why=why, dry_run=dry_run
        )
        for line in found.describe(name, dry_run=dry_run):
            output.print_message(line)
        if json:
            rejected = [
                {"reason": why, "rule": rule, "records": count} for (why, rule), count in found.rejected.items()
            ]
            counts = {"chosen": found.chosen, "passing": found.passing, "rejected": rejected, "left": found.left}
            output.print_json({"pipeline": name, "dry_run": dry_run, **counts, "loads": found.loads})


app.command()(sending(redrive))


def describe_record(record: "Quarantined", *, payload: bool) -> dict[str, Any]:
    """The document of a record; key and value as text where they are UTF-8, otherwise in base64."""
    document: dict[str, Any] = {
        "load": record.load,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp.isoformat() if record.timestamp else None,
        "reason": record.reason,
        "rule": record.rule,
        "detail": record.detail,
        "first": None if record.first_offset is None else f"{record.first_partition}:{record.first_offset}",
        "dropped_at": record.dropped_at.isoformat() if record.dropped_at else None,
    }
    if payload:
        document |= _describe_bytes("key", record.key) | _describe_bytes("value", record.value)
        document["headers"] = record.headers
    return document


def _describe_bytes(name: str, given: bytes | None) -> dict[str, str | None]:
    if given is None:
        return {name: None}
    try:
        return {name: given.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(given).decode()}
