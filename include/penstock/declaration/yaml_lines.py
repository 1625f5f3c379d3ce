"""A strict reader of YAML 1.2 that keeps the line of every value, so that each mistake is reported with its line.

Unlike YAML 1.1, `no`, `on`, `1:30` and dates are text. Aliases and tags are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from penstock.declaration.mistakes import clip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.declaration.mistakes import Place

_TAG = "tag:yaml.org,2002:"
_MAX_DEPTH = 20
# The C parser is ten times as fast as the Python parser. Wheels include it, other builds may not.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORMS = {
    "null": re.compile(r"~|null|Null|NULL|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    "float": re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
}


class _CoreLoader(_Loader):  # type: ignore[misc]
    """Distinguishes text, numbers, booleans and null by the core schema of YAML 1.2."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Sequence[bool]) -> str:
        if kind is yaml.SequenceNode or kind is yaml.MappingNode:
            return _TAG + ("seq" if kind is yaml.SequenceNode else "map")
        plain = implicit[0]
        names = (name for name, form in _FORMS.items() if plain and form.fullmatch(value or ""))
        return _TAG + next(names, "str")


def _check_form(form: re.Pattern[str], text: str) -> str:
    """Check the form of a scalar; it differs only where the YAML has an explicit tag."""
    if not form.fullmatch(text):
        raise ValueError
    return text


def _nothing(text: str) -> None:
    _check_form(_FORMS["null"], text)


def _whole_number(text: str) -> int:
    return int(_check_form(_FORMS["int"], text), {"0o": 8, "0x": 16}.get(text[:2], 10))


def _number(text: str) -> float:
    return float(re.sub(r"\.(?=[inIN])", "", _check_form(_FORMS["float"], text)))


SCALARS: dict[str, Callable[[str], str | float | bool | None]] = {
    "str": str,
    "null": _nothing,
    "bool": lambda text: _check_form(_FORMS["bool"], text).lower() == "true",
    "int": _whole_number,
    "float": _number,
}


@dataclass
class Document:
    """The data of a YAML text, the line of each part, and the mistakes (place, line, what is wrong)."""

    data: object = None
    mistakes: list[tuple[Place, int, str]] = field(default_factory=list)
    unread: set[Place] = field(default_factory=set)
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, place: Place) -> int:
        """Find the line of a place, or of the nearest part around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_yaml(text: str) -> Document:
    """Read one YAML document. No error is raised: every mistake is in the document."""
    try:
        deep = _too_deep(text)
        root = None if deep else yaml.compose(text, _CoreLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        within = f" ({error.context})" if error.problem and error.context else ""
        # The parser reports a missing end in the line after the last one.
        line = min(mark.line + 1 if mark else 1, len(text.splitlines()))
        return _unreadable(max(line, 1), f"{error.problem or error.context}{within}")
    except yaml.reader.ReaderError as error:
        return _unreadable(*_bad_character(text, error))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _unreadable(1, str(error).splitlines()[0])
    document = Document()
    if deep:
        return _unreadable(deep, f"nested deeper than {_MAX_DEPTH} levels")
    if root is None:
        return _unreadable(1, "the file is empty")
    _Reader(document).read_root(root)
    return document


def read_document(path: Path) -> Document:
    """Read the YAML document of a file. No error is raised: every mistake is in the document."""
    try:
        return read_yaml(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Document(mistakes=[((), line, "not UTF-8; allowed: UTF-8 text")], unread={()})
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        return Document(mistakes=[((), 0, f"{reason}; allowed: a YAML file that can be read")], unread={()})


def _bad_character(text: str, error: yaml.reader.ReaderError) -> tuple[int, str]:
    # The C parser counts bytes and reports the character's number. The Python parser counts and reports characters.
    if isinstance(error.character, int):
        line, number = text.encode().count(b"\n", 0, error.position) + 1, error.character
    else:
        line, number = text.count("\n", 0, error.position) + 1, ord(error.character)
    return line, f"{error.reason} (U+{number:04X})"


def _too_deep(text: str) -> int:
    """Find the first line that is nested too deeply; 0 if there is none.

    The C composer recurses without a limit, and would crash the process.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            return event.start_mark.line + 1 if event.start_mark else 1
    return 0


def _unreadable(line: int, what: str) -> Document:
    return Document(mistakes=[((), line, f"invalid YAML: {what}; allowed: YAML 1.2")], unread={()})


class _Reader:
    """Turns nodes into values, and collects lines and mistakes."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.seen: set[int] = set()

    def read_root(self, root: yaml.Node) -> None:
        self.document.lines[()] = root.start_mark.line + 1
        self.document.data = self.read(root, ())

    def read(self, node: yaml.Node, place: Place) -> object:
        if id(node) in self.seen:
            # The node's own line is that of its anchor; the alias is in the line of its name.
            self.document.unread.add(place)
            line = self.document.line(place)
            self.document.mistakes.append((place, line, "an alias of an earlier part; allowed: write it out"))
            return None
        self.seen.add(id(node))
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self.read_mapping(node, place)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.read(item, (*place, at)) for at, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in SCALARS:
            return self.read_scalar(node, place, kind)
        self.skip(node, place, f"the tag {clip(node.tag)}; allowed: no tags")
        return None

    def skip(self, node: yaml.Node, place: Place, what: str) -> None:
        self.document.unread.add(place)
        self.add_mistake(node, place, what)

    def add_mistake(self, node: yaml.Node, place: Place, what: str) -> None:
        self.document.mistakes.append((place, node.start_mark.line + 1, what))

    def read_mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.add_mistake(key, place, "a list or mapping as a name; allowed: text")
            elif key.value in values:
                first = self.document.lines[*place, key.value]
                self.add_mistake(key, (*place, key.value), f"written twice, first in line {first}; allowed: once")
            else:
                self.document.lines[*place, key.value] = key.start_mark.line + 1
                values[key.value] = self.read(value, (*place, key.value))
                self.check_text(key, place)
        return values

    def read_scalar(self, node: yaml.ScalarNode, place: Place, kind: str) -> str | float | bool | None:
        self.check_text(node, place)
        try:
            return SCALARS[kind](node.value)
        except ValueError:
            self.skip(node, place, f"{clip(node.value)} cannot be read as {kind}; allowed: another spelling")
            return None

    def check_text(self, node: yaml.ScalarNode, place: Place) -> None:
        """Refuse NUL and lone surrogates, because the ledger is in PostgreSQL and cannot store them."""
        if re.search("[\0\ud800-\udfff]", node.value):
            self.add_mistake(node, place, "a NUL character or half a surrogate pair; allowed: any other text")
