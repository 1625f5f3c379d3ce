"""Records without value: which of them become rows, and which columns are filled from their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.declaration.carried import CARRIED_NAMES
from penstock.declaration.columns import families_of
from penstock.declaration.mistakes import Mistake, clip, suggest
from penstock.declaration.results import TOMBSTONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.declaration.columns import ColumnType
    from penstock.declaration.pipeline import Pipeline

_NEEDED = "a mapping of columns to paths in the record's JSON key, or key: text with upserts of one key column"


def find_key_columns(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Find the columns that a record without value fills from its key, each with its path in the key.

    With `key: text` and no `key_columns`, the text of the whole key is the one key column of the upserts.
    """
    if pipeline.key_columns is not None:
        return dict(pipeline.key_columns)
    keys = (result.key for result in pipeline.results if result.mode == "upsert")
    return dict.fromkeys(_list_own(keys), ()) if pipeline.key == "text" else {}


def find_tombstone_mistakes(written: Mapping[str, Any], types: Mapping[str, ColumnType]) -> Iterator[Mistake]:
    """Find a declaration in which a record without value has no place."""
    upserts = list(_list_upserts(written))
    if written.get("tombstones") != "keep":
        if written.get("key_columns") is not None:
            yield Mistake(("key_columns",), "has no effect without tombstones: keep; allowed: with tombstones: keep")
        for at, result in upserts:
            if result.get("deleted_when") == TOMBSTONE:
                what = "no record without value becomes a row; allowed: with tombstones: keep, or a condition in SQL"
                yield Mistake(("results", at, "deleted_when"), what)
        return
    given: Any = written.get("key_columns")
    if given is None:
        filled = _list_own(_key(result) for _, result in upserts)
        found = list(_find_missing(written.get("key"), filled))
    else:
        filled = [name for name in given if isinstance(name, str)] if isinstance(given, dict) else []
        found = list(_find_wrong_columns(filled, types))
    yield from found or [*_find_required(written, filled), *_find_null_keys(upserts, filled)]


def _find_missing(key: object, filled: list[str]) -> Iterator[Mistake]:
    if key not in ("text", "bytes"):
        yield Mistake(("key_columns",), f"is missing; allowed: {_NEEDED}")
    elif len(filled) > (1 if key == "text" else 0):
        what = f"is missing for the key columns {', '.join(map(clip, filled))}; allowed: {_NEEDED}"
        yield Mistake(("key_columns",), what)


def _find_null_keys(upserts: list[tuple[int, Mapping[str, Any]]], filled: list[str]) -> Iterator[Mistake]:
    for at, result in upserts:
        for place, name in enumerate(_key(result)):
            if name not in filled and name not in CARRIED_NAMES:
                what = f"{clip(name)} is null in a record without value; allowed: columns of key_columns, _key"
                yield Mistake(("results", at, "key", place), what)


def _find_wrong_columns(filled: list[str], types: Mapping[str, ColumnType]) -> Iterator[Mistake]:
    names = [name for name in types if name not in CARRIED_NAMES]
    if not filled:
        yield Mistake(("key_columns",), f"names no column; allowed: {_NEEDED}")
    for name in filled:
        if name not in names:
            what = f"unknown column {clip(name)}{suggest(name, names)}; allowed: {', '.join(names)}"
            yield Mistake(("key_columns", name), what)
        elif types[name].family in families_of("document"):
            what = f"{clip(name)} is {types[name]}, which is no part of a key; allowed: columns of other types"
            yield Mistake(("key_columns", name), what)


def _find_required(written: Mapping[str, Any], filled: list[str]) -> Iterator[Mistake]:
    columns = written.get("columns")
    for at, column in enumerate(columns if isinstance(columns, (list, tuple)) else ()):
        if isinstance(column, dict) and column.get("required") is True and column.get("name") not in filled:
            what = "a record without value has null here (tombstones: keep); allowed: false, or a column of key_columns"
            yield Mistake(("columns", at, "required"), what)


def _list_upserts(written: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    results = written.get("results")
    for at, result in enumerate(results if isinstance(results, (list, tuple)) else ()):
        if isinstance(result, dict) and result.get("mode") == "upsert":
            yield at, result


def _key(result: Mapping[str, Any]) -> list[str]:
    key = result.get("key")
    return [name for name in key if isinstance(name, str)] if isinstance(key, (list, tuple)) else []


def _list_own(keys: Iterable[Iterable[str]]) -> list[str]:
    """List the declared columns of some keys, each once."""
    return list(dict.fromkeys(name for key in keys for name in key if name not in CARRIED_NAMES))
