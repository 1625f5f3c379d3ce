"""The JSON Schema for editors agrees with the reader, and its lists agree with their sources."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import referencing
import yaml

from penstock.declaration.expectations import EXPECTATIONS, NOT_ON_POSTGRESQL
from penstock.declaration.pipeline import Pipeline
from penstock.declaration.schema import json_schema, write_schema
from penstock.declaration.yaml_lines import read_yaml

FOLDER = Path(__file__).parents[2] / "include" / "pipelines"
SAMPLES = sorted(FOLDER.glob("*.yaml"))
MINIMAL = {"name": "a", "topic": "a", "value": "json", "columns": {"id": {"type": "bigint"}}, "target": "b.a"}


def errors(declared: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema())
    return [error.message for error in validator.iter_errors(declared)]


def test_the_committed_schema_is_the_generated_one() -> None:
    """Run `python -m penstock.declaration.schema > include/pipelines/pipeline.schema.json` when this test fails."""
    assert (FOLDER / "pipeline.schema.json").read_text(encoding="utf-8") == write_schema()


@pytest.mark.parametrize("of", ["suite", "quality"])
def test_the_committed_schemas_of_shared_files_are_the_generated_ones(of: str) -> None:
    """Run `python -m penstock.declaration.schema suite > include/pipelines/suite.schema.json`, or the other one."""
    assert (FOLDER / f"{of}.schema.json").read_text(encoding="utf-8") == write_schema(of)


@pytest.mark.parametrize(
    ("of", "written", "valid"),
    [
        ("suite", {"checks": [{"expect": "expect_column_values_to_be_unique", "column": "id"}]}, True),
        ("suite", {"checks": []}, True),  # the reader refuses it
        ("suite", {"checks": [{"expect": "expect_column_values_to_be_unique"}]}, False),
        ("suite", {"description": "d"}, False),
        ("quality", {"suites": ["finance"], "max_quarantined": 5, "keep_check_results_days": None}, True),
        ("quality", {"suites": ["Finance"]}, False),
        ("quality", {"max_quarantined": -1}, False),
        ("quality", {"topic": "orders"}, False),
    ],
)
def test_shared_files_follow_the_schema_of_declarations(of: str, written: dict[str, Any], *, valid: bool) -> None:
    pipeline = referencing.Resource.from_contents(json_schema())
    registry = referencing.Registry().with_resource("pipeline.schema.json", pipeline)
    schema = json.loads(write_schema(of))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema.Draft202012Validator(schema, registry=registry).is_valid(written) is valid


def test_the_schema_is_a_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_valid_and_names_the_schema_for_editors(sample: Path) -> None:
    text = sample.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=pipeline.schema.json\n")
    assert errors(read_yaml(text).data) == []
    assert read_yaml(text).data == yaml.safe_load(text)


def test_every_key_of_a_declaration_has_a_description_in_the_schema() -> None:
    properties = json_schema()["properties"]
    assert set(properties) == set(Pipeline.model_fields)
    assert all(schema["description"] for schema in properties.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"nme": "x"},
        {"name": "A"},
        {"value": "avro"},
        {"columns": {}},
        {"columns": [{"name": "id", "type": "int"}]},
        {"columns": {"_id": {"type": "int"}}},
        {"columns": {"id": {"type": "bigit"}}},
        {"columns": {"id": {"type": "int", "path": "a"}}},
        {"columns": {"id": {"type": "int", "requird": True}}},
        {"target": "orders"},
        {"target": "penstock.orders"},
        {"max_records_per_partition": 0},
        {"indexes": ["id"]},
        {"load_when": {}},
        {"load_when": {"min_records": 0}},
        {"load_when": {"max_waiting": "5m"}},
        {"dedupe": {}},
        {"dedupe": {"by": []}},
        {"dedupe": {"by": ["id"], "hold_above": {"share": 2}}},
        {"rules": [{"where": "id > 0"}]},
        {"rules": [{"name": "a"}]},
        {"rules": [{"name": "A", "where": "id > 0"}]},
        {"rules": [{"name": "a", "where": "id > 0", "column": "id"}]},
        {"rules": [{"name": "a", "where": "id > 0", "expect": "expect_column_values_to_be_null", "column": "id"}]},
        {"rules": [{"name": "a", "where": "id > 0", "hold_above": {"record": 1}}]},
        {"rules": [{"name": "a", "where": "id > 0", "hold_above": {"share": 2}}]},
        {"rules": [{"name": "a", "expect": "expect_column_values_to_be_unique", "column": "id"}]},
        {"rules": [{"name": "a", "expect": "expect_column_values_to_be_null"}]},
        {"rules": [{"name": "a", "expect": "expect_column_values_to_be_null", "column": "id", "mostly": 1}]},
        {"checks": [{"column": "id"}]},
        {"checks": [{"expect": "expect_nothing"}]},
        {"checks": [{"expect": "expect_column_values_to_be_unique"}]},
        {"checks": [{"expect": "expect_column_values_to_be_unique", "column": "id", "mostli": 1}]},
    ],
)
def test_the_schema_refuses_mistakes_that_the_reader_refuses(changes: dict[str, Any]) -> None:
    assert errors(MINIMAL) == []
    assert len(errors({**MINIMAL, **changes})) >= 1


INSTALLED = """
import json
import great_expectations.expectations.core
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations
# Arguments of every expectation, and arguments that Penstock sets itself.
common = {"id", "meta", "notes", "result_format", "description", "catch_exceptions", "rendered_content", "severity",
          "windows", "batch_id", "library_metadata"}
found = {}
for name in list_registered_expectation_implementations():
    model = get_expectation_impl(name)
    metadata = model.schema()["properties"].get("metadata", {}).get("properties", {})
    fields = {field: about.required for field, about in model.__fields__.items() if field not in common}
    found[name] = {
        "postgresql": "PostgreSQL" in metadata.get("supported_data_sources", {}).get("const", []),
        "needed": [field for field, required in fields.items() if required],
        "possible": [field for field, required in fields.items() if not required],
    }
print(json.dumps(found))
"""


def test_the_expectations_equal_those_of_the_installed_great_expectations() -> None:
    printed = subprocess.run([sys.executable, "-c", INSTALLED], capture_output=True, text=True, check=True).stdout
    installed = json.loads(printed.splitlines()[-1])
    assert sorted(name for name, about in installed.items() if not about["postgresql"]) == sorted(NOT_ON_POSTGRESQL)
    assert {
        name: (tuple(about["needed"]), tuple(about["possible"]))
        for name, about in installed.items()
        if about["postgresql"]
    } == EXPECTATIONS


IMPORTS = """
import sys
import penstock.declaration.pipeline
from pathlib import Path
penstock.declaration.pipeline.read_pipelines(Path(sys.argv[1]))
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_reading_declarations_imports_no_heavy_module() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", IMPORTS, str(FOLDER)], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"pyspark", "great_expectations", "pandas", "pyarrow", "confluent_kafka", "airflow", "numpy", "psycopg"}
    assert heavy.isdisjoint(printed)
