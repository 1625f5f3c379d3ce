"""What the commands have in common: their arguments, and where they read the settings and declarations."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import WrongUseError
from penstock.pipeline import Pipeline, read_pipelines
from penstock.settings import PIPELINES, Settings, read_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Name = Annotated[str, typer.Argument(help="The pipeline's name.")]
Names = Annotated[list[str] | None, typer.Argument(help="Pipelines; all if none is named.")]
LoadId = Annotated[int, typer.Argument(help="The load's number.")]
Why = Annotated[str, typer.Option(help="The reason; it is kept with your name.")]
Who = Annotated[str | None, typer.Option(help="Who decides; you, if not given.")]


def read_environment() -> Settings:
    """The settings of this process."""
    return read_settings(os.environ)


def find_folder() -> Path:
    """The folder of declarations, for commands that ask no service."""
    return Path(os.environ.get(PIPELINES, "include/pipelines"))


def choose_pipelines(folder: Path, names: list[str] | None) -> list[Pipeline]:
    """The pipelines that are named, or all; an unknown name is refused."""
    pipelines = read_pipelines(folder)
    unknown = [name for name in names or [] if name not in pipelines]
    if unknown:
        raise WrongUseError(
            f"no pipeline named {', '.join(unknown)} in {folder}; there are: {', '.join(pipelines) or 'none'}.",
            next_step=f"check the name, or set {PIPELINES} to the folder of your YAML files.",
        )
    return [pipelines[name] for name in names or pipelines]


def whoami() -> str:
    """Who has started this process."""
    import getpass

    return getpass.getuser()
