"""`penstock stack`: the embedded stack, for trials, development and tests."""

# Typer reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.errors import PenstockError
from penstock_stack.embedded import Addresses, Ports, bring_up, find_stack, take_down

app = typer.Typer(no_args_is_help=True, help="Run PostgreSQL, Kafka and Airflow in a folder of their own.")

Folder = Annotated[Path, typer.Option("--dir", help="The folder that holds the stack, its data and its logs.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Port = Annotated[
    int | None, typer.Option(min=1, max=65535, help="A port; without the option the stack chooses a free port once.")
]
DEFAULT_FOLDER = Path(".penstock")


@contextmanager
def stopping(*, as_json: bool) -> Iterator[None]:
    """Turn errors of the stack into one line and an exit code; the error of a folder names the folder."""
    with output.exit_on_error(as_json=as_json):
        try:
            yield
        except OSError as error:
            what = f"{error.strerror}: {error.filename}."
            raise PenstockError(what, next_step="pass a --dir that you may write to.") from error


@app.command()
def up(
    *,
    folder: Folder = DEFAULT_FOLDER,
    db_port: Port = None,
    kafka_port: Port = None,
    airflow_port: Port = None,
    spark_port: Port = None,
    no_airflow: Annotated[bool, typer.Option("--no-airflow", help="Start only the database and the broker.")] = False,
    spark_connect: Annotated[
        bool, typer.Option("--spark-connect", help="Start a Spark server too, which the loads share.")
    ] = False,
    json: Json = False,
) -> None:
    """Start the services that do not run yet; data and ports stay the same at every start."""
    with stopping(as_json=json):
        asked = Ports(db=db_port, kafka=kafka_port, airflow=airflow_port, spark=spark_port)
        addresses = bring_up(folder, asked, airflow=not no_airflow, spark=spark_connect, tell=output.print_message)
        if json:
            output.print_json(asdict(addresses))
        else:
            _show(addresses)


@app.command()
def down(*, folder: Folder = DEFAULT_FOLDER, json: Json = False) -> None:
    """Stop all services with all their processes; the data stays."""
    with stopping(as_json=json):
        found = take_down(folder, tell=output.print_message)
        output.print_message(
            f"the stack in {folder} is down." if found else f"there is no stack in {folder}: nothing to stop."
        )
        if json:
            output.print_json({"dir": str(folder.resolve()), "stopped": found})


@app.command()
def status(*, folder: Folder = DEFAULT_FOLDER, json: Json = False) -> None:
    """Show the services that run, and their addresses."""
    with stopping(as_json=json):
        stack = find_stack(folder)
        running, addresses = stack.running(), stack.addresses()
        if json:
            output.print_json(asdict(addresses) | {"running": running})
            return
        for name, runs in running.items():
            output.print_message(f"{name} {'runs' if runs else 'is down'}.")
        _show(addresses)


def _show(addresses: Addresses) -> None:
    for name, value in asdict(addresses).items():
        # The password is not printed, because other people may see the screen.
        output.print_message(f"{name:12}{_hide_password(str(value or 'not running'))}")
    if addresses.airflow:
        output.print_message(f"log in to Airflow as admin; the password is in {addresses.dir}/airflow/passwords.json.")
    output.print_message(
        f"`penstock stack status --dir {addresses.dir} --json` prints the addresses with their passwords."
    )


def _hide_password(uri: str) -> str:
    uri, token, _ = uri.partition("/;token=")
    if token:
        return f"{uri}{token}***"
    scheme, separator, rest = uri.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{user.partition(':')[0]}:***@{host}" if at else uri
