"""The JSON Schemas of declarations, suites and defaults in YAML. Editors complete names and mark most mistakes by them.

`python -m penstock.declaration.schema > include/pipelines/pipeline.schema.json` writes that of declarations again. With
the argument `suite` or `quality` it writes `suite.schema.json` or `quality.schema.json`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, get_args

from penstock.declaration.alerts import Route
from penstock.declaration.columns import FAMILIES, TYPES
from penstock.declaration.expectations import COLUMN_ARGUMENTS
from penstock.declaration.own_expectations import ALL_EXPECTATIONS
from penstock.declaration.parts import OWN_SCHEMAS, Column, Quality, Severity
from penstock.declaration.pipeline import Pipeline
from penstock.declaration.results import Result
from penstock.declaration.rules import ROW_EXPECTATIONS, Dedupe, HoldAbove, Rule
from penstock.declaration.schedules import PRESETS
from penstock.declaration.starts import LoadWhen
from penstock.declaration.suites import SUITE_NAME, DefaultsFile, SuiteFile
from penstock.declaration.transforms import TRANSFORM

if TYPE_CHECKING:
    from collections.abc import Callable

PIPELINE = "pipeline.schema.json"
Schema = dict[str, Any]
_IDENTIFIER = "[a-z_][a-z0-9_]{0,62}"
_PATTERNS = {
    "name": "^[a-z][a-z0-9_]{0,49}$",
    "topic": "^[a-zA-Z0-9._-]{1,249}$",
    "kafka": "^[A-Za-z0-9_.-]{1,200}$",
    "target": rf"^(?!({'|'.join(OWN_SCHEMAS)})\.|pg_){_IDENTIFIER}\.{_IDENTIFIER}$",
}


def json_schema() -> Schema:
    """Make the schema: that of the model, except for the parts that YAML writes in another form."""
    model = Pipeline.model_json_schema()
    properties: dict[str, Schema] = model["properties"]
    for name, pattern in _PATTERNS.items():
        properties[name]["pattern"] = pattern
    properties["schedule"] |= {"examples": [*PRESETS, "15 * * * *"]}
    properties["start"] |= {"examples": ["earliest", "latest", "2026-01-31T00:00:00Z"]}
    properties["columns"] |= {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": "^[a-z][a-z0-9_]{0,62}$"},
    }
    properties["columns"]["additionalProperties"] = _column()
    for lists_only in ("items", "minItems", "maxItems"):
        properties["columns"].pop(lists_only, None)
    properties["input"] = {
        "anyOf": [
            {name: properties["columns"][name] for name in ("type", "minProperties", "propertyNames")}
            | {"additionalProperties": {"$ref": "#/properties/columns/additionalProperties"}},
            {"type": "null"},
        ],
        "default": None,
        "description": properties["input"]["description"],
    }
    properties["transform"]["anyOf"][0]["pattern"] = f"^{TRANSFORM}$"
    properties["checks"]["items"] = _check()
    properties["suites"]["items"] |= {"pattern": f"^{SUITE_NAME}$"}
    properties["quality"] |= {"type": "object", "properties": _quality(), "additionalProperties": False}
    properties["quality"].pop("$ref", None)
    properties["load_when"] = {
        "type": ["object", "null"],
        "properties": _load_when(),
        "minProperties": 1,
        "additionalProperties": False,
        "default": None,
        "description": properties["load_when"]["description"],
    }
    properties["rules"]["items"] = _rule()
    properties["results"]["items"] = _result()
    properties["dedupe"] = {
        "type": ["object", "null"],
        "properties": _dedupe(),
        "required": ["by"],
        "additionalProperties": False,
        "default": None,
        "description": properties["dedupe"]["description"],
    }
    properties["alerts"] = _alerts(properties["alerts"])
    for schema in properties.values():
        schema.pop("title", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock pipeline",
        "description": Pipeline.__doc__,
        "type": "object",
        "properties": properties,
        "required": model["required"],
        "additionalProperties": False,
    }


def _column() -> Schema:
    properties = Column.model_json_schema()["properties"]
    del properties["name"]
    for schema in properties.values():
        schema.pop("title", None)
    plain = [name for name, family in FAMILIES.items() if not TYPES[family].arguments]
    examples = [*plain, "numeric(12,2)", "varchar(20)", "char(2)"]
    arguments = r"(numeric|decimal) ?\([0-9]+, ?[0-9]+\)|(varchar|character varying|char|character) ?\([0-9]+\)"
    properties["type"] |= {
        "pattern": f"^({'|'.join(plain)}|{arguments})$",
        "examples": examples,
    }
    properties["path"] |= {"pattern": r"^\$"}
    return {"type": "object", "properties": properties, "required": ["type"], "additionalProperties": False}


def _quality() -> Schema:
    properties: Schema = Quality.model_json_schema()["properties"]
    for schema in properties.values():
        schema.pop("title", None)
    return properties


def _load_when() -> Schema:
    properties: Schema = LoadWhen.model_json_schema()["properties"]
    for schema in properties.values():
        schema.pop("title", None)
    return properties


def _check() -> Schema:
    """Describe each expectation with its own arguments, so that editors offer the arguments of that expectation."""
    return {
        "type": "object",
        "properties": {
            "expect": {
                "enum": list(ALL_EXPECTATIONS),
                "description": "an expectation of Great Expectations or of Penstock",
            },
            "severity": {
                "enum": list(get_args(Severity)),
                "default": "error",
                "description": "error holds the load, warning publishes it and alerts, info is recorded only",
            },
        },
        "required": ["expect"],
        "allOf": [
            {
                "if": {"properties": {"expect": {"const": expect}}, "required": ["expect"]},
                "then": {
                    "properties": {
                        "expect": True,
                        "severity": True,
                        **{name: _argument(name) for name in (*needed, *possible)},
                    },
                    "required": list(needed),
                    "additionalProperties": False,
                },
            }
            for expect, (needed, possible) in ALL_EXPECTATIONS.items()
        ],
    }


def _dedupe() -> Schema:
    properties: Schema = Dedupe.model_json_schema()["properties"]
    for schema in properties.values():
        schema.pop("title", None)
    return properties | {"hold_above": _hold_above(properties["hold_above"])}


def _hold_above(described: Schema) -> Schema:
    limits = HoldAbove.model_json_schema()["properties"]
    for schema in limits.values():
        schema.pop("title", None)
    return {
        "type": "object",
        "properties": limits,
        "additionalProperties": False,
        "default": described["default"],
        "description": described["description"],
    }


def _rule() -> Schema:
    """Describe a rule: with `where`, or with an expectation of single rows and its arguments."""
    described = Rule.model_json_schema()["properties"]
    for schema in described.values():
        schema.pop("title", None)
    own: Schema = {
        "name": described["name"] | {"pattern": "^[a-z][a-z0-9_]{0,49}$"},
        "reason": described["reason"],
        "hold_above": _hold_above(described["hold_above"]),
    }
    where = {"type": "string", "pattern": "\\S", "description": described["where"]["description"]}
    expect = {"enum": list(ROW_EXPECTATIONS), "description": described["expect"]["description"]}
    return {
        "type": "object",
        "properties": {**own, "where": where, "expect": expect},
        "required": ["name"],
        "oneOf": [
            {"properties": {**dict.fromkeys(own, True), "where": True}, "required": ["where"]}
            | {"additionalProperties": False},
            *(
                {
                    "properties": {
                        **dict.fromkeys(own, True),
                        "expect": {"const": expect},
                        **{name: _argument(name) for name in names},
                    },
                    "required": ["expect", *dict.fromkeys((*ALL_EXPECTATIONS[expect][0], *{"regex"} & {*names}))],
                    "additionalProperties": False,
                }
                for expect, names in ROW_EXPECTATIONS.items()
            ),
        ],
    }


def _result() -> Schema:
    """Describe a result. Its model is a definition elsewhere, and the schema of a declaration has none."""
    described = Result.model_json_schema()
    for schema in described["properties"].values():
        schema.pop("title", None)
    names = ("type", "properties", "required", "additionalProperties")
    return {name: described[name] for name in names}


def _alerts(described: Schema) -> Schema:
    """Describe the two forms of alerts: one connection, or a list of routes."""
    connection: Schema = {"type": "string", "pattern": _PATTERNS["kafka"]}
    route: Schema = Route.model_json_schema()["properties"]
    for schema in route.values():
        schema.pop("title", None)
    route["to"] |= connection
    routes = {"type": "object", "properties": route, "required": ["to"], "additionalProperties": False}
    return {
        "anyOf": [connection, {"type": "array", "items": routes}, {"type": "null"}],
        "default": None,
        "description": described["description"],
    }


def _argument(name: str) -> Schema | bool:
    if name == "mostly":
        return {"type": "number", "minimum": 0, "maximum": 1}
    if name in COLUMN_ARGUMENTS:
        return (
            {"type": "array", "items": {"type": "string"}}
            if name in ("column_list", "column_set", "columns")
            else {"type": "string"}
        )
    return True


def shared_schema(model: type[SuiteFile | DefaultsFile], title: str) -> Schema:
    """Make the schema of a suite or of the defaults: their parts are written as in a declaration."""
    fields = model.model_fields
    described = {name: {"description": field.description} for name, field in fields.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": model.__doc__,
        "type": "object",
        "properties": {name: described[name] | {"$ref": f"{PIPELINE}#/properties/{name}"} for name in fields},
        "required": [name for name, field in fields.items() if field.is_required()],
        "additionalProperties": False,
    }


def write_schema(of: str = "pipeline") -> str:
    """Write the schema as in the committed file."""
    schemas: dict[str, Callable[[], Schema]] = {
        "pipeline": json_schema,
        "suite": lambda: shared_schema(SuiteFile, "Penstock suite of checks"),
        "quality": lambda: shared_schema(DefaultsFile, "Penstock defaults of all pipelines"),
    }
    return json.dumps(schemas[of](), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(write_schema(*sys.argv[1:2]))
