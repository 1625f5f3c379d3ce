"""The commands. Settings are read here, at the entry, and handed on."""

from importlib.util import find_spec
from typing import Annotated

import typer

from penstock.cli import output, tables
from penstock.cli.arguments import (
    Json,
    LoadId,
    Name,
    Names,
    Who,
    Why,
    choose_each,
    choose_pipelines,
    find_folder,
    read_environment,
    whoami,
)
from penstock.cli.backfill import backfill, rollback
from penstock.cli.holes import holes
from penstock.cli.loss import accept_loss, adopt
from penstock.cli.maintenance import maintain
from penstock.cli.output import stopping
from penstock.cli.verify import verify
from penstock.declaration.pipeline import read_named

app = typer.Typer(
    name="penstock",
    help="Loads Kafka topics into PostgreSQL, batch by batch, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
if find_spec("penstock_stack"):
    # The embedded stack is for trying and testing. It is a package of its own, which production does not install.
    from penstock_stack.command import app as stack_app

    app.add_typer(stack_app, name="stack")

app.command()(backfill)
app.command()(rollback)
app.command("accept-loss")(accept_loss)
app.command()(adopt)
app.command()(verify)
app.command()(holes)
app.command()(maintain)


@app.command()
def check(
    names: Names = None,
    *,
    offline: Annotated[bool, typer.Option("--offline", help="Read the files only; ask no service.")] = False,
    json: Json = False,
) -> None:
    """Check declarations: all mistakes at once, and whether topic, target and rights are as they say."""
    from penstock.doctor.services import check_services

    with stopping(as_json=json):
        pipelines = choose_pipelines(find_folder(), names)
        findings = [] if offline else check_services(read_environment(), pipelines)
        if json:
            output.print_json(tables.findings_document(pipelines, findings))
        else:
            tables.print_findings(pipelines, findings)
        wrong = sum(not finding.fits for finding in findings)
        if wrong:
            output.tell(f"{wrong} of {len(findings)} checks against the services failed; mend what is listed.")
            raise typer.Exit(2)


@app.command()
def migrate(*, json: Json = False) -> None:
    """Create the ledger in the database, or bring it up to date."""
    from penstock.ledger.connection import migrate as migrate_ledger

    with stopping(as_json=json):
        migrated = migrate_ledger(read_environment().db)
        applied = migrated.applied
        if json:
            output.print_json({"applied": applied, "refused": migrated.refused})
            return
        output.tell(f"applied {', '.join(applied)}." if applied else "the ledger is up to date.")
        if migrated.refused:
            output.tell("the role in PENSTOCK_DB may not do this; Penstock works without it. For a superuser:")
            output.tell("\n".join(f"{statement};" for statement in migrated.refused))


@app.command()
def plan(name: Name, *, json: Json = False) -> None:
    """Show what the next load would read. Nothing is written."""
    from penstock.load.run import preview_load

    with stopping(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        planned = preview_load(settings, pipeline)
        if json:
            output.print_json(tables.plan_document(planned))
        else:
            tables.print_plan(planned)


@app.command()
def run(
    name: Name,
    *,
    run_id: Annotated[str | None, typer.Option(help="A name for this run; the same name finds the same load.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log while it stages.")] = False,
    json: Json = False,
) -> None:
    """Load what is new: plan, stage, validate, publish."""
    from penstock.cli.progress import following
    from penstock.load.run import name_run, run_load

    with stopping(as_json=json, pipeline=name):
        settings = read_environment()
        pipeline = read_named(settings.pipelines, name)
        with following(settings.db, pipeline.name):
            spark_log = output.open_spark_log(verbose=verbose)
            load = run_load(settings, pipeline, run_id or name_run(), output.tell, spark_log)
        if json:
            output.print_json(tables.load_document(settings, pipeline, load))
        elif load:
            tables.print_load(settings, load)


@app.command()
def status(names: Names = None, *, json: Json = False) -> None:
    """Say how each pipeline is, why, and what to do next."""
    from penstock.ledger.connection import open_ledger
    from penstock.status.pipelines import read_broken_status, read_status

    with stopping(as_json=json):
        settings = read_environment()
        chosen = choose_each(settings.pipelines, names)
        with open_ledger(settings.db) as connection:
            found = read_status(connection, settings.kafka, chosen.pipelines)
            found += [read_broken_status(connection, each.name, each.error.what) for each in chosen.broken]
        if json:
            output.print_json(tables.status_document(found))
        else:
            tables.print_status(found)
        if chosen.broken:
            raise typer.Exit(chosen.exit_code())


@app.command()
def doctor(names: Names = None, *, json: Json = False) -> None:
    """Look for settings that can lose records, and tell how long what is not loaded yet is kept."""
    from penstock.cli.doctor import doctor_document, print_doctor
    from penstock.doctor.answers import read_known
    from penstock.doctor.examination import diagnose_broken, examine_pipelines
    from penstock.ledger.connection import open_ledger

    with stopping(as_json=json):
        settings = read_environment()
        chosen = choose_each(settings.pipelines, names)
        with open_ledger(settings.db) as connection:
            known = read_known(connection, chosen.pipelines)
        found = examine_pipelines(known, settings.kafka, chosen.pipelines)
        found += [diagnose_broken(each.name, each.error.what) for each in chosen.broken]
        if json:
            output.print_json(doctor_document(found))
        else:
            print_doctor(found)
        wrong = sum(finding.level == "wrong" for diagnosis in found for finding in diagnosis.findings)
        if wrong:
            output.tell(f"{wrong} findings are wrong: records can be lost. Change what is listed.")
            raise typer.Exit(chosen.exit_code(1))


@app.command()
def approve(load: LoadId, *, why: Why, who: Who = None, json: Json = False) -> None:
    """Publish a held load as it is."""
    from penstock.decide.settle import approve_load

    with stopping(as_json=json, load=load):
        settings = read_environment()
        approve_load(settings.db, settings.kafka, load, who or whoami(), why)
        _tell_settled(load, "published", as_json=json)


@app.command()
def discard(load: LoadId, *, why: Why, who: Who = None, json: Json = False) -> None:
    """Give an unpublished load up; its offsets are planned again by the next load."""
    from penstock.decide.settle import discard_load

    with stopping(as_json=json, load=load):
        discard_load(read_environment().db, load, who or whoami(), why)
        _tell_settled(load, "discarded", as_json=json)


def _tell_settled(load: int, state: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"load": load, "state": state})
    else:
        output.tell(f"load {load} is {state}.")


def main() -> None:
    """The entry point `penstock`."""
    app()


if __name__ == "__main__":
    main()
