"""Writes docs/reference/declaration.md from the schema of the declaration: `python docs/make_reference.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "include" / "pipelines" / "pipeline.schema.json"
PAGE = ROOT / "docs" / "reference" / "declaration.md"
HEAD = """\
# The declaration

One YAML file a pipeline, in the folder that `PENSTOCK_PIPELINES` names (`include/pipelines` without it), called
`<name>.yaml`. YAML 1.2: `no` and `on` are text. Aliases and tags are refused. Editors that know JSON Schema complete
and check it by the first line of the samples (`# yaml-language-server: $schema=pipeline.schema.json`), and
`penstock check` tells every mistake of every file at once, with its line, at most twenty a file.

This page is made from `pipeline.schema.json` by `python docs/make_reference.py`.

## The pipeline
"""
AFTER_PIPELINE = """
The judge of a schedule is croniter, by which Airflow runs it. Refused are schedules that it cannot read, that never
come (`0 0 30 2 *`), that are random (`r`), or that are longer than 200 characters.

The topic and the `tags` are tags of the DAG in Airflow. A topic of more than 100 characters is shortened there, and
ends with a fingerprint of its whole name. Each pipeline has a DAG of its own: a declaration with a mistake, and a DAG
that Airflow refuses, is an import error of `dags/penstock_broken_declarations.py`, and the other pipelines stay.
"""
AFTER_COLUMNS = """
A path goes down from the value's root by names: `$` (the whole value), `$.a.b`, `$['weird key']['x']`, in 100 steps at
most. There are no array indexes, wildcards or filters: an array goes whole into a `jsonb` column. With `value: text` or
`value: bytes` there is one column, of type `text` or `bytea`, and its path is `$`.

After the declared columns every row carries `_load_id`, `_partition`, `_offset` and `_timestamp` (Kafka's, of the
record), and `_key` if `key` is set. Names that begin with `_` are kept for these.

## Types

As PostgreSQL spells them, with its short names:
"""
CHECKS = """
## Checks

`{expect: <name>, severity: error | warning, <arguments>}`. `error` (the default) holds the load, `warning` publishes it
and says so. An expectation is one of Great Expectations that can run on rows in PostgreSQL; an argument in bold must
be given. Arguments that cannot be are refused with file and line, for the check would crash when it runs:

| refused | example |
|---|---|
| a value of another kind | `min_value: abc`, `strict_min: maybe`, `value: 1.5` where a count is wanted |
| bounds that exclude each other, and none where one is needed | `min_value: 5` with `max_value: 1` |
| a value that PostgreSQL cannot compare with the column | for a `bigint` `min_value: 2026-01-31`, `value_set: ["1"]` |
| a column that the expectation cannot run on | a mean of a `text`, a regular expression for a `bigint` |
| columns that cannot be compared with each other | `column_A` a `text`, `column_B` a `bigint` |
| an empty list where one value is needed | `regex_list: []` |
| a regular expression that no dialect reads | `((`; `penstock check` asks PostgreSQL about the others |
| a pattern of `like` that ends with its escape character | `like_pattern: 'a\\'` |
| a `row_condition` without `condition_parser: great_expectations` | write `col("amount") > 0` with it |

| expect | arguments |
|---|---|
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(write_page(), encoding="utf-8")


def write_page() -> str:
    """The page, from the committed schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    column = schema["properties"]["columns"]["additionalProperties"]
    types = ", ".join(f"`{name}`" for name in column["properties"]["type"]["examples"])
    checks = schema["properties"]["checks"]["items"]["allOf"]
    return "\n".join([
        HEAD,
        *_table(schema),
        AFTER_PIPELINE,
        "## A column\n",
        *_table(column),
        AFTER_COLUMNS,
        f"{types}.",
        CHECKS + "\n".join(map(_explain_check, checks)),
        "",
    ])  # fmt: skip


def _table(schema: dict[str, Any]) -> list[str]:
    rows = [
        f"| `{name}` | {_explain_default(name, field, schema['required'])} | {_sentence(field['description'])} |"
        for name, field in schema["properties"].items()
    ]
    return ["| name | default | meaning |", "|---|---|---|", *rows]


def _explain_default(name: str, field: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "must be given"
    return f"`{json.dumps(field['default'])}`" if field.get("default") is not None else "none"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}".replace("|", "\\|")


def _explain_check(check: dict[str, Any]) -> str:
    name = check["if"]["properties"]["expect"]["const"]
    needed = check["then"]["required"]
    possible = [each for each in check["then"]["properties"] if each not in ("expect", "severity", *needed)]
    arguments = [*(f"**{each}**" for each in needed), *possible]
    return f"| `{name}` | {', '.join(arguments)} |"


if __name__ == "__main__":
    main()
