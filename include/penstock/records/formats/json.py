"""Typed structs for msgspec, made from the paths of the declared columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.records.decoder import Field


@dataclass(slots=True)
class Node:
    """A step of the paths: a column's value, or an object with further steps below it."""

    column: int | None = None
    children: dict[str, Node] = field(default_factory=dict)
    required: bool = False
    type: Any = None


@dataclass(frozen=True, slots=True)
class Layer:
    """Columns that one pass over the value can read; most declarations need one layer."""

    decode: Callable[[bytes], Any]
    root: Node

    def columns(self, records: Sequence[Any]) -> dict[int, list[Any]]:
        """The values of each column, in the order of the records."""
        found: dict[int, list[Any]] = {}
        _collect(self.root, records, found)
        return found


def make_layers(fields: Sequence[Field], types: Sequence[Any]) -> list[Layer]:
    """Spread the columns over as few layers as possible: one path at or below another needs a layer of its own."""
    roots: list[Node] = []
    for index, column in enumerate(fields):
        root = next((root for root in roots if _has_room(root, column.path)), None)
        if root is None:
            root = Node()
            roots.append(root)
        _plant(root, index, column, types[index])
    return [Layer(msgspec.json.Decoder(_type_of(root, "Value")).decode, root) for root in roots]


def _has_room(node: Node, path: tuple[str, ...]) -> bool:
    if node.column is not None:
        return False
    if not path:
        return not node.children
    child = node.children.get(path[0])
    return child is None or _has_room(child, path[1:])


def _plant(node: Node, index: int, column: Field, type_: Any) -> None:  # noqa: ANN401 - a type as msgspec takes it
    for step in column.path:
        node.required = node.required or column.required
        node = node.children.setdefault(step, Node())
    node.column, node.required, node.type = index, column.required, type_


def _type_of(node: Node, name: str) -> Any:  # noqa: ANN401 - a type as msgspec takes it
    """The type of a node's value. Raw takes null by itself, and msgspec allows it in no union."""
    if node.column is not None:
        return node.type if node.required or node.type is msgspec.Raw else node.type | None
    members = [
        _member(child, f"{name}_{place}", place, step) for place, (step, child) in enumerate(node.children.items())
    ]
    # Without references back there is nothing for the garbage collector to do.
    made = msgspec.defstruct(name, members, kw_only=True, gc=False)
    return made if node.required or name == "Value" else made | None


def _member(child: Node, name: str, place: int, step: str) -> tuple[str, Any, Any]:
    found = msgspec.field(name=step) if child.required else msgspec.field(name=step, default=_missing(child))
    return f"m{place}", _type_of(child, name), found


def _missing(child: Node) -> Any:  # noqa: ANN401 - null, as the member's type spells it
    return msgspec.Raw(b"null") if child.type is msgspec.Raw else None


def _collect(node: Node, records: Sequence[Any], found: dict[int, list[Any]]) -> None:
    """Take the records apart, member by member; a record that is None lacks all of them."""
    if node.column is not None:
        found[node.column] = list(records)
        return
    for child, values in zip(node.children.values(), _take_apart(node, records), strict=True):
        _collect(child, values, found)


def _take_apart(node: Node, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The values of each member, in the order of the members."""
    if records and None not in records:
        yield from zip(*map(msgspec.structs.astuple, records), strict=True)
        return
    for place, child in enumerate(node.children.values()):
        get, missing = attrgetter(f"m{place}"), _missing(child)
        yield [missing if record is None else get(record) for record in records]
