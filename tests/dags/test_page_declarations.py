"""The declarations that the page keeps between requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from declaring import write_declaration
from penstock.airflow.page.ledger import read_declared
from penstock.declaration.pipeline import Pipeline
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

TOTALS = {"table": "a.totals", "mode": "sql", "key": ["id"], "columns": {"id": "bigint"}, "sql": "totals.sql"}
SUITE = '{"name": "ids", "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}]}'


@pytest.mark.parametrize(
    ("folder", "file", "content", "declared"),
    [
        ("results", "totals.sql", "insert into result select id from added", {"results": [TOTALS]}),
        ("suites", "ids.json", SUITE, {"suites": ["ids"]}),
    ],
)
def test_the_page_reads_a_declaration_again_after_any_of_its_files_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, file: str, content: str, declared: dict[str, Any]
) -> None:
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path))
    write_declaration(tmp_path, "orders", **declared)
    assert isinstance(read_declared()["orders"], DeclarationError)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / file).write_text(content)
    assert isinstance(read_declared()["orders"], Pipeline), read_declared()["orders"]
