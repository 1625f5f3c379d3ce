"""`penstock stack`: the embedded stack, for trying, developing and testing."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from penstock.stack.embedded import Addresses, Ports, bring_up, find_stack, take_down

app = typer.Typer(no_args_is_help=True, help="Run PostgreSQL, Kafka and Airflow in a folder of their own.")
people = Console(stderr=True, highlight=False, soft_wrap=True)

Folder = Annotated[Path, typer.Option("--dir", help="The folder that holds the stack, its data and its logs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="A port; without it, a free one is chosen once.")]
DEFAULT_FOLDER = Path(".penstock")


@app.command()
def up(
    folder: Folder = DEFAULT_FOLDER,
    db_port: Port = None,
    kafka_port: Port = None,
    airflow_port: Port = None,
    no_airflow: Annotated[bool, typer.Option("--no-airflow", help="Start only the database and the broker.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start what does not run yet; data and ports stay the same from one start to the next."""
    asked = Ports(db=db_port, kafka=kafka_port, airflow=airflow_port)
    _print(bring_up(folder, asked, airflow=not no_airflow, tell=_tell), as_json=as_json)


@app.command()
def down(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Stop all of it and leave no process; the data stays."""
    found = take_down(folder, tell=_tell)
    _tell(f"the stack in {folder} is down" if found else f"there is no stack in {folder}: nothing to stop")
    if as_json:
        typer.echo(json.dumps({"dir": str(folder.resolve()), "stopped": found}))


@app.command()
def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Say what runs, and where."""
    stack = find_stack(folder)
    running = stack.running()
    for name, runs in running.items():
        _tell(f"{name}: {'runs' if runs else 'is down'}")
    _print(stack.addresses(), as_json=as_json, extra={"running": running})


def _print(addresses: Addresses, *, as_json: bool, extra: dict[str, object] | None = None) -> None:
    document = asdict(addresses)
    if as_json:
        typer.echo(json.dumps(document | (extra or {})))
        return
    # The password stays in its file: screens are shared and scrolled back.
    for name, value in document.items():
        people.print(f"{name:8}{escape(_hide_password(str(value or 'not running')))}")
    people.print(f"[dim]`penstock stack status --dir {escape(addresses.dir)} --json` prints the whole database URI.[/]")


def _hide_password(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{user.partition(':')[0]}:***@{host}" if at else uri


def _tell(what: str) -> None:
    people.print(escape(what))
