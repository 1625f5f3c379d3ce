"""Writes docs/reference/declaration.md from the schema of the declaration: `python docs/make_reference.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.declaration.columns import TYPES
from penstock.declaration.formats import FORMATS
from penstock.declaration.suites import DefaultsFile

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "include" / "pipelines" / "pipeline.schema.json"
PAGE = ROOT / "docs" / "reference" / "declaration.md"
HEAD = """\
# The declaration

Each pipeline has one YAML file, `<name>.yaml`, in the folder that `PENSTOCK_PIPELINES` names (by default
`include/pipelines`). It is YAML 1.2: `no` and `on` are text. Aliases and tags are refused. Editors that know JSON
Schema complete and check the file if it has the first line of the samples
(`# yaml-language-server: $schema=pipeline.schema.json`). `penstock check` lists the mistakes of all files, with their
lines, at most twenty a file.

This page is generated from `pipeline.schema.json` by `python docs/make_reference.py`.

## The pipeline
"""
AFTER_PIPELINE = """
Airflow runs schedules by croniter, and Penstock checks them by croniter. It refuses schedules that croniter cannot
read, that never run (`0 0 30 2 *`), that are random (`r`), or that are longer than 200 characters.

The topic and the `tags` are tags of the DAG in Airflow. A tag of more than 100 characters is shortened, and
ends with a fingerprint of the whole topic name. Each pipeline has its own DAG. A declaration with a mistake, or a DAG
that Airflow refuses, becomes an import error of `dags/penstock_broken_declarations.py` and does not affect the others.
"""
AFTER_COLUMNS = """
A path descends from the root of the value by names: `$` (the whole value), `$.a.b`, `$['weird key']['x']`. It has at
most 100 steps, and no array indexes, wildcards or filters: a whole array can be loaded into a `jsonb` column. No name
may hold a double quote, a backslash or a control character.
With `value: text` or `value: bytes` there is one column, of type `text` or `bytea`, and its path is `$`.

After the declared columns, every row carries `_load_id`, `_partition`, `_offset` and `_timestamp` (Kafka's, of the
record), `_key` if `key` is set, and `_tombstone` with `tombstones: keep`. Names that begin with `_` are reserved for
these columns.

## Records without value

A record without value, a tombstone, is rejected as `null_value`. With `tombstones: keep` it becomes a row: `_tombstone`
is true, the key columns come from the record's key, and the other columns are null. So no other column may be
`required`. `_tombstone` is false for every other row; rows from before `tombstones: keep` have null there, so write
`_tombstone is not true`.

| declared | the key columns |
|---|---|
| `key_columns: {customer_id: $.id}` | the values at these paths of the record's key, which is JSON |
| `key: text`, no `key_columns` | the text of the whole key is the one key column of the upserts, whatever its type |
| `key: bytes`, no `key_columns` | none: the key is in `_key` |

A tombstone without a key is rejected as `null_value`, and a key that its column cannot hold with the reason of the
column. Rules and `dedupe` leave tombstones out. Checks see them as rows with nulls; `row_condition` can leave them out.
[A current table from a changelog](../how-to/follow-a-changelog.md) uses them.

## Formats of values
"""
TYPES_HEAD = """
A value that the format cannot read, or that a column cannot hold, goes to the [quarantine](poison.md).

## Types

The types are spelled as in PostgreSQL. The last column is the form of the value under `value: json`. `null` and a
missing value are null.
"""
SUITES = """
## Suites and defaults

Checks that several pipelines share stand in files beside the declarations:

- `suites/<name>.yaml` holds `checks:`, written as in a declaration, and optionally a `description:`. A pipeline that
  names the suite under `suites:` gets these checks after its own.
- `suites/<name>.json` is a suite in the JSON of Great Expectations. The `type`, the `kwargs` and the `severity` of each
  expectation count. Its notes, its id and its `meta` are left out.
- `quality.yaml` holds the defaults of all pipelines of the folder: {defaults}.
  A pipeline with `quality: {{defaults: false}}` leaves them out.

Editors complete a suite with the first line `# yaml-language-server: $schema=../suite.schema.json`, and the defaults
with `quality.schema.json`, if these schemas are beside the declarations.

A value that a pipeline declares itself wins over the default, also if it is null (`dedupe: null`, `alerts: null`). The
default rules come after the pipeline's own, and a rule of the pipeline replaces the default rule of the same name.
Checks of `quality.yaml` count as the suite `defaults`. A suite that a pipeline and the defaults both name is run once.

