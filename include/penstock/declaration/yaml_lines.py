"""YAML that knows its lines: read strictly, by YAML 1.2's rules, every mistake with the line it stands in.

YAML 1.1's surprises are left out: `no`, `on` and `1:30` are text, and so are dates. Anchors, aliases and tags are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from penstock.declaration.words import clip

if TYPE_CHECKING:
    from penstock.declaration.mistakes import Place

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 20
# The C parser is ten times as fast; wheels have it, other builds may not.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = (
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")),
)


class _CoreLoader(_Loader):  # type: ignore[misc]
    """Tells text, numbers and the like apart as YAML 1.2's core schema does."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:
        if kind is yaml.SequenceNode or kind is yaml.MappingNode:
            return _TAG + ("seq" if kind is yaml.SequenceNode else "map")
        plain = implicit[0]
        names = (name for name, form in _PLAIN if plain and form.fullmatch(value or ""))
        return _TAG + next(names, "str")


@dataclass
class Document:
    """What a YAML text holds, where its parts are, and the mistakes of its writing (place, line, what is wrong)."""

    data: object = None
    mistakes: list[tuple[Place, int, str]] = field(default_factory=list)
    readable: bool = True
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, place: Place) -> int:
        """Find the line of a place, or of the nearest thing around it that is there."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_yaml(text: str) -> Document:
    """Read one YAML document; nothing is raised, every mistake is in the document."""
    try:
        root = yaml.compose(text, _CoreLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return _unreadable(mark.line + 1 if mark else 1, error.problem or error.context or "cannot be read")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return _unreadable(line, f"{error.reason}: {clip(str(error.character))}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _unreadable(1, str(error).splitlines()[0])
    document = Document()
    if root is None:
        return _unreadable(1, "the file is empty")
    _Reader(document).read_root(root)
    return document


def _unreadable(line: int, what: str) -> Document:
    return Document(mistakes=[((), line, f"no YAML: {what}; allowed: YAML 1.2")], readable=False)


class _Reader:
    """Turns nodes into values, and writes down lines and mistakes on its way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.seen: set[int] = set()

    def read_root(self, root: yaml.Node) -> None:
        self.document.lines[()] = root.start_mark.line + 1
        self.document.data = self.read(root, ())

    def read(self, node: yaml.Node, place: Place) -> Any:
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        if id(node) in self.seen:
            return self.blame(node, place, "an alias of an earlier part; allowed: write it out")
        self.seen.add(id(node))
        if len(place) > _DEEPEST:
            return self.blame(node, place, f"nested too deeply; allowed: {_DEEPEST} levels")
        if isinstance(node, yaml.MappingNode):
            return self.read_mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*place, at)) for at, item in enumerate(node.value)]
        return self.read_scalar(node, place)

    def blame(self, node: yaml.Node, place: Place, what: str) -> None:
        self.document.mistakes.append((place, node.start_mark.line + 1, what))

    def read_mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.blame(key, place, "a list or mapping as a name; allowed: text")
            elif key.value in values:
                first = self.document.lines[*place, key.value]
                self.blame(key, (*place, key.value), f"written twice, first in line {first}; allowed: once")
            else:
                self.document.lines[*place, key.value] = key.start_mark.line + 1
                values[key.value] = self.read(value, (*place, key.value))
                self.check_text(key, place)
        return values

    def read_scalar(self, node: yaml.ScalarNode, place: Place) -> str | float | bool | None:
        self.check_text(node, place)
        match node.tag.removeprefix(_TAG):
            case "str":
                return str(node.value)
            case "null":
                return None
            case "bool":
                return str(node.value).lower() == "true"
            case "int" | "float" as kind:
                return self.read_number(node, place, kind)
        return self.blame(node, place, f"the tag {clip(node.tag)}; allowed: no tags")

    def read_number(self, node: yaml.ScalarNode, place: Place, kind: str) -> float | None:
        try:
            return parse_integer(node.value) if kind == "int" else float(re.sub(r"\.(?=[inIN])", "", node.value))
        except ValueError:
            return self.blame(node, place, f"{clip(node.value)} cannot be read as a number; allowed: fewer digits")

    def check_text(self, node: yaml.ScalarNode, place: Place) -> None:
        """The ledger is PostgreSQL: its text holds no NUL, and its encoding no lone surrogates."""
        if re.search("[\0\ud800-\udfff]", node.value):
            self.blame(node, place, "a NUL or half a character; allowed: any other text")


def parse_integer(text: str) -> int:
    """Parse a whole number as YAML 1.2 writes it: decimal (also with leading zeros), 0o… or 0x…."""
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
