"""The SQL of the package: named, described statements in .sql files."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

NAMED = re.compile(r"^-- name: (?P<name>\w+)\n(?:--.*\n)*(?P<text>(?:(?!-- name: ).*\n?)*)", re.MULTILINE)


@cache
def read_statements(room: str) -> dict[str, bytes]:
    """Read the statements of sql/<room>.sql by name."""
    text = files("penstock").joinpath("sql", f"{room}.sql").read_text(encoding="utf-8")
    return {found["name"]: found["text"].strip().encode() for found in NAMED.finditer(text)}