A load keeps the checks that it was planned with: a later change of a suite counts from the next load. A mistake in a
suite is reported with the suite's file and line, and stops only the pipelines that use it.
[How to share checks](../how-to/share-checks.md).
"""
ALERTS = """
## Alerts

One id of a connection gets everything: errors at once, warnings once a day in one message. A list of routes divides
them by severity:
"""
RULES = """
## Rules

`{name: <name>, where: <SQL>}` or `{name: <name>, expect: <name>, <arguments>}`, and for both `reason` and `hold_above`.
[Set rules](../how-to/set-rules.md) explains them. A `where` is tried by `penstock check`.
"""
ROW_EXPECTATIONS = """
These expectations judge single rows, so a rule can use them. An argument in bold must be given.

| expect | arguments |
|---|---|
"""
CHECKS = """
## Checks

`{expect: <name>, severity: error | warning | info, <arguments>}`. `error` (the default) holds the load, `warning`
publishes it and alerts, `info` publishes it and records the failure only. An expectation is one of Great Expectations
that can run on rows in PostgreSQL. An argument in bold must be given. Invalid arguments are refused with file and line,
because with them the check would crash when it runs:

| refused | example |
|---|---|
| an invalid value | `min_value: abc`, `strict_min: maybe`, `value: 1.5` for a count |
| bounds that exclude each other, or a missing bound | `min_value: 5` with `max_value: 1` |
| a value that PostgreSQL cannot compare with the column | for a `bigint` `min_value: 2026-01-31`, `value_set: ["1"]` |
| a value of a set that no row could equal | `1.1` for a `real`; any for a `uuid`, a `time` or a `bytea`: use SQL |
| a column that the expectation cannot run on | a mean of a `text`, a regular expression for a `bigint` |
| columns that cannot be compared with each other | `column_A` a `text`, `column_B` a `bigint` |
| an empty list where one value is needed | `regex_list: []` |
| a regular expression that is invalid in every dialect | `((`; `penstock check` asks PostgreSQL about the others |
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
    checks = schema["properties"]["checks"]["items"]["allOf"]
    rule = schema["properties"]["rules"]["items"]
    return "\n".join([
        HEAD,
        *_table(schema),
        AFTER_PIPELINE,
        "## A column\n",
        *_table(column),
        AFTER_COLUMNS,
        *_list_formats(),
        TYPES_HEAD,
        *_list_types(),
        ALERTS,
        *_table(schema["properties"]["alerts"]["anyOf"][1]["items"]),
        RULES,
        *_table(rule),
        ROW_EXPECTATIONS + "\n".join(map(_explain_rule, rule["oneOf"][1:])),
        CHECKS + "\n".join(map(_explain_check, checks)),
        SUITES.format(defaults=", ".join(f"`{name}`" for name in DefaultsFile.model_fields)).rstrip(),
        "",
    ])  # fmt: skip


def _list_formats() -> list[str]:
    rows = [
        f"| `{name}` | {row.meaning} | {f'one, `{row.whole}`' if row.whole else 'any, by path'} |"
        for name, row in FORMATS.items()
    ]
    return ["| value | meaning | columns |", "|---|---|---|", *rows]


def _list_types() -> list[str]:
    rows = [f"| {', '.join(f'`{name}{row.arguments}`' for name in row.names)} | {row.json} |" for row in TYPES.values()]
    return ["| type | JSON |", "|---|---|", *rows]


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


def _explain_rule(form: dict[str, Any]) -> str:
    expect, needed = form["properties"]["expect"]["const"], form["required"][1:]
    names = [name for name in form["properties"] if name not in ("name", "reason", "hold_above", "expect")]
    arguments = [f"**{name}**" if name in needed else name for name in names]
    return f"| `{expect}` | {', '.join(arguments)} |"


def _explain_check(check: dict[str, Any]) -> str:
    name = check["if"]["properties"]["expect"]["const"]
    needed = check["then"]["required"]
    possible = [each for each in check["then"]["properties"] if each not in ("expect", "severity", *needed)]
    arguments = [*(f"**{each}**" for each in needed), *possible]
    return f"| `{name}` | {', '.join(arguments)} |"


if __name__ == "__main__":
    main()
