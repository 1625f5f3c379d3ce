"""The declared pipelines for DAG files: the valid ones, and the mistakes of the invalid ones.

Airflow parses a DAG file again at the start of each of its tasks, and names the DAG and the task then. Such a start
reads one declaration at most, so its cost does not grow with the number of pipelines.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import get_parsing_context

from penstock.declaration.files import list_files
from penstock.declaration.pipeline import Pipeline, join_errors, read_each
from penstock.declaration.pipeline import read_named as read_declared
from penstock.errors import DeclarationError, WrongUseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# In a checkout the folder of declarations is beside the package.
BESIDE = Path(__file__).parents[2] / "pipelines"


def read_valid() -> list[Pipeline]:
    """Read the pipelines with a valid declaration. An invalid declaration hides no other pipeline."""
    return [read for read in read_each(find_folder()).values() if isinstance(read, Pipeline)]


def read_needed(name_of_task: Callable[[str], str] | None = None) -> list[Pipeline]:
    """Read the valid pipelines that a parse needs: all of them, or the one of the task that starts.

    Its name is the DAG's id, or `name_of_task` finds it in the task's id.
    """
    parsing = get_parsing_context()
    if parsing.dag_id is None:
        return read_valid()
    name = parsing.dag_id if name_of_task is None else name_of_task(parsing.task_id or "")
    try:
        return [read_named(name)]
    except (DeclarationError, WrongUseError):
        return []  # the DAG processor shows the mistake


def list_names() -> list[str]:
    """List the pipelines that a form offers: those with a valid declaration. A task that starts is not a form."""
    if get_parsing_context().dag_id is None:
        return [pipeline.name for pipeline in read_valid()]
    return list(dict.fromkeys(path.stem for path in list_files(find_folder())))


def read_named(name: str) -> Pipeline:
    """Read the current declaration of a pipeline. Mistakes in other files are ignored."""
    return read_declared(find_folder(), name)


def raise_invalid(find_refused: Callable[[Sequence[Pipeline]], Mapping[str, Exception]]) -> None:
    """Raise the mistakes of all invalid declarations, with file and line, and the errors of DAGs Airflow refuses.

    `find_refused` makes the DAGs of the valid ones, and returns the error of each refused one by its pipeline.
    """
    read = list(read_each(find_folder()).values())
    invalid = [each for each in read if isinstance(each, DeclarationError)]
    refused = find_refused([each for each in read if isinstance(each, Pipeline)])
    mistakes = [join_errors(invalid).what] if invalid else []
    mistakes += [f"{name}: its DAG cannot be made: {type(error).__name__}: {error}" for name, error in refused.items()]
    if mistakes:
        raise DeclarationError("\n" + "\n".join(mistakes))


def find_stage_pool() -> str:
    """The pool whose slots the stages of all pipelines share. Airflow starts no task of a pool that does not exist."""
    return os.environ.get("PENSTOCK_STAGE_POOL") or "default_pool"


def find_folder() -> Path:
    """The folder of the declarations."""
    return Path(os.environ.get("PENSTOCK_PIPELINES") or BESIDE)
