"""What the commands have in common: their arguments, and where they read the settings and declarations."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.declaration.pipeline import Pipeline, read_each, read_named
from penstock.errors import DeclarationError
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


@dataclass(frozen=True)
class Broken:
    """A declaration that cannot be read. Its pipeline is known by the name of the file only."""

    name: str
    error: DeclarationError


@dataclass(frozen=True)
class Chosen:
    """The pipelines that a command is about, and the declarations among them that cannot be read."""

    pipelines: list[Pipeline]
    broken: list[Broken]

    def exit_code(self, code: int = 0) -> int:
        """The exit code of a command that ends with this code for the pipelines that could be read."""
        return max([code, *(each.error.exit_code for each in self.broken)])


def choose_each(folder: Path, names: list[str] | None) -> Chosen:
    """The pipelines that are named, or all. A broken declaration stops no other; an unknown name is refused."""
    if names:
        read = [(name, _read_named(folder, name)) for name in names]
    else:
        read = [(path.stem, each) for path, each in read_each(folder).items()]
    return Chosen(
        [each for _, each in read if isinstance(each, Pipeline)],
        [Broken(name, each) for name, each in read if isinstance(each, DeclarationError)],
    )


def choose_pipelines(folder: Path, names: list[str] | None) -> list[Pipeline]:
    """The pipelines that are named, or all; the mistakes of all of them are refused at once."""
    chosen = choose_each(folder, names)
    if chosen.broken:
        raise DeclarationError("\n".join(each.error.what for each in chosen.broken))
    return chosen.pipelines


def _read_named(folder: Path, name: str) -> Pipeline | DeclarationError:
    try:
        return read_named(folder, name)
    except DeclarationError as error:
        return error


def whoami() -> str:
    """Who has started this process."""
    import getpass

    return getpass.getuser()
