"""Checks that hold SQL: they read the staged rows and what the declaration names, and can do nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COLUMNS, declare
from fix_loads import stage_rows
from loading_process import query
from penstock.doctor.services import check_checker
from penstock.errors import ChecksCrashedError
from penstock.ledger.connection import connect, open_ledger
from penstock.ledger.load import read_load
from penstock.load.publish import publish_in
from penstock.load.validate import validate_load
from penstock.quality.checker import Access, open_checker
from privileges import superuser

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline

WRITTEN = Path("/tmp/penstock_check_was_here")
EVENT = "insert into penstock.event (actor, pipeline_id, what) values ('check', 1, 'escaped')"
ESCAPES = [
    f"select 1; commit; {EVENT}",
    f"{EVENT} returning 1",
    "with gone as (delete from penstock_stage.load_1_1 returning 1) select * from gone",
    "insert into analytics.orders default values returning 1",
    f"copy (select 1) to program 'touch {WRITTEN}'",
    f"copy (select 1) to '{WRITTEN}'",
    "select pg_read_file('/etc/passwd')",
    "select pg_read_file('PG_VERSION')",
    "select lo_import('/etc/passwd')",
    "select lo_create(0)",
    "select * from penstock.loads",
    "select value from penstock.quarantine",
    "select * from analytics.customers",
    "create table public.mine (id int)",
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'the test'",
]


@pytest.fixture(params=["login", "set role"])
def checker(request: pytest.FixtureRequest, checker_db: str) -> str | None:
    """The checks' login, or none: then the loader's session takes their role."""
    return checker_db if request.param == "login" else None


def with_queries(*queries: str, **changes: Any) -> Pipeline:
    checks = [{"expect": "unexpected_rows_expectation", "unexpected_rows_query": each} for each in queries]
    return declare("topic", checks=checks, **changes)


def do(db: str, statement: str) -> None:
    """Run a statement by hand, as the superuser."""
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(statement.encode())


def stage_with_neighbours(db: str, pipeline: Pipeline) -> int:
    do(db, "create schema if not exists analytics authorization penstock_loader")
    do(db, "create table analytics.customers (id bigint)")
    return stage_rows(db, pipeline=pipeline)


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_check_writes_nothing_and_reads_nothing_that_is_not_named(db: str, checker: str | None, escape: str) -> None:
    load_id = stage_with_neighbours(db, with_queries(escape))

    with psycopg.connect(superuser(db), application_name="the test") as watched:
        with pytest.raises(ChecksCrashedError):
            validate_load(db, load_id, checker)
        assert watched.execute("select 1").fetchone() == (1,)

    assert query(db, "select count(*) from penstock.event where actor = 'check'") == [(0,)]
    assert query(db, f"select count(*) from penstock_stage.load_{load_id}_1") == [(300,)]
    assert query(db, "select count(*) from analytics.orders") == [(0,)]
    assert query(db, "select count(*) from pg_largeobject_metadata") == [(0,)]
    assert query(db, "select to_regclass('public.mine')") == [(None,)]
    assert query(db, "select state from penstock.load") == [("staged",)]
    assert not WRITTEN.exists()


@pytest.mark.parametrize("ending", ["held", "crashed", "validated"])
def test_rows_that_were_checked_are_closed_to_the_checks_of_other_pipelines(
    db: str, checker: str | None, ending: str
) -> None:
    sql = {
        "held": "select * from {batch}",
        "crashed": "select nothing from {batch}",
        "validated": "select * from {batch} where false",
    }
    secret = stage_with_neighbours(db, with_queries(sql[ending], name="secret"))
    if ending == "crashed":
        with pytest.raises(ChecksCrashedError):
            validate_load(db, secret, checker)
    else:
        assert validate_load(db, secret, checker).passed == (ending == "validated")
    spy = stage_rows(db, pipeline=with_queries(f"select * from penstock_stage.load_{secret}_1", name="spy"))

    with pytest.raises(ChecksCrashedError, match="permission denied for table"):
        validate_load(db, spy, checker)


def test_a_check_that_leaves_its_role_is_back_in_it_for_the_next(db: str, checker: str | None) -> None:
    leaving = "select * from {batch} where set_config('role', 'none', false) is null"
    longer = "select * from {batch} where set_config('statement_timeout', '0', false) is null"
    load_id = stage_with_neighbours(db, with_queries(leaving, longer, "select * from penstock.loads"))

    with pytest.raises(ChecksCrashedError, match="permission denied"):
        validate_load(db, load_id, checker)


@pytest.mark.parametrize("kind", ["regclass", "regrole", "integer"])
def test_a_check_that_stops_at_a_value_fails_and_does_not_quote_it(db: str, checker: str | None, kind: str) -> None:
    load_id = stage_with_neighbours(
        db, with_queries(f"select * from {{batch}} where ('canary' || _offset)::{kind} is null")
    )

    verdict = validate_load(db, load_id, checker)

    assert verdict.load.state == "held"
    assert re.fullmatch(r"unexpected_rows_expectation: error [a-z ]+ \(SQLSTATE (22|42)\w{3}\)", verdict.cause or "")


def test_words_after_a_located_error_do_not_uncover_a_value(db: str, checker: str | None) -> None:
    load_id = stage_with_neighbours(
        db, with_queries("select * from {batch} where (E'canary' || _offset || E'\\nLINE 1')::regclass is null")
    )

    assert "canary" not in (validate_load(db, load_id, checker).cause or "canary")


def test_a_value_that_stops_one_check_leaves_the_others_their_results(db: str, checker: str | None) -> None:
    checks = [{"expect": f"expect_column_{figure}_to_be_between", "column": column, "min_value": 0}
              for figure in ("max", "sum", "min", "mean") for column in ("id", "huge")]  # fmt: skip
    pipeline = declare("topic", columns={**COLUMNS, "huge": {"type": "real"}}, checks=checks)
    load_id = stage_rows(db, pipeline=pipeline)
    do(db, f"update penstock_stage.load_{load_id}_1 set huge = 3e38")

    verdict = validate_load(db, load_id, checker)

    assert (verdict.cause or "").startswith("expect_column_sum_to_be_between column huge: error numeric value out of")
    failed = 'select expectation, "column" from penstock.check_results where not success'
    assert query(db, failed) == [("expect_column_sum_to_be_between", "huge")]


def test_a_check_reads_values_of_every_type_that_python_cannot_hold(db: str, checker: str | None) -> None:
    values = (
        "interval '178000000 years', time '24:00', timetz '24:00+15', date 'infinity', timestamp '-infinity', "
        "timestamptz '20000-01-01+00', array[date '0044-03-15 BC'], tsrange('-infinity', '20000-01-01'), "
        "numeric 'NaN', 10::numeric ^ 5000, float8 'infinity', ('9' || repeat('0', 5000))::jsonb, int4multirange()"
    )
    load_id = stage_with_neighbours(db, with_queries(f"select {values} from {{batch}} where id < 3"))

    assert validate_load(db, load_id, checker).cause == "unexpected_rows_expectation: observed_value 3"


def test_brackets_colons_and_percent_signs_in_a_check_reach_postgresql(db: str, checker: str | None) -> None:
    true = (
        """'{{"a":1}}'::jsonb ->> 'a' = '1' and ':x' = chr(58) || 'x' and (array[7, 8])[:1] = '{{7}}'"""
        """ and 'a%s' like 'a%'"""
    )
    load_id = stage_with_neighbours(db, with_queries(f"select * from {{batch}} where id < 3 and {true}"))

    assert validate_load(db, load_id, checker).cause == "unexpected_rows_expectation: observed_value 3"


def test_advice_to_name_tables_is_given_for_tables_only(db: str, checker: str | None) -> None:
    of_table = stage_with_neighbours(db, with_queries("select * from analytics.customers"))
    of_function = stage_rows(db, pipeline=with_queries("select pg_read_file('PG_VERSION')", name="files"))

    with pytest.raises(ChecksCrashedError, match="permission denied for schema") as table:
        validate_load(db, of_table, checker)
    with pytest.raises(ChecksCrashedError, match="permission denied for function") as function:
        validate_load(db, of_function, checker)

    assert "checks_read" in table.value.next_step
    assert "checks_read" not in function.value.next_step


@pytest.mark.parametrize(
    ("type_", "value", "figure", "argument", "bound", "passes"),
    [
        ("timestamptz", "20000-01-01+00", "max_to_be_between", "max_value", "9999-12-30", False),
        ("timestamptz", "20000-01-01+00", "max_to_be_between", "min_value", "2026-01-31", True),
        ("timestamp", "0044-03-15 BC", "min_to_be_between", "min_value", "0001-01-02", False),
        ("timestamp", "0044-03-15 BC", "min_to_be_between", "max_value", "1900-01-01", True),
        ("date", "infinity", "max_to_be_between", "max_value", "2026-01-31", False),
        ("date", "infinity", "distinct_values_to_be_in_set", "value_set", ["9999-12-31"], False),
    ],
)
def test_a_moment_beyond_the_range_of_python_keeps_its_order_in_a_check(
    db: str, checker: str | None, type_: str, value: str, figure: str, argument: str, bound: object, passes: bool
) -> None:
    check = {"expect": f"expect_column_{figure}", "column": "c", argument: bound}
    pipeline = declare("topic", columns={**COLUMNS, "c": {"type": type_}}, checks=[check])
    load_id = stage_with_neighbours(db, pipeline)
    do(db, f"update penstock_stage.load_{load_id}_1 set c = '{value}'")

    assert validate_load(db, load_id, checker).passed == passes


def test_a_check_with_a_wrong_name_says_which(db: str, checker: str | None) -> None:
    load_id = stage_with_neighbours(db, with_queries("select * from {batch} where no_such_column = 1"))

    with pytest.raises(ChecksCrashedError, match='column "no_such_column" does not exist'):
        validate_load(db, load_id, checker)


@pytest.mark.parametrize("several", ["select 1; select 2", f"select 1; commit; {EVENT}", "rollback; begin read write"])
def test_the_server_takes_one_statement_of_a_check_at_a_time(db: str, several: str) -> None:
    with (
        open_checker(Access(db, None), 1) as connection,
        pytest.raises(psycopg.errors.SyntaxError, match="multiple commands"),
    ):
        connection.cursor().execute(several)


def test_no_statement_of_a_check_changes_mode_limit_or_role_of_the_next(db: str) -> None:
    with open_checker(Access(db, "penstock_checker"), 7) as connection:
        cursor = connection.cursor()
        for leaving in (
            "select set_config('statement_timeout', '0', false), set_config('role', 'none', false)",
            "set default_transaction_read_only = off",
            "commit",
            "reset role",
        ):
            cursor.execute(leaving)
            cursor.execute(
                "select current_user, current_setting('statement_timeout'), current_setting('transaction_read_only')"
            )
            assert cursor.fetchone() == ("penstock_checker", "7min", "on")


def test_a_table_under_checks_read_is_granted_where_the_loader_owns_it(db: str, checker: str | None) -> None:
    strangers = "select * from {batch} where id not in (select id from analytics.customers)"
    load_id = stage_with_neighbours(db, with_queries(strangers, checks_read=["analytics.customers"]))
    with pytest.raises(ChecksCrashedError, match=r"grant select on .*customers.* to penstock_checker"):
        validate_load(db, load_id, checker)

    do(db, "alter table analytics.customers owner to penstock_loader")
    verdict = validate_load(db, load_id, checker)

    assert verdict.cause is not None
    assert "unexpected_rows_expectation" in verdict.cause


def test_a_published_leaf_is_not_left_readable_to_the_checks(db: str, checker: str | None) -> None:
    load_id = stage_rows(db)
    assert validate_load(db, load_id, checker).passed
    readable = "select has_table_privilege('penstock_checker', %s, 'select')"
    assert query(db, readable, f"penstock_stage.load_{load_id}_1") == [(False,)]
    do(
        db, f"grant select on penstock_stage.load_{load_id}_1 to penstock_checker"
    )  # as a validation that dies leaves it

    with open_ledger(db) as connection:
        publish_in(connection, load_id)

    assert query(db, readable, f"analytics.orders_load_{load_id}") == [(False,)]


@pytest.mark.parametrize(
    ("strength", "weakness", "told"),
    [
        ("alter role penstock_checker superuser", "alter role penstock_checker nosuperuser", "is a superuser"),
        ("grant pg_read_server_files to penstock_checker", "revoke pg_read_server_files from penstock_checker",
         "is a member of pg_read_server_files"),
        ("grant penstock_loader to penstock_checker", "revoke penstock_loader from penstock_checker", "member of"),
        ("grant insert on analytics.orders to penstock_checker",
         "revoke insert on analytics.orders from penstock_checker", "may write analytics.orders"),
    ],
)  # fmt: skip
def test_checks_are_not_run_by_a_role_that_may_do_more(
    db: str, checker_db: str, strength: str, weakness: str, told: str
) -> None:
    load_id = stage_rows(db)
    with psycopg.connect(superuser(db), autocommit=True) as admin:
        admin.execute("grant usage on schema analytics to penstock_checker")
        if "penstock_loader to" in strength:
            admin.execute("revoke penstock_checker from penstock_loader")
        admin.execute(strength.encode())
        try:
            with pytest.raises(ChecksCrashedError, match=told):
                validate_load(db, load_id, checker_db)
            assert not check_checker(db, checker_db, [declare("topic")]).fits
        finally:
            admin.execute(weakness.encode())
            admin.execute("grant penstock_checker to penstock_loader")
    assert validate_load(db, load_id, checker_db).passed
    assert check_checker(db, checker_db, [declare("topic")]).fits


def test_the_checks_have_no_login_and_check_says_what_is_better(db: str) -> None:
    found = check_checker(db, None, [declare("topic")])

    assert found.fits
    assert "PENSTOCK_DB_CHECKER" in found.told


def test_penstock_s_own_counts_need_no_right_of_the_checks(db: str, checker_db: str) -> None:
    load_id = stage_rows(db, quarantined=[(0, 3)])

    assert validate_load(db, load_id, checker_db).passed
    with connect(db) as connection:
        assert read_load(connection, load_id).state == "validated"
