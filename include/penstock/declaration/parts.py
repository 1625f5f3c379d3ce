"""The parts of a declaration as models of pydantic: columns, the target, checks."""

import hashlib
import json
import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from penstock.declaration.carried import CARRIED_NAMES
from penstock.declaration.columns import ALLOWED_PATHS, MAX_STEPS, ColumnType, format_path, parse_path, parse_type
from penstock.declaration.expectations import NOT_ON_POSTGRESQL
from penstock.declaration.mistakes import clip, suggest
from penstock.declaration.own_expectations import ALL_EXPECTATIONS

# pydantic's messages must not quote inputs: a person may write a password where the id of a connection belongs.
STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
_SYSTEM_COLUMNS = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
OWN_SCHEMAS = ("penstock", "penstock_stage", "penstock_kept", "penstock_results", "information_schema")
# The validation context of a declaration that the ledger keeps. It was accepted by earlier rules, so later rules are
# not applied to it.
KEPT = object()
# msgspec reads no member of JSON by such a name: every load of the pipeline would fail.
UNREADABLE = re.compile(r'["\\\x00-\x1f]')
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# A failed check of severity error holds the load; a warning is sent; an info is recorded only.
Severity = Literal["error", "warning", "info"]


def _read_type(value: object) -> ColumnType:
    if isinstance(value, ColumnType):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be the name of a PostgreSQL type, not {clip(value)}; allowed: bigint, text, …")
    return parse_type(value)


def _read_path(value: object) -> object:
    if isinstance(value, tuple):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be a JSON path, not {clip(value)}; allowed: {ALLOWED_PATHS}")
    return parse_path(value)


def _check_path(path: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if info.context is KEPT:
        return path
    if len(path) > MAX_STEPS:
        raise ValueError(f"a path of {len(path)} steps; allowed: at most {MAX_STEPS} steps")
    unreadable = next((step for step in path if UNREADABLE.search(step)), None)
    if unreadable is not None:
        raise ValueError(
            f'the step {clip(unreadable)} has a ", a \\ or a control character; allowed: a name without them'
        )
    return path


TypeField = Annotated[
    ColumnType,
    PlainValidator(_read_type),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
PathField = Annotated[
    tuple[StrictStr, ...],
    BeforeValidator(_read_path),
    AfterValidator(_check_path),
    PlainSerializer(format_path, return_type=str),
    WithJsonSchema({"type": "string"}),
]


class Column(BaseModel):
    """One column of the target, and its place in the value."""

    model_config = STRICT

    name: StrictStr = Field(description="The column's name in the target.")
    type: TypeField = Field(description="Its PostgreSQL type.")
    path: PathField = Field(description="The place in the value; without it, $ and the column's own name.")
    required: StrictBool = Field(default=False, description="Whether a record without it goes to the quarantine.")
    unit: Literal["s", "ms", "us"] | None = Field(
        default=None,
        description="For timestamps written as numbers: s, ms or us (seconds, milli- or microseconds since 1970).",
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if name.startswith("_"):
            raise ValueError(
                f"{clip(name)} begins with _, reserved for {', '.join(CARRIED_NAMES)}; allowed: a letter first"
            )
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(
                f"{clip(name)} is not a valid column name; allowed: a lower-case letter, "
                "then lower-case letters, digits and _, at most 63 characters"
            )
        if name in _SYSTEM_COLUMNS:
            raise ValueError(
                f"{clip(name)} is a system column of PostgreSQL; allowed: any name except {', '.join(_SYSTEM_COLUMNS)}"
            )
        return name


class Target(BaseModel):
    """The table that the pipeline loads; written as schema.table."""

    model_config = STRICT

    schema_name: StrictStr
    table_name: StrictStr

    def __str__(self) -> str:
        return f"{self.schema_name}.{self.table_name}"

    @field_validator("schema_name", "table_name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(
                f"{clip(name)} is not a valid name for a target's schema or table; allowed: schema.table, each of "
                "lower-case letters, digits and _, no digit first, at most 63 characters"
            )
        return name

    @field_validator("schema_name")
    @classmethod
    def _check_schema(cls, name: str) -> str:
        if name in OWN_SCHEMAS or name.startswith("pg_"):
            raise ValueError(
                f"the schema {name} cannot hold targets; allowed: any schema except {', '.join(OWN_SCHEMAS)} "
                "and those that begin with pg_"
            )
        return name

    @model_serializer
    def _join(self) -> str:
        return str(self)


def _read_target(value: object) -> object:
    if isinstance(value, Target):
        return value
    if not isinstance(value, str) or value.count(".") != 1:
        raise ValueError(f"{clip(value)} is not a valid table; allowed: schema.table such as analytics.orders")
    schema_name, table_name = value.split(".")
    return {"schema_name": schema_name, "table_name": table_name}


TargetField = Annotated[Target, BeforeValidator(_read_target), WithJsonSchema({"type": "string"})]


class Check(BaseModel):
    """One expectation on the staged rows. In YAML its arguments are written beside `expect` and `severity`."""

    model_config = STRICT

    expect: StrictStr
    severity: Severity = "error"
    suite: StrictStr | None = None  # the suite that it comes from
    arguments: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _gather_arguments(cls, given: object) -> object:
        if not isinstance(given, dict) or ("arguments" in given and given.keys() <= cls.model_fields.keys()):
            return given
        own = {name: given[name] for name in ("expect", "severity", "suite") if name in given}
        return own | {"arguments": {name: value for name, value in given.items() if name not in own}}

    @field_validator("expect")
    @classmethod
    def _check_expectation(cls, expect: str) -> str:
        if expect in NOT_ON_POSTGRESQL:
            raise ValueError(f"{expect} cannot run on rows in PostgreSQL; allowed: {_nearest(expect)}")
        if expect not in ALL_EXPECTATIONS:
            raise ValueError(
                f"unknown expectation {clip(expect)}{suggest(expect, ALL_EXPECTATIONS)}; allowed: {_nearest(expect)}"
            )
        return expect

    @property
    def check_id(self) -> str:
        """Eight digits that are the same for the same expectation with the same arguments."""
        described = json.dumps([self.expect, self.arguments], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:8]

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        suite = {"suite": self.suite} if self.suite is not None else {}
        return {"expect": self.expect, "severity": self.severity, **suite, **self.arguments}


class Quality(BaseModel):
    """The use of the defaults that all pipelines of a folder share."""

    model_config = STRICT

    defaults: StrictBool = Field(default=True, description="Whether the defaults in quality.yaml apply.")


def _nearest(expect: str) -> str:
    """Name the nearest expectations only, because a list of all would hide the message."""
    near = get_close_matches(expect[:80], ALL_EXPECTATIONS, n=3, cutoff=0.3)
    return (
        f"{', '.join(near) or 'expect_column_values_to_not_be_null'}, and the others of Great Expectations and Penstock"
    )
