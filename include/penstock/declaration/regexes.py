"""Regular expressions: mistakes that PostgreSQL refuses for certain, found without asking it.

PostgreSQL's dialect is not Python's: `(?<=a+)` is PostgreSQL's only, `(?P<name>a)` and `a++` are Python's only. So only
mistakes count that both refuse; `penstock check` asks PostgreSQL about the others.
"""

from __future__ import annotations

import re
import warnings

_IN_BOTH = (
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
    "unterminated character set",
    "nothing to repeat",
    "multiple repeat",
    "min repeat greater than max repeat",
)


def find_regex_mistake(regex: str) -> str | None:
    """Find out why PostgreSQL cannot read an expression; None if it can, or if only PostgreSQL knows."""
    # ***, (?b), (?e) and (?q) change the dialect. Comments, also those that (?x) allows, may hold anything.
    if re.match(r"\*\*\*|\(\?[a-z]*[beqx]", regex) or "(?#" in regex:
        return None
    # An escaped character is an atom in both; which atom is of no matter here.
    plain = re.sub(r"\\.", "a", regex, flags=re.DOTALL)
    # To PostgreSQL a bracket is a quantifier's only before a digit.
    plain = re.sub(r"\{(?![0-9])", "a", plain)
    if plain.endswith("\\"):
        return "it ends with a backslash"
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(plain)
    except re.error as error:
        return error.msg if error.msg in _IN_BOTH else None
    except (OverflowError, RecursionError):
        return "it is too big"
    return None
