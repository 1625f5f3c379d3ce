"""Transforms: a function of PySpark from DataFrame to DataFrame, in a file of the folder of transforms.

This module reads the file as text. Only the stage job imports it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, StrictStr

from penstock.declaration.columns import MAX_SPARK_PRECISION
from penstock.declaration.mistakes import Mistake, clip, suggest
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.declaration.columns import ColumnType
    from penstock.declaration.pipeline import Pipeline

TRANSFORM = "[a-z][a-z0-9_]{0,62}:[A-Za-z_][A-Za-z0-9_]{0,62}"


def _check_transform(text: str) -> str:
    if not re.fullmatch(TRANSFORM, text):
        raise ValueError(
            f"{clip(text)} is not a valid transform; allowed: module:function such as enrich_orders:transform, where "
            "enrich_orders.py is a file in the folder of transforms"
        )
    return text


TransformField = Annotated[StrictStr, AfterValidator(_check_transform)]


def split_transform(transform: str) -> tuple[str, str]:
    """Split `module:function`."""
    module, _, function = transform.partition(":")
    return module, function


def find_file(transform: str, folder: Path) -> Path:
    """Find the file of a transform, and refuse a file that does not define its function."""
    module, function = split_transform(transform)
    path = folder / f"{module}.py"
    next_step = "correct `transform:`, or set PENSTOCK_TRANSFORMS to the folder of the transforms."
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except OSError:
        found = sorted(each.stem for each in folder.glob("*.py"))
        what = f"{path}: the file of the transform {transform} cannot be read; there are: {', '.join(found) or 'none'}."
        raise DeclarationError(what, next_step=next_step) from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        what = f"{path}{f':{line}' if line else ''}: not valid Python: {getattr(error, 'msg', error)}."
        raise DeclarationError(what, next_step="correct the file.") from None
    named = list(_list_names(tree))
    if function not in named:
        what = f"{path}: no function {function}{suggest(function, named)}; there are: {', '.join(named) or 'none'}."
        raise DeclarationError(what, next_step=next_step)
    return path


def find_each_file(pipelines: Iterable[Pipeline], folder: Path) -> None:
    """Find the files of all transforms; one error names all mistakes."""
    mistakes: list[DeclarationError] = []
    for pipeline in pipelines:
        if pipeline.transform is not None:
            try:
                find_file(pipeline.transform, folder)
            except DeclarationError as error:
                mistakes.append(error)
    if mistakes:
        what = "\n".join(dict.fromkeys(error.what for error in mistakes))
        raise DeclarationError(what, next_step=mistakes[0].next_step)


def _list_names(tree: ast.Module) -> Iterator[str]:
    """List the functions of a module, and the other names that it defines at its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)


def find_transform_mistakes(
    written: Mapping[str, Any], types: Mapping[str, ColumnType], given: object
) -> Iterator[Mistake]:
    """Find what does not fit together: `input` without `transform`, and columns that Spark cannot hold.

    `types` are those of the decoded columns; `given` holds the columns as the person wrote them.
    """
    if written.get("transform") is None:
        if written.get("input") is not None:
            yield Mistake(("input",), "has no effect without a transform; allowed: with `transform: module:function`")
        return
    if written.get("tombstones") == "keep":
        what = "a transform makes no rows of records without value; allowed: without a transform"
        yield Mistake(("tombstones",), what)
    place = "columns" if written.get("input") is None else "input"
    for name, type_ in types.items():
        if type_.family == "numeric" and (type_.precision or 0) > MAX_SPARK_PRECISION:
            what = f"{type_} has more digits than Spark takes; allowed: numeric of up to {MAX_SPARK_PRECISION} digits"
            yield Mistake((place, name, "type"), what)
    if written.get("input") is None or not isinstance(given, Mapping):
        return
    for name, column in given.items():
        for part in ("path", "unit"):
            if isinstance(column, Mapping) and column.get(part) is not None:
                what = f"has no effect on a column that the transform makes; allowed: in `input`, `{part}` of a column"
                yield Mistake(("columns", name, part), what)
