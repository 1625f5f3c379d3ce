"""Checks at their edges: suites from files, suites that crash, queries that cannot run, empty and tiny loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from declaring import write_declaration
from fix_loads import stage_rows
from penstock.declaration.pipeline import Pipeline, read_pipeline
from penstock.errors import ChecksCrashedError
from penstock.load.validate import validate_load

if TYPE_CHECKING:
    from pathlib import Path


def declare_suite(folder: Path, checks: str, **changes: Any) -> Pipeline:
    """A pipeline with a suite `finance` of these checks."""
    (folder / "suites").mkdir()
    (folder / "suites" / "finance.yaml").write_text(f"checks:\n{checks}")
    return read_pipeline(write_declaration(folder, "topic", suites=["finance"], **changes))


def test_a_failed_check_of_a_suite_holds_the_load_and_names_the_suite(db: str, tmp_path: Path) -> None:
    checks = "- {expect: expect_column_values_to_be_between, column: id, max_value: 698}\n"
    verdict = validate_load(db, stage_rows(db, pipeline=declare_suite(tmp_path, checks)))
    assert not verdict.passed
    assert (verdict.cause or "").startswith(
        "expect_column_values_to_be_between column id of the suite finance: element_count 300, unexpected_count 1"
    )


def test_a_query_of_a_suite_that_cannot_run_is_an_error_that_names_the_suite(db: str, tmp_path: Path) -> None:
    checks = "- {expect: unexpected_rows_expectation, unexpected_rows_query: select nothing from nowhere}\n"
    load_id = stage_rows(db, pipeline=declare_suite(tmp_path, checks))
    with pytest.raises(ChecksCrashedError, match="unexpected_rows_expectation of the suite finance crashed") as crashed:
        validate_load(db, load_id)
    assert crashed.value.next_step.startswith("fix the check in the suite finance")
