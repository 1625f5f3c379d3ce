"""Which pipelines are declared, as the DAG files see them: the good ones, and the mistakes of the others."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.errors import DeclarationError, WrongUseError
from penstock.pipeline import Pipeline, read_each

# In a checkout the declarations lie beside the package.
BESIDE = Path(__file__).parents[2] / "pipelines"


def read_good() -> list[Pipeline]:
    """The pipelines whose declarations are right. A broken one hides no other."""
    return [read for read in _read().values() if isinstance(read, Pipeline)]


def read_named(name: str) -> Pipeline:
    """The pipeline of this name, as it is declared now."""
    found = next((pipeline for pipeline in read_good() if pipeline.name == name), None)
    if found is None:
        raise WrongUseError(f"no pipeline {name} is declared.", next_step="choose one of those that Airflow shows.")
    return found


def refuse_broken() -> None:
    """Raise the mistakes of all broken declarations, each with its file and line."""
    broken = [read.what for read in _read().values() if isinstance(read, DeclarationError)]
    if broken:
        raise DeclarationError("\n" + "\n".join(broken))


def _read() -> dict[Path, Pipeline | DeclarationError]:
    return read_each(Path(os.environ.get("PENSTOCK_PIPELINES") or BESIDE))
