"""`penstock watch`: the trouble that no run reports, and the notices that are due; for cron, where no Airflow runs."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import os

import typer

from penstock.cli import output
from penstock.cli.arguments import Json, Names, choose_each, read_environment
from penstock.cli.notices import export
from penstock.settings import read_exporter


def watch(names: Names = None, *, json: Json = False) -> None:
    """Record overdue loads, stuck transactions and records about to be deleted; then send the notices that are due."""
    from penstock.alerts.routes import find_routes
    from penstock.alerts.sender import send_all
    from penstock.doctor.watch import watch_pipelines
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.incident import read_incidents
    from penstock.status.sampler import sample_pipelines

    with output.exit_on_error(as_json=json):
        settings = read_environment()
        chosen = choose_each(settings.pipelines, names)
        errors = watch_pipelines(settings.db, lambda _: settings.kafka, chosen.pipelines)
        if read_exporter(os.environ):  # a gauge of the lag needs a new sample of the log
            sample_pipelines(settings.db, lambda _: settings.kafka, chosen.pipelines)
            export(os.environ)
        find_urls = find_routes(os.environ)
        sent = send_all(settings.db, find_urls) if find_urls else 0
        with open_ledger(settings.db) as connection:
            still_open = sum(each.state == "open" for each in read_incidents(connection, None, ended=False))
        for error in (*errors, *(each.error for each in chosen.broken)):
            output.print_message(str(error))
        if json:
            document = {"open": still_open, "sent": sent, "errors": [output.describe_error(each) for each in errors]}
            output.print_json(document)
        else:
            output.print_message(f"incidents open: {still_open}; notices sent: {sent}. Next: `penstock incidents`.")
        if errors or chosen.broken:
            raise typer.Exit(chosen.exit_code(1 if errors else 0))
