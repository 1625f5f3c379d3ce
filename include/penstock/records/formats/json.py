"""JSON values: one pass of msgspec over a value reads the paths of all declared columns.

The paths become typed structs for msgspec. Columns whose paths overlap need more than one pass.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Never
from uuid import UUID

import msgspec
import numpy as np
import pyarrow.compute as pc
from msgspec import Meta, Raw

from penstock.records.columns.conversions import Conversion, make_conversion
from penstock.records.formats.base import convert_column
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from penstock.declaration.columns import Family
    from penstock.records.formats.base import Field, Rejections
    from penstock.records.rejection import Reason


def _whole_number(bits: int) -> Any:  # noqa: ANN401 - a type as msgspec takes it
    top = 2 ** (bits - 1)
    return Annotated[int, Meta(ge=-top, le=top - 1)]


# The JSON that a type of column takes, as msgspec reads it. Raw is the unread text of any JSON.
# Every type without a row here is written as a JSON string.
READ_AS: dict[Family, Any] = {
    "smallint": _whole_number(16),
    "integer": _whole_number(32),
    "bigint": _whole_number(64),
    "real": float,
    "double": float,
    "numeric": Raw,
    "boolean": bool,
    "bytea": bytes,  # in base64
    "uuid": UUID,
    "json": Raw,
    "jsonb": Raw,
}
# A value without any of these holds no number but 0 that a float would hold as 0.
TINY = re.compile(rb"[eE]-[0-9]{3}|0{200}")


class JsonFormat:
    """Reads JSON values by the paths of the declared columns."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = fields
        self.columns = [make_json_column(column) for column in fields]
        self.passes = make_passes(fields, [column.read_as for column in self.columns])
        self.floats = {
            place: make_passes([column], [Raw])[0]
            for place, column in enumerate(fields)
            if column.type.family in ("real", "double")
        }

    def read_columns(self, values: Sequence[bytes | None], rejections: Rejections) -> list[pa.Array]:
        """Read a batch, pass by pass, then convert it column by column."""
        found: dict[int, list[Any]] = {}
        for one_pass, records in zip(self.passes, self._read(values, rejections), strict=True):
            found |= one_pass.columns(records)
        arrays = [
            convert_column(column, self.columns[place].conversion, found[place], rejections)
            for place, column in enumerate(self.fields)
        ]
        for place, one_pass in self.floats.items():
            _reject_tiny(self.fields[place], one_pass, arrays[place], values, rejections)
        return arrays

    def _read(self, values: Sequence[bytes | None], rejections: Rejections) -> list[list[Any]]:
        """Read all values at once; if one of them fails, one by one, so that each has its own reason."""
        try:
            return [list(map(one_pass.decode, values)) for one_pass in self.passes]  # type: ignore[arg-type]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):  # TypeError: a value is None
            pass
        read = [self._read_one(index, value, rejections) for index, value in enumerate(values)]
        return [list(records) for records in zip(*read, strict=True)] or [[] for _ in self.passes]

    def _read_one(self, index: int, value: bytes | None, rejections: Rejections) -> list[Any]:
        if value is not None:
            try:
                return [one_pass.decode(value) for one_pass in self.passes]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                rejections.setdefault(index, explain_error(error, value))
        return [_missing(one_pass.root) for one_pass in self.passes]


make_format = JsonFormat


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """How the JSON at a column's path becomes the column: the type that msgspec reads, and its conversion."""

    read_as: Any
    conversion: Conversion


def make_json_column(column: Field) -> JsonColumn:
    """Choose how a declared column is read from JSON."""
    conversion = make_conversion(column.type, column.unit)
    if column.unit is not None:
        return JsonColumn(Raw, _from_raw(conversion, _refuse_string))
    read_as = READ_AS.get(column.type.family, str)
    if read_as is not Raw:
        return JsonColumn(read_as, conversion)
    return JsonColumn(Raw, _from_raw(conversion, _unquote if column.type.family == "numeric" else bytes))


def _from_raw(conversion: Conversion, read_one: Callable[[bytes], bytes]) -> Conversion:
    """Make the conversion of unread JSON texts from that of texts."""

    def convert(values: Sequence[Raw]) -> pa.Array:
        return conversion.convert([None if (text := bytes(value)) == b"null" else text for value in values])

    def parse(value: Raw) -> Any:  # noqa: ANN401 - a value as Arrow takes it
        text = bytes(value)
        return None if text == b"null" else conversion.parse(read_one(text))

    return Conversion(conversion.arrow, convert, parse)


def _refuse_string(text: bytes) -> bytes:
    if text.startswith(b'"'):
        raise Rejection("wrong_type", "not a number")
    return text


def _unquote(text: bytes) -> bytes:
    """Read a JSON string that holds a number; leave a JSON number as it is."""
    if not text.startswith(b'"'):
        return text
    try:
        return msgspec.json.decode(text, type=str).encode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise explain_error(error) from None


