"""The declared pipelines for DAG files: the valid ones, and the mistakes of the invalid ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.declaration.pipeline import Pipeline, join_errors, read_each
from penstock.declaration.pipeline import read_named as read_declared
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# In a checkout the folder of declarations is beside the package.
BESIDE = Path(__file__).parents[2] / "pipelines"


def read_valid() -> list[Pipeline]:
    """Read the pipelines with a valid declaration. An invalid declaration hides no other pipeline."""
    return [read for read in _read().values() if isinstance(read, Pipeline)]


def read_named(name: str) -> Pipeline:
    """Read the current declaration of a pipeline. Mistakes in other files are ignored."""
    return read_declared(find_folder(), name)


def raise_invalid(refused: Mapping[str, Exception]) -> None:
    """Raise the mistakes of all invalid declarations, with file and line, and the errors of DAGs Airflow refuses."""
    invalid = [read for read in _read().values() if isinstance(read, DeclarationError)]
    mistakes = [join_errors(invalid).what] if invalid else []
    mistakes += [f"{name}: its DAG cannot be made: {type(error).__name__}: {error}" for name, error in refused.items()]
    if mistakes:
        raise DeclarationError("\n" + "\n".join(mistakes))


def _read() -> dict[Path, Pipeline | DeclarationError]:
    return read_each(find_folder())


def find_folder() -> Path:
    """The folder of the declarations."""
    return Path(os.environ.get("PENSTOCK_PIPELINES") or BESIDE)
