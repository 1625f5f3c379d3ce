"""Arguments and options that several commands have, and the settings and declarations that commands read."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.declaration.pipeline import Pipeline, join_errors, read_each, read_named
from penstock.errors import DeclarationError
from penstock.settings import FOLDER, PIPELINES, TRANSFORMS, Settings, read_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Name = Annotated[str, typer.Argument(help="The pipeline's name.")]
Names = Annotated[list[str] | None, typer.Argument(help="Names of pipelines; all pipelines without a name.")]
LoadId = Annotated[int, typer.Argument(help="The load's number.")]
Why = Annotated[str, typer.Option(help="The reason; the ledger keeps it with the name of the person.")]
Who = Annotated[str | None, typer.Option(help="The person who decides; the user of this process by default.")]


def read_environment() -> Settings:
    """Read the settings of this process."""
    return read_settings(os.environ)


def find_folder() -> Path:
    """The folder of declarations, for commands that connect to no service."""
    return Path(os.environ.get(PIPELINES, "include/pipelines"))


def find_user() -> str:
    """The name of the user of this process."""
    import getpass

    return getpass.getuser()


@dataclass(frozen=True)
class Broken:
    """An invalid declaration. Its pipeline is known by the name of the file only."""

    name: str
    error: DeclarationError


@dataclass(frozen=True)
class Chosen:
    """The pipelines of a command, and the invalid declarations among them."""

    pipelines: list[Pipeline]
    broken: list[Broken]

    def exit_code(self, code: int = 0) -> int:
        """The exit code of the command; `code` is the one of the pipelines with a valid declaration."""
        return max([code, *(each.error.exit_code for each in self.broken)])


def choose_each(folder: Path, names: list[str] | None) -> Chosen:
    """Read the named pipelines, or all. An invalid declaration stops no other pipeline; an unknown name is an error."""
    if names:
        read = [(name, _read_named(folder, name)) for name in names]
    else:
        read = [(path.stem, each) for path, each in read_each(folder).items()]
    return Chosen(
        [each for _, each in read if isinstance(each, Pipeline)],
        [Broken(name, each) for name, each in read if isinstance(each, DeclarationError)],
    )


def find_transforms() -> Path:
    """The folder of transforms, found as the stage job finds it."""
    given = os.environ.get(TRANSFORMS)
    return Path(given) if given else find_folder().parent / FOLDER


def choose_pipelines(folder: Path, names: list[str] | None) -> list[Pipeline]:
    """Read the named pipelines, or all; one error names the mistakes of all their declarations."""
    chosen = choose_each(folder, names)
    if chosen.broken:
        raise join_errors(each.error for each in chosen.broken)
    return chosen.pipelines


def _read_named(folder: Path, name: str) -> Pipeline | DeclarationError:
    try:
        return read_named(folder, name)
    except DeclarationError as error:
        return error
