"""JSON paths: from the value's root down, by names only."""

from __future__ import annotations

import re

from penstock.declaration.wording import clip

ALLOWED = "$ (the whole value), $.a.b, $['weird key']['x']; names only, no array indexes, wildcards or filters"
# A decoder nests one struct a step, and Python's recursion ends at about 300 of them.
MOST_STEPS = 100
_PLAIN = r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\-\u0080-\U0010ffff]*"
_STEP = re.compile(rf"""\.(?P<plain>{_PLAIN})|\['(?P<single>(?:[^'\\]|\\.)*)'\]|\["(?P<double>(?:[^"\\]|\\.)*)"\]""")


def parse_path(text: str) -> tuple[str, ...]:
    """Parse a path into its steps; `$` has none. A ValueError says what is allowed."""
    if not text.startswith("$"):
        raise ValueError(f"{clip(text)} is no JSON path, for it does not begin with $; allowed: {ALLOWED}")
    steps: list[str] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise ValueError(f"{clip(text)}: cannot read {_problem(text[at:])}; allowed: {ALLOWED}")
        steps.append(_unescape(step["plain"], step["single"], step["double"]))
        at = step.end()
    return tuple(steps)


def format_path(steps: tuple[str, ...]) -> str:
    """Write steps as a path that `parse_path` reads back."""
    return "$" + "".join(f".{step}" if re.fullmatch(_PLAIN, step) else _quote(step) for step in steps)


def _problem(rest: str) -> str:
    if re.match(r"\[\s*-?[0-9]", rest):
        return f"the array index {clip(rest)}"
    return f"the step {clip(rest)}"


def _unescape(plain: str | None, single: str | None, double: str | None) -> str:
    if plain is not None:
        return plain
    return re.sub(r"\\(.)", r"\1", single if single is not None else double or "", flags=re.DOTALL)


def _quote(step: str) -> str:
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
