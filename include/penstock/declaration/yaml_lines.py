"""YAML that knows its lines: read strictly, by YAML 1.2's rules, every mistake with the line it stands in.

YAML 1.1's surprises are left out: `no`, `on` and `1:30` are text, and so are dates. Aliases and tags are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from penstock.declaration.wording import clip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.declaration.mistakes import Place

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 20
# The C parser is ten times as fast; wheels have it, other builds may not.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORMS = {
    "null": re.compile(r"~|null|Null|NULL|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    "float": re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
}


class _CoreLoader(_Loader):  # type: ignore[misc]
    """Tells text, numbers and the like apart as YAML 1.2's core schema does."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Sequence[bool]) -> str:
        if kind is yaml.SequenceNode or kind is yaml.MappingNode:
            return _TAG + ("seq" if kind is yaml.SequenceNode else "map")
        plain = implicit[0]
        names = (name for name, form in _FORMS.items() if plain and form.fullmatch(value or ""))
        return _TAG + next(names, "str")


def _one_of(form: re.Pattern[str], text: str) -> str:
    """Only an explicit tag gets another form as far as here."""
    if not form.fullmatch(text):
        raise ValueError
    return text


def _nothing(text: str) -> None:
    _one_of(_FORMS["null"], text)


def _whole_number(text: str) -> int:
    return int(_one_of(_FORMS["int"], text), {"0o": 8, "0x": 16}.get(text[:2], 10))


def _number(text: str) -> float:
    return float(re.sub(r"\.(?=[inIN])", "", _one_of(_FORMS["float"], text)))


SCALARS: dict[str, Callable[[str], str | float | bool | None]] = {
    "str": str,
    "null": _nothing,
    "bool": lambda text: _one_of(_FORMS["bool"], text).lower() == "true",
    "int": _whole_number,
    "float": _number,
}


@dataclass
class Document:
    """What a YAML text holds, where its parts are, and the mistakes of its writing (place, line, what is wrong)."""

    data: object = None
    mistakes: list[tuple[Place, int, str]] = field(default_factory=list)
    unread: set[Place] = field(default_factory=set)
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, place: Place) -> int:
        """Find the line of a place, or of the nearest thing around it that is there."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_yaml(text: str) -> Document:
    """Read one YAML document; nothing is raised, every mistake is in the document."""
    try:
        deep = _too_deep(text)
        root = None if deep else yaml.compose(text, _CoreLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        within = f" ({error.context})" if error.problem and error.context else ""
        # What is missing at the end is missing behind the last line.
        line = min(mark.line + 1 if mark else 1, len(text.splitlines()))
        return _unreadable(max(line, 1), f"{error.problem or error.context}{within}")
    except yaml.reader.ReaderError as error:
        return _unreadable(*_bad_character(text, error))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _unreadable(1, str(error).splitlines()[0])
    document = Document()
    if deep:
        return _unreadable(deep, f"nested deeper than {_DEEPEST} levels")
    if root is None:
        return _unreadable(1, "the file is empty")
    _Reader(document).read_root(root)
    return document


def _bad_character(text: str, error: yaml.reader.ReaderError) -> tuple[int, str]:
    # The C parser counts bytes and gives the character's number, the Python one counts and gives characters.
    if isinstance(error.character, int):
        line, number = text.encode().count(b"\n", 0, error.position) + 1, error.character
    else:
        line, number = text.count("\n", 0, error.position) + 1, ord(error.character)
    return line, f"{error.reason} (U+{number:04X})"


def _too_deep(text: str) -> int:
    """Tell the line that is nested too deeply, 0 if none is: the C composer recurses, and crashes the process."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            return event.start_mark.line + 1 if event.start_mark else 1
    return 0


def _unreadable(line: int, what: str) -> Document:
    return Document(mistakes=[((), line, f"no YAML: {what}; allowed: YAML 1.2")], unread={()})


class _Reader:
    """Turns nodes into values, and writes down lines and mistakes on its way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.seen: set[int] = set()

    def read_root(self, root: yaml.Node) -> None:
        self.document.lines[()] = root.start_mark.line + 1
        self.document.data = self.read(root, ())

    def read(self, node: yaml.Node, place: Place) -> object:
        if id(node) in self.seen:
            # The node stands where its anchor is; the alias is in the line of its name.
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
        self.give_up(node, place, f"the tag {clip(node.tag)}; allowed: no tags")
        return None

    def give_up(self, node: yaml.Node, place: Place, what: str) -> None:
        self.document.unread.add(place)
        self.blame(node, place, what)

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

    def read_scalar(self, node: yaml.ScalarNode, place: Place, kind: str) -> str | float | bool | None:
        self.check_text(node, place)
        try:
            return SCALARS[kind](node.value)
        except ValueError:
            self.give_up(node, place, f"{clip(node.value)} cannot be read as {kind}; allowed: another spelling")
            return None

    def check_text(self, node: yaml.ScalarNode, place: Place) -> None:
        """The ledger is PostgreSQL: its text holds no NUL, and its encoding no lone surrogates."""
        if re.search("[\0\ud800-\udfff]", node.value):
            self.blame(node, place, "a NUL or half a character; allowed: any other text")
