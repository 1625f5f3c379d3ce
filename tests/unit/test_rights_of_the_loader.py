"""The rights of the loader are the writes of the package's statements, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import penstock
from penstock.ledger.roles import WRITES

PACKAGE = Path(str(penstock.__file__)).parent
WRITING = re.compile(r"\b(insert into|update|delete from)\s+penstock\.(\w+)")
UPSERT = re.compile(
    r"insert into penstock\.(\w+)(?:(?!-- name:).)*?\bon conflict(?:(?!-- name:).)*?\bdo update", re.DOTALL
)


def test_the_loader_is_granted_what_the_statements_write_and_nothing_else() -> None:
    """A new statement needs its right in `penstock.ledger.roles.WRITES`; `penstock migrate` then grants it."""
    texts = [path.read_text(encoding="utf-8") for path in (*PACKAGE.rglob("*.sql"), *PACKAGE.rglob("*.py"))
             if "migrations" not in path.parts and path.stem != "migration"]  # fmt: skip
    written = {(table, verb.split()[0]) for text in texts for verb, table in WRITING.findall(text)}
    written |= {(table, "update") for text in texts for table in UPSERT.findall(text)}
    written |= {("quarantine", "insert")}  # by COPY
    granted = {(table, right) for table, rights in WRITES.items() for right in rights}

    assert written - granted == set(), "add these to penstock.ledger.roles.WRITES"
    assert granted - written == set(), "take these out of penstock.ledger.roles.WRITES"