def _reject_tiny(
    column: Field, one_pass: Pass, array: pa.Array, values: Sequence[bytes | None], rejections: Rejections
) -> None:
    """Reject numbers so near to 0 that a float holds them as 0; msgspec reads them as 0 without an error."""
    for index in np.flatnonzero(pc.fill_null(pc.equal(array, 0), fill_value=False)):
        value = values[int(index)] or b""
        if not TINY.search(value):
            continue
        [[text]] = one_pass.columns([one_pass.decode(value)]).values()
        if re.search(rb"[1-9]", re.split(rb"[eE]", bytes(text))[0]):
            detail = f"column {column.name}: a number that {column.type.sql} cannot hold"
            rejections.setdefault(int(index), Rejection("out_of_range", detail))


@dataclass(slots=True)
class Node:
    """A step of the paths: a column's value, or an object with further steps below it."""

    column: int | None = None
    children: dict[str, Node] = field(default_factory=dict)
    required: bool = False
    type: Any = None


@dataclass(frozen=True, slots=True)
class Pass:
    """The columns that one pass over the value can read; most declarations need one pass."""

    decode: Callable[[bytes], Any]
    root: Node

    def columns(self, records: Sequence[Any]) -> dict[int, list[Any]]:
        """Collect the values of each column, in the order of the records."""
        found: dict[int, list[Any]] = {}
        _collect(self.root, records, found)
        return found


def make_passes(fields: Sequence[Field], types: Sequence[Any]) -> list[Pass]:
    """Spread the columns over as few passes as possible: a path at or below another one needs a pass of its own."""
    roots: list[Node] = []
    for index, column in enumerate(fields):
        root = next((root for root in roots if _has_room(root, column.path)), None)
        if root is None:
            root = Node()
            roots.append(root)
        _add_column(root, index, column, types[index])
    return [Pass(msgspec.json.Decoder(_type_of(root, "Value")).decode, root) for root in roots]


def _has_room(node: Node, path: tuple[str, ...]) -> bool:
    if node.column is not None:
        return False
    if not path:
        return not node.children
    child = node.children.get(path[0])
    return child is None or _has_room(child, path[1:])


def _add_column(node: Node, index: int, column: Field, type_: Any) -> None:  # noqa: ANN401 - a type as msgspec takes it
    for step in column.path:
        node.required = node.required or column.required
        node = node.children.setdefault(step, Node())
    node.column, node.required, node.type = index, column.required, type_


def _type_of(node: Node, name: str) -> Any:  # noqa: ANN401 - a type as msgspec takes it
    """Make the type of a node's value. Raw takes null by itself, and msgspec allows it in no union."""
    if node.column is not None:
        return node.type if node.required or node.type is Raw else node.type | None
    members = [
        _make_member(child, f"{name}_{place}", place, step) for place, (step, child) in enumerate(node.children.items())
    ]
    # The structs hold no cycles, so the garbage collector need not track them.
    made = msgspec.defstruct(name, members, kw_only=True, gc=False)
    return made if node.required or name == "Value" else made | None


def _make_member(child: Node, name: str, place: int, step: str) -> tuple[str, Any, Any]:
    found = msgspec.field(name=step) if child.required else msgspec.field(name=step, default=_missing(child))
    return f"m{place}", _type_of(child, name), found


def _missing(node: Node) -> Any:  # noqa: ANN401 - null, as the node's type spells it
    return Raw(b"null") if node.type is Raw else None


def _collect(node: Node, records: Sequence[Any], found: dict[int, list[Any]]) -> None:
    """Collect the records member by member; a record that is None has no members."""
    if node.column is not None:
        found[node.column] = list(records)
        return
    for child, values in zip(node.children.values(), _split_members(node, records), strict=True):
        _collect(child, values, found)


def _split_members(node: Node, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Give the values of each member, in the order of the members."""
    if records and None not in records:
        yield from zip(*map(msgspec.structs.astuple, records), strict=True)
        return
    for place, child in enumerate(node.children.values()):
        get, missing = attrgetter(f"m{place}"), _missing(child)
        yield [missing if record is None else get(record) for record in records]


def explain_error(error: Exception, value: bytes = b"") -> Rejection:
    """Explain why msgspec could not read a value; msgspec's own sentence quotes nothing of the value."""
    text = str(error)
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError) and _is_json(value):
        # After half a surrogate pair msgspec expects the other half. It reports the missing half in various words.
        return Rejection("bad_utf8", "half a surrogate pair")
    if isinstance(error, UnicodeDecodeError):
        return Rejection("bad_utf8", "bytes that are not UTF-8")
    if isinstance(error, RecursionError):
        return Rejection("bad_json", "nested too deeply")
    for pattern, reason in _REASONS:
        if re.search(pattern, text):
            return Rejection(reason, text)
    return Rejection("wrong_type" if isinstance(error, msgspec.ValidationError) else "bad_json", text)


def _is_json(value: bytes) -> bool:
    r"""Check by JSON's grammar a value that holds an escaped character (\\u)."""
    try:
        # Python would refuse to read an integer of more than 4,300 digits, and would read NaN.
        json.loads(value, parse_int=len, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return b"\\u" in value


def _refuse_constant(_: str) -> Never:
    raise ValueError


# The reason by a pattern of msgspec's message.
_REASONS: tuple[tuple[str, Reason], ...] = (
    (r"missing required field|got `null` - at `\$", "missing_required"),
    (r"Expected `int` [<>]=|(Number|Integer value) out of range", "out_of_range"),
    (r"surrogate", "bad_utf8"),
)
