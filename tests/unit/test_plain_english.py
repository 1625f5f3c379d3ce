"""Comments, docstrings, descriptions of SQL, messages and pages avoid the words that CONTRIBUTING.md forbids."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CODE = ("include", "tests", "bench", "dags", "spark_jobs")

# The first word of a sentence, a heading, a cell or an item of a list; `rest` ends with the mark of the sentence's end.
OPENING = re.compile(
    r"(?:\A|[.!?|]\s+|\n\s*\n|^#+ |^\s*(?:[-*]|\d+\.) )\**"
    r"(?P<words>What|Who(?:ever)?|Whatever|Rather|Else)\b(?P<rest>[^.!?|]*[.!?|]?)",
    re.MULTILINE,
)
BANNED = re.compile(
    r"\b(?P<words>told|untold|unfit|mend|mends|mended|anew|whoever|goes\s+on|gone|lacks)\b", re.IGNORECASE
)
IS_NO = re.compile(
    r"(?<!there )(?<!There )\b(?P<words>(?:is|are|was|were)\s+no\s+(?!longer\b|more\b|later\b|less\b|earlier\b)\w+)"
)
QUOTED_CODE = re.compile(r"^```.*?^```|(`+)[^`]+?\1", re.MULTILINE | re.DOTALL)
PROSE_KEYWORDS = {"next_step", "help", "description"}

Text = tuple[int, str]


def find_words(prose: str) -> Iterator[tuple[int, str]]:
    """The line within the prose, and the words that are not allowed there."""
    bare = QUOTED_CODE.sub(lambda found: re.sub(r"[^\n]", "`", found[0]), prose)
    for pattern in (OPENING, BANNED, IS_NO):
        for found in pattern.finditer(bare):
            if pattern is not OPENING or not found["rest"].endswith("?"):
                yield bare.count("\n", 0, found.start("words")), " ".join(found["words"].split())


def read_prose(path: Path) -> Iterator[Text]:
    """Each piece of prose of a file, with the line where it begins."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, text
    elif path.suffix == ".sql":
        yield from join_lines([(line, row) for line, row in enumerate(text.splitlines(), 1)], "--", "name: ")
    else:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        yield from join_lines(comments, "#", "noqa", "type: ", "fmt: ")
        tree = ast.parse(text)
        yield from read_docstrings(tree)
        yield from read_messages(tree)


def join_lines(lines: list[Text], mark: str, *ignored: str) -> Iterator[Text]:
    """Comments on successive lines are one piece of prose."""
    piece: list[str] = []
    last = 0
    for line, row in lines:
        words = row.strip().removeprefix(mark).strip()
        if not row.strip().startswith(mark) or words.startswith(ignored):
            continue
        if piece and line != last + 1:
            yield last - len(piece) + 1, "\n".join(piece)
            piece = []
        piece.append(words)
        last = line
    if piece:
        yield last - len(piece) + 1, "\n".join(piece)


def read_docstrings(tree: ast.Module) -> Iterator[Text]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


def read_messages(tree: ast.Module) -> Iterator[Text]:
    """String literals that are given to an error, or as a next step, a help text or a description."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [word.value for word in node.keywords if word.arg in PROSE_KEYWORDS]
            for argument in [*node.args, *given] if name.endswith("Error") else given:
                yield from read_literals(argument)


def read_literals(node: ast.AST) -> Iterator[Text]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
        yield node.lineno, "".join(str(part) for part in parts)
    else:
        for child in ast.iter_child_nodes(node):
            yield from read_literals(child)


@cache
def list_files() -> list[str]:
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for folder in CODE:
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".sql"}]
    names = [str(path.relative_to(ROOT)) for path in sorted(paths)]
    # The text of a released migration never changes.
    return [name for name in names if "/migrations/" not in name and not name.startswith("tests/ledger_")]


def find_all(name: str) -> list[str]:
    return [
        f"{name}:{start + line}: {words}"
        for start, prose in read_prose(ROOT / name)
        for line, words in sorted(find_words(prose))
    ]


def test_no_prose_holds_forbidden_words() -> None:
    found = [mistake for name in list_files() for mistake in find_all(name)]
    assert found == [], "write these in plain English (see CONTRIBUTING.md, The language):\n" + "\n".join(found)


def test_names_of_tests_have_at_most_80_characters() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    names = {name for text in texts for name in re.findall(r"^ *def test_(\w+)", text, re.MULTILINE)}
    assert [name for name in sorted(names) if len(name) > 80] == []


@pytest.mark.parametrize(
    ("prose", "words"),
    [
        ("A load. What is left is dropped.", ["What"]),
        ("- Whoever reads\n- nobody", ["Whoever", "Whoever"]),
        ("One.\nElse: fenced.", ["Else"]),
        ("| state | What it is |", ["What"]),
        ("What is left? Nothing.", []),
        ("It was told, and the log goes\non.", ["told", "goes on"]),
        ("`told` is a column; so is told_at.", []),
        ("```\nWhat\n```", []),
        ("17 is no number.", ["is no number"]),
        ("There is no load, and it is no longer held.", []),
    ],
)
def test_forbidden_words_are_found_outside_code_and_questions(prose: str, words: list[str]) -> None:
    assert sorted(found for _, found in find_words(prose)) == sorted(words)


def test_comments_docstrings_and_messages_are_prose(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        '"""Module."""\nx = "no prose"  # first\n# second\n\n# third\nraise LoadError(f"of {x}", next_step="do")\n',
        encoding="utf-8",
    )
    assert list(read_prose(path)) == [(2, "first\nsecond"), (5, "third"), (1, "Module."), (6, "of x"), (6, "do")]
