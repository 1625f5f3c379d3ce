"""The model of a declaration: the values that it accepts and refuses, and the round trip through JSON."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from croniter import croniter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.declaration.columns import format_path, parse_path
from penstock.declaration.expectations import EXPECTATIONS
from penstock.declaration.parts import UNREADABLE
from penstock.declaration.pipeline import Check, Column, Pipeline, Target
from penstock.declaration.schedules import check_schedule
from penstock.declaration.tombstones import find_key_columns

MINIMAL: dict[str, Any] = {
    "name": "orders",
    "topic": "orders",
    "value": "json",
    "columns": {"id": {"type": "bigint"}, "amount": {"type": "numeric(12,2)"}},
    "target": "analytics.orders",
}


def mistakes(**changes: Any) -> dict[str, str]:
    """List every mistake of the minimal declaration with these changes, by place."""
    declared = {name: value for name, value in {**MINIMAL, **changes}.items() if value is not ...}
    with pytest.raises(ValidationError) as refused:
        Pipeline.model_validate(declared)
    return {".".join(map(str, error["loc"])): error["msg"] for error in refused.value.errors()}


def declare(**changes: Any) -> Pipeline:
    return Pipeline.model_validate({**MINIMAL, **changes})


def test_a_missing_key_has_its_documented_default() -> None:
    pipeline = declare()
    assert (pipeline.kafka, pipeline.schedule, pipeline.start) == ("kafka_default", "@hourly", "earliest")
    assert (pipeline.max_records_per_partition, pipeline.key, pipeline.reader) == (5_000_000, None, "native")
    assert (pipeline.isolation, pipeline.mode, pipeline.poison) == ("read_committed", "append", "quarantine")
    assert (pipeline.indexes, pipeline.checks, pipeline.max_quarantined) == ((), (), None)
    assert (pipeline.owner, pipeline.tags, pipeline.alerts) == ("penstock", (), ())
    assert (pipeline.retries, pipeline.timeout_minutes) == (3, 120)
    assert pipeline.mirror_group is None


@pytest.mark.parametrize("name", ["", " ", "x" * 250])
def test_the_name_of_a_mirror_group_is_not_empty_and_not_too_long(name: str) -> None:
    assert "allowed: 1 to 249 bytes" in mistakes(mirror_group=name)["mirror_group"]


def test_columns_keep_their_order_and_take_their_own_name_as_path() -> None:
    assert [(column.name, column.type.sql, column.path) for column in declare().columns] == [
        ("id", "bigint", ("id",)),
        ("amount", "numeric(12,2)", ("amount",)),
    ]


def test_columns_keep_their_order_in_jsonb_which_sorts_names() -> None:
    columns = {"zz": {"type": "text"}, "a": {"type": "text"}, "mmm": {"type": "text"}}
    pipeline = declare(columns=columns)
    stored = json.loads(json.dumps(pipeline.model_dump(mode="json"), sort_keys=True))
    assert [column.name for column in Pipeline.model_validate(stored).columns] == ["zz", "a", "mmm"]
    assert Pipeline.model_validate(stored) == pipeline


def test_a_declaration_can_be_made_of_parts_in_python() -> None:
    parts = {
        "columns": (
            Column.model_validate({"name": "id", "type": "bigint", "path": "$.id"}),
            Column.model_validate({"name": "amount", "type": "numeric(12,2)", "path": ("amount",)}),
        ),
        "target": Target(schema_name="analytics", table_name="orders"),
    }
    assert declare(**parts) == declare()
    assert Pipeline.model_validate(dict(declare())) == declare()


def test_mistakes_inside_parts_and_between_parts_are_reported_together() -> None:
    found = mistakes(
        name="Orders",
        columns={"id": {"type": "bigit"}, "b": {"type": "text", "unit": "s"}},
        indexes=[["b", "c"]],
        checks=[{"expect": "expect_column_values_to_be_unique", "column": "d"}],
        retries="3",
    )
    assert set(found) == {"name", "columns.0.type", "columns.1.unit", "indexes.0.1", "checks.0.column", "retries"}


def test_a_declaration_that_is_not_a_mapping_is_refused() -> None:
    for wrong in (None, ["a"], "orders", 5):
        with pytest.raises(ValidationError, match="must be a mapping"):
            Pipeline.model_validate(wrong)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"name": ...}, "name", "is missing; allowed: the pipeline's name"),
    ({"nme": "x"}, "nme", "unknown name (did you mean name?); allowed: name, topic,"),
    ({"name": "1x"}, "name", "not a valid pipeline name"),
    ({"name": "x" * 51}, "name", "at most 50 characters"),
    ({"name": "orders\n"}, "name", "not a valid pipeline name"),
    ({"topic": ".."}, "topic", "not a topic name"),
    ({"topic": "a/b"}, "topic", "not a topic name"),
    ({"topic": 5}, "topic", "must be text, not 5"),
    ({"value": "avro"}, "value", "invalid value 'avro'; allowed: json, text, bytes"),
    ({"key": "json"}, "key", "allowed: text, bytes"),
    ({"reader": "sparc"}, "reader", "did you mean spark"),
    ({"isolation": "committed"}, "isolation", "allowed: read_committed, read_uncommitted"),
    ({"mode": "upsert"}, "mode", "allowed: append"),
    ({"poison": "skip"}, "poison", "allowed: quarantine, stop"),
    ({"schedule": "@hourely"}, "schedule", "unknown preset"),
    ({"schedule": "* * * *"}, "schedule", "five cron fields"),
    ({"schedule": "60 * * * *"}, "schedule", "not a valid minute"),
    ({"schedule": "0 24 * * *"}, "schedule", "not a valid hour"),
    ({"schedule": "0 0 0 * *"}, "schedule", "not a valid day of the month"),
    ({"schedule": "0 0 * 13 *"}, "schedule", "not a valid month"),
    ({"schedule": "0 0 * * mo"}, "schedule", "not a valid day of the week"),
    ({"schedule": "*/0 * * * *"}, "schedule", "not a valid minute"),
    ({"schedule": "r * * * *"}, "schedule", "not a valid minute"),
    ({"schedule": "h * * * *"}, "schedule", "not a valid minute"),
    ({"schedule": "0 0 30 2 *"}, "schedule", "never runs"),
    ({"schedule": "0 0 31 4,6,9,11 *"}, "schedule", "never runs"),
    ({"schedule": "0 0 l * 1#2"}, "schedule", "never runs"),
    ({"schedule": f"{'0,' * 100}0 * * * *"}, "schedule", "at most 200 characters"),
    ({"start": "now"}, "start", "allowed: earliest, latest, or an ISO time with a zone"),
    ({"start": "2026-01-31T00:00:00"}, "start", "no time zone"),
    ({"start": "2026-01-31"}, "start", "no time zone"),
    ({"start": "1969-12-31T23:59:59.999Z"}, "start", "before 1970"),
    ({"start": None}, "start", "allowed: earliest"),
    ({"max_records_per_partition": 0}, "max_records_per_partition", "allowed: 1 and more"),
    ({"max_records_per_partition": 2**63}, "max_records_per_partition", "is too large"),
    ({"max_records_per_partition": True}, "max_records_per_partition", "must be a whole number"),
    ({"max_quarantined": -1}, "max_quarantined", "allowed: 0 and more"),
    ({"retries": -1}, "retries", "allowed: 0 and more"),
    ({"timeout_minutes": 0}, "timeout_minutes", "allowed: 1 and more"),
    ({"timeout_minutes": 1.5}, "timeout_minutes", "must be a whole number"),
    ({"owner": " "}, "owner", "1 to 100 characters"),
    ({"tags": [f"t{number}" for number in range(51)]}, "tags", "51 tags; allowed: at most 50"),
    ({"description": "x" * 1001}, "description", "1,001 characters; allowed: at most 1,000"),
    ({"owner": "x" * 101}, "owner", "allowed: 1 to 100 characters"),
    ({"tags": "shop"}, "tags", "must be a list, not 'shop'; allowed: a list of tags"),
    ({"target": "orders"}, "target", "allowed: schema.table"),
    ({"target": "a.b.c"}, "target", "allowed: schema.table"),
    ({"target": {"schema_name": "a", "table_name": "b"}}, "target", "allowed: schema.table"),
    ({"target": "Analytics.orders"}, "target", "lower-case"),
    ({"target": f"analytics.{'x' * 64}"}, "target", "at most 63 characters"),
    ({"target": "penstock.load"}, "target", "the schema penstock cannot hold targets"),
    ({"target": "penstock_stage.x"}, "target", "cannot hold targets"),
    ({"target": "penstock_kept.x"}, "target", "cannot hold targets"),
    ({"target": "pg_catalog.x"}, "target", "cannot hold targets"),
    ({"columns": {}}, "columns", "is empty; allowed: at least one"),
    ({"columns": ...}, "columns", "is missing; allowed: a mapping of column names"),
    ({"columns": "id"}, "columns", "must be a list, not 'id'; allowed: a mapping of column names"),
    ({"columns": {"id": "bigint"}}, "columns.0", "must be a mapping, not 'bigint'; allowed: type, path, required"),
    ({"columns": {"id": {}}}, "columns.0.type", "is missing; allowed: "),
    ({"columns": {"id": {"type": 5}}}, "columns.0.type", "name of a PostgreSQL type"),
    ({"columns": {"id": {"type": "int", "requird": True}}}, "columns.0.requird", "did you mean required"),
    ({"columns": {"id": {"type": "int", "required": "yes"}}}, "columns.0.required", "allowed: true, false"),
    ({"columns": {"id": {"type": "int", "name": "x"}}}, "columns.id.name", "the key above is the name"),
    ({"columns": {"id": {"type": "int", "unit": "ms"}}}, "columns.0.unit", "a unit has no effect on integer"),
    ({"columns": {"id": {"type": "timestamptz", "unit": "ns"}}}, "columns.0.unit", "allowed: s, ms, us"),
    ({"columns": {"id": {"type": "int", "path": "id"}}}, "columns.0.path", "must begin with $"),
    ({"columns": {"id": {"type": "int", "path": "$.a[0]"}}}, "columns.0.path", "invalid array index '[0]'"),
    ({"columns": {"id": {"type": "int", "path": ["a"]}}}, "columns.0.path", "must be a JSON path, not a list"),
    (
        {"columns": {"id": {"type": "int", "path": "$" + ".a" * 101}}},
        "columns.0.path",
        "a path of 101 steps; allowed: at most 100",
    ),
    *(
        ({"columns": {"id": {"type": "int", "path": f"$['{step}']"}}}, "columns.0.path", "allowed: a name without them")
        for step in ('a"b', r"a\\b", "a\x1fb")
    ),
    ({"columns": {"_offset": {"type": "int"}}}, "columns.0", "begins with _"),
    ({"columns": {"Id": {"type": "int"}}}, "columns.0", "not a valid column name"),
    ({"columns": {"x" * 64: {"type": "int"}}}, "columns.0", "at most 63 characters"),
    ({"columns": {"ctid": {"type": "int"}}}, "columns.0", "a system column of PostgreSQL"),
    ({"columns": [{"name": "id", "type": "int"}] * 2}, "columns.1", "declared twice"),
    ({"indexes": [["idd"]]}, "indexes.0.0", "unknown column 'idd' (did you mean id?); allowed: id, amount, _load_id"),
    ({"indexes": [["_key"]]}, "indexes.0.0", "unknown column '_key'"),
    ({"indexes": ["id"]}, "indexes.0", "must be a list, not 'id'; allowed: a list of indexes"),
    ({"indexes": [[]]}, "indexes.0", "is empty"),
    ({"indexes": [["id", "id"]]}, "indexes.0.1", "twice in one index"),
    ({"indexes": [["id"], ["id"]]}, "indexes.1", "the same index"),
    ({"columns": {"id": {"type": "json"}}, "indexes": [["id"]]}, "indexes.0.0", "allowed: columns of other types"),
    ({"checks": [{}]}, "checks.0.expect", "is missing"),
    ({"checks": ["x"]}, "checks.0", "must be a mapping"),
]


@pytest.mark.parametrize(("changes", "place", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_mistake_is_reported_at_its_place_with_the_allowed_values(
    changes: dict[str, Any], place: str, message: str
) -> None:
    found = mistakes(**changes)
    assert list(found) == [place]
    assert message in found[place]
    assert "allowed: " in found[place]
    assert found[place].isprintable()


@pytest.mark.parametrize(
    ("declared", "place", "message"),
    [
        ({"load_when": {}}, "load_when", "neither min_records nor max_wait is given"),
        ({"load_when": {"max_wait": "30s"}}, "load_when.max_wait", "allowed: 1m or longer"),
        ({"load_when": {"max_wait": "soon"}}, "load_when.max_wait", "not a valid duration"),
        ({"load_when": {"records": 5}}, "load_when.records", "allowed: min_records, max_wait"),
        ({"window": "22-06"}, "window", "allowed: two times of day"),
        ({"window": "22:00-06:00", "schedule": "0 12 * * *"}, "window", "has no time in the window"),
        ({"rate": 0}, "rate", "1"),
        ({"load_when": {"min_records": 5}, "schedule": "@once"}, "schedule", "cannot be joined with load_when"),
        ({"spread": True, "schedule": "*/5 * * * *"}, "spread", "is not at minute 0"),
        ({"spread": True, "schedule": None}, "spread", "is not at minute 0"),
    ],
)
def test_mistakes_in_load_when_window_and_rate_are_named(declared: dict[str, Any], place: str, message: str) -> None:
    found = mistakes(**declared)
    assert list(found) == [place]
    assert message in found[place]


KEEP: dict[str, Any] = {"tombstones": "keep"}
UPSERT: dict[str, Any] = {"table": "analytics.newest", "mode": "upsert", "key": ["id"], "deleted_when": "tombstone"}
IDS = {"id": {"type": "int"}, "b": {"type": "json"}}


@pytest.mark.parametrize(
    ("declared", "place", "message"),
    [
        (KEEP, "key_columns", "is missing; allowed: a mapping of columns"),
        ({"key_columns": {"id": "$"}}, "key_columns", "no effect without tombstones: keep"),
        ({"keep_rows_days": 30}, "keep_rows_days", "allowed: with results"),
        ({"key": "text", "results": [UPSERT]}, "results.0.deleted_when", "allowed: with tombstones: keep"),
        ({**KEEP, "key_columns": {"ids": "$"}}, "key_columns.ids", "did you mean id?"),
        ({**KEEP, "key_columns": {"b": "$"}}, "key_columns.b", "is json, which is no part of a key"),
        ({**KEEP, "key_columns": {}}, "key_columns", "names no column"),
        ({**KEEP, "key_columns": {"id": "id"}}, "key_columns.id", "must begin with $"),
        ({**KEEP, "key": "text", "columns": {**IDS, "c": {"type": "int", "required": True}}}, "columns.2.required",
         "a record without value has null here"),
        ({**KEEP, "key": "text", "columns": {**IDS, "c": {"type": "int"}}, "results": [UPSERT | {"key": ["id", "c"]}]},
         "key_columns", "is missing for the key columns 'id', 'c'"),
        ({**KEEP, "key_columns": {"id": "$.i"}, "columns": {**IDS, "c": {"type": "int"}},
          "results": [UPSERT | {"key": ["_key", "c"]}], "key": "text"}, "results.0.key.1", "'c' is null in a record"),
    ],
)  # fmt: skip
def test_a_declaration_without_place_for_tombstones_is_refused(
    declared: dict[str, Any], place: str, message: str
) -> None:
    found = mistakes(**{"columns": IDS} | declared)
    assert list(found) == [place]
    assert message in found[place]


def test_tombstones_fill_required_key_columns_from_the_key() -> None:
    columns = {"id": {"type": "int", "required": True}, "b": {"type": "text"}}
    given = declare(columns=columns, tombstones="keep", key_columns={"id": "$.i"}, results=[UPSERT])
    assert Pipeline.model_validate_json(given.model_dump_json()) == given
    assert find_key_columns(given) == {"id": ("i",)}
    assert find_key_columns(declare(columns=columns, key="text", results=[UPSERT], **KEEP)) == {"id": ()}
    assert find_key_columns(declare(columns=IDS, key="bytes", results=[UPSERT | {"key": ["_key"]}], **KEEP)) == {}


BETWEEN = "expect_column_values_to_be_between"
ID = {"column": "id", "min_value": 0}
REFUSED_CHECKS: list[tuple[dict[str, Any], str, str]] = [
    ({"expect": BETWEEN + "n", "column": "id"}, "expect", f"did you mean {BETWEEN}?"),
    ({"expect": "ExpectColumnValuesToBeUnique", "column": "id"}, "expect", "unknown expectation"),
    ({"expect": "expect_column_values_to_be_increasing", "column": "id"}, "expect", "cannot run on rows in PostgreSQL"),
    ({"expect": BETWEEN, **ID, "severity": "critical"}, "severity", "allowed: error, warning"),
    ({"expect": BETWEEN, "min_value": 0}, "column", "is missing"),
    ({"expect": BETWEEN, "column": "x", "min_value": 0}, "column", "unknown column"),
    ({"expect": BETWEEN, "column": 5, "min_value": 0}, "column", "5 is not a column's name"),
    ({"expect": BETWEEN, **ID, "min": 0}, "min", "unknown argument"),
    ({"expect": BETWEEN, **ID, "arguments": {}}, "arguments", "unknown argument"),
    ({"expect": BETWEEN, "column": "id", "min_value": float("inf")}, "min_value", "not a JSON value"),
    ({"expect": BETWEEN, **ID, "mostly": 99}, "mostly", "a number from 0 to 1"),
    (
        {"expect": "expect_compound_columns_to_be_unique", "column_list": ["id", "x"]},
        "column_list.1",
        "unknown column",
    ),
]


@pytest.mark.parametrize(("check", "place", "message"), REFUSED_CHECKS)
def test_an_invalid_check_is_refused_before_great_expectations_runs(
    check: dict[str, Any], place: str, message: str
) -> None:
    found = mistakes(checks=[check])
    assert list(found) == [f"checks.0.{place}"]
    assert message in found[f"checks.0.{place}"]


def test_checks_and_indexes_may_name_the_carried_columns() -> None:
    pipeline = declare(
        key="text",
        indexes=[["_timestamp"], ["_key", "id"]],
        checks=[{"expect": "expect_column_values_to_not_be_null", "column": "_key"}],
    )
    assert pipeline.checks == (
        Check(expect="expect_column_values_to_not_be_null", severity="error", arguments={"column": "_key"}),
    )


@pytest.mark.parametrize(("value", "type_"), [("text", "text"), ("bytes", "bytea")])
def test_a_value_without_parts_fills_one_column(value: str, type_: str) -> None:
    for column in ({"type": type_}, {"type": type_, "path": "$"}):
        assert declare(value=value, columns={"line": column}).columns[0].path == ()
    whole = {"type": type_, "path": "$"}
    assert "fills one" in mistakes(value=value, columns={"a": whole, "b": whole})["columns"]
    assert "allowed: $" in mistakes(value=value, columns={"a": {**whole, "path": "$.a"}})["columns.0.path"]
    assert f"allowed: {type_}" in mistakes(value=value, columns={"a": {**whole, "type": "jsonb"}})["columns.0.type"]


def test_a_start_is_the_same_moment_in_every_time_zone() -> None:
    assert declare(start="2026-01-31T01:00:00+01:00").start == datetime(2026, 1, 31, tzinfo=UTC)
    assert declare(start="2026-01-31T00:00:00Z").start == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    "schedule", ["@daily", "*/5 * * * *", "0 8-18/2 * * mon-fri", "0 0 l * *", "0 0 * * 1#2", "0,30 * 1 jan 7"]
)
def test_schedules_of_every_kind_are_accepted(schedule: str) -> None:
    assert declare(schedule=schedule).schedule == schedule


cron_parts = st.sampled_from([
    "*", "?", "0", "1", "5", "7", "12", "24", "30", "31", "60", "1-5", "22-2", "*/7", "5/20", "0-40/9", "l", "L5", "1w",
    "5#2", "mon#1", "jan", "feb-apr", "fri-mon", "r", "h", "r(1-3)", "-", "", "é", "1.5", "-1", "1e3", "٣",
])  # fmt: skip
cron_fields = st.lists(cron_parts, min_size=1, max_size=2).map(",".join)


@given(st.lists(cron_fields, min_size=5, max_size=5).map(" ".join) | st.text())
def test_every_accepted_schedule_has_a_next_run_in_croniter(text: str) -> None:
    try:
        check_schedule(text)
    except ValueError as error:
        assert "; allowed: " in str(error)  # noqa: PT017 - both outcomes are valid
    else:
        if not text.startswith("@"):
            assert croniter(text, datetime(2026, 1, 1)).get_next(datetime) > datetime(2026, 1, 1)  # noqa: DTZ001


def test_a_declaration_in_the_ledger_is_not_refused_by_newer_rules() -> None:
    deep = {"name": "deep", "type": "bigint", "path": "$" + ".a" * 150}
    kept = declare().model_dump(mode="json") | {"schedule": "0 0 30 2 *", "columns": [deep]}
    with pytest.raises(ValidationError):
        Pipeline.model_validate(kept)
    assert Pipeline.read_kept(kept).schedule == "0 0 30 2 *"
    assert Pipeline.read_kept(json.dumps(kept)) == Pipeline.read_kept(kept)


def test_a_spread_schedule_covers_the_minutes_of_the_hour_evenly() -> None:
    minutes = Counter(int(str(declare(name=f"p{number}", spread=True).times).split()[0]) for number in range(600))
    assert len(minutes) == 60
    assert max(minutes.values()) < 30
    assert declare(spread=True, schedule="@daily").times == declare(spread=True).times.replace("* *", "0 *", 1)  # type: ignore[union-attr]
    assert declare().times == "@hourly"


def test_a_schedule_may_be_null() -> None:
    assert declare(schedule=None).schedule is None


@pytest.mark.parametrize("name", ["kafka", "alerts"])
def test_a_password_in_place_of_a_connection_is_not_quoted(name: str) -> None:
    for written in ("mailto://user:canary@host", ["mailto://user:canary@host"], {"password": "canary"}):
        with pytest.raises(ValidationError) as refused:
            Pipeline.model_validate({**MINIMAL, name: written})
        assert "canary" not in str(refused.value)


def test_two_indexes_whose_joined_column_names_are_equal_are_both_accepted() -> None:
    columns = {name: {"type": "bigint"} for name in ("a_b", "c", "a", "b")}
    indexes = (("a_b", "c"), ("a", "b", "c"))
    assert declare(columns=columns, indexes=indexes).indexes == indexes


def test_a_pipeline_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        declare().name = "other"


# Round trips.
names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True).filter(lambda name: name not in {"xmin", "cmin", "ctid"})
steps = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4).map(tuple)
types = st.sampled_from(["bigint", "numeric(12,2)", "text", "varchar(20)", "char(2)", "timestamptz", "jsonb", "real"])
moments = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=st.just(timezone(timedelta(hours=5.5))),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)


def fits(type_: object, value: object) -> bool:
    """Whether a value can be in a set of values of a column."""
    kind = {"text": str, "boolean": bool, "bigint": int, "double precision": float}.get(str(type_))
    return value is None or (type(value) is kind and (not isinstance(value, int) or abs(value) < 2**63))


@st.composite
def declarations(draw: st.DrawFn) -> dict[str, Any]:
    readable = steps.filter(lambda path: not any(map(UNREADABLE.search, path)))
    paths = draw(st.dictionaries(names, readable, min_size=1, max_size=6))
    columns = {name: {"type": draw(types), "path": format_path(path), "required": draw(st.booleans())}
               for name, path in paths.items()}  # fmt: skip
    known = st.sampled_from(list(columns))
    ordered = [name for name, column in columns.items() if column["type"] not in ("json", "jsonb")]
    index = st.lists(st.sampled_from(ordered or ["_offset"]), min_size=1, unique=True)
    return {
        **MINIMAL,
        "start": draw(st.one_of(st.sampled_from(["earliest", "latest"]), moments.map(datetime.isoformat))),
        "columns": columns,
        "indexes": draw(st.lists(index, unique_by=tuple, max_size=3)),
        "checks": [
            {
                "expect": "expect_column_most_common_value_to_be_in_set",
                "column": column,
                "value_set": [value for value in draw(st.lists(scalars)) if fits(columns[column]["type"], value)],
                "severity": draw(severities),
            }
            for column in draw(st.lists(known, max_size=3))
            if not str(columns[column]["type"]).startswith("json")
        ],
        "max_quarantined": draw(st.one_of(st.none(), st.integers(0, 2**63 - 1))),
        "description": draw(st.one_of(st.none(), st.text())),
    }


severities = st.sampled_from(["error", "warning"])


@given(declarations())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_declaration_is_unchanged_by_a_round_trip_through_json(declared: dict[str, Any]) -> None:
    pipeline = Pipeline.model_validate(declared)
    assert list(declared["columns"]) == [column.name for column in pipeline.columns]
    assert Pipeline.model_validate(pipeline.model_dump(mode="json")) == pipeline
    assert Pipeline.model_validate(pipeline.model_dump()) == pipeline
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


@given(steps)
def test_a_path_of_any_names_is_unchanged_by_a_round_trip(path: tuple[str, ...]) -> None:
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("$", ()),
        ("$.a.b", ("a", "b")),
        ("$['weird key']['x']", ("weird key", "x")),
        ('$.a["b"]', ("a", "b")),
        (r"$['it\'s']", ("it's",)),
        ("$.größe", ("größe",)),
    ],
)
def test_paths_are_read_in_both_notations(written: str, path: tuple[str, ...]) -> None:
    assert parse_path(written) == path


@pytest.mark.parametrize(
    "written", ["", "a", "$a", "$.", "$..a", "$.*", "$[0]", "$[*]", "$['a'", "$[a]", "$.a.", "$ .a", "$.a b"]
)
def test_other_paths_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="names only, no array indexes"):
        parse_path(written)


json_values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3))
)
part_names = st.sampled_from(["name", "type", "path", "unit", "expect", "severity", "column", "column_list", "mostly"])
part_values = st.one_of(json_values, types, st.sampled_from(list(EXPECTATIONS)))
parts = st.lists(st.dictionaries(part_names, part_values))


@given(st.dictionaries(st.sampled_from([*Pipeline.model_fields, "nme"]), st.one_of(json_values, parts)))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_declaration_is_a_pipeline_or_a_validation_error(changes: dict[str, Any]) -> None:
    try:
        Pipeline.model_validate({**MINIMAL, **changes})
    except ValidationError as error:
        assert all("allowed: " in found["msg"] for found in error.errors())  # noqa: PT017 - both outcomes are valid


def test_a_name_reserved_for_dags_of_penstock_is_refused() -> None:
    assert "reserved for Penstock's own DAGs" in mistakes(name="penstock_settle")["name"]
