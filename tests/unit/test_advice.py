"""Next steps: each exists once, and is used."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path

import pytest

from penstock import advice

PACKAGE = Path(advice.__file__).parent
SOURCES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.name != "advice.py"}
TEXTS = {name: value for name, value in vars(advice).items() if name.isupper() and isinstance(value, str)}
NAMES = [*TEXTS, *(name for name, _ in inspect.getmembers(advice, inspect.isfunction))]


@pytest.mark.parametrize("name", NAMES)
def test_each_next_step_is_used(name: str) -> None:
    assert any(f"advice.{name}" in text for text in SOURCES.values()) or name == "NOTHING"


def test_no_next_step_exists_twice() -> None:
    assert [text for text, count in Counter(TEXTS.values()).items() if count > 1] == []


def test_a_next_step_follows_a_colon() -> None:
    assert [text for text in TEXTS.values() if text[0].isupper()] == []
