"""Which pipelines are declared, as the DAG files see them: the good ones, and the mistakes of the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.declaration.pipeline import Pipeline, read_each
from penstock.declaration.pipeline import read_named as read_declared
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# In a checkout the declarations lie beside the package.
BESIDE = Path(__file__).parents[2] / "pipelines"


def read_good() -> list[Pipeline]:
    """The pipelines whose declarations are right. A broken one hides no other."""
    return [read for read in _read().values() if isinstance(read, Pipeline)]


def read_named(name: str) -> Pipeline:
    """The pipeline of this name, as it is declared now. A mistake in the file of another one is not its own."""
    return read_declared(_find_folder(), name)


def refuse_broken(dags: Mapping[str, Exception]) -> None:
    """Raise the mistakes of all broken declarations, with file and line, and why DAGs of others cannot be made."""
    broken = [read.what for read in _read().values() if isinstance(read, DeclarationError)]
    broken += [f"{name}: its DAG cannot be made: {type(error).__name__}: {error}" for name, error in dags.items()]
    if broken:
        raise DeclarationError("\n" + "\n".join(broken))


def _read() -> dict[Path, Pipeline | DeclarationError]:
    return read_each(_find_folder())


def _find_folder() -> Path:
    return Path(os.environ.get("PENSTOCK_PIPELINES") or BESIDE)
