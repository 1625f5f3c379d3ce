"""Targets that people have changed, renamed or dropped: what is refused before a load is staged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from declaring import COLUMNS, declare
from fix_loads import Bind, plan_rows, stage_rows
from loading_process import query
from penstock.doctor.services import check_services
from penstock.errors import DeclarationError
from penstock.ledger.connection import connect, open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.load.publish import publish_load
from penstock.load.stage import begin_staging
from penstock.model.ranges import Range
from penstock.settings import Settings
from penstock.status.pipelines import read_status

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.health import Health

ORDERS = declare("topic")
OBSTACLES = {
    "the CHECK constraint positive": "alter table analytics.orders add constraint positive check (id >= 0)",
    "the generated column twice": "alter table analytics.orders add twice bigint generated always as (id * 2) stored",
    "the generated column thrice": "alter table analytics.orders add thrice bigint generated always as (id * 3)",
    "the identity column id": "alter table analytics.orders alter id add generated always as identity",
    "the trigger keep": "create function keep() returns trigger language plpgsql as 'begin return null; end';"
    " create trigger keep before delete on analytics.orders for each row execute function keep()",
    'the rule "Keep"': 'create rule "Keep" as on delete to analytics.orders do instead nothing',
}


@pytest.fixture
def loaded(db: str, bound: Bind) -> dict[str, str]:
    """The settings for a broker whose topic has been loaded into the target, by one load."""
    load_id = stage_rows(db, [Range(0, 0, 100)])
    settings = bound(db)
    publish(db, settings, load_id)
    return settings


def publish(db: str, kafka: dict[str, str], load_id: int) -> None:
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    publish_load(db, kafka, load_id)


def plan(db: str, pipeline: Pipeline = ORDERS) -> int:
    with connect(db) as connection:
        return plan_rows(connection, pipeline, [Range(0, 100, 200)]).load_id


def judge(db: str, kafka: dict[str, str], tmp_path: Path) -> tuple[Health, list[str]]:
    """The health of the pipeline, and what `check` says does not fit."""
    with open_ledger(db) as connection:
        [status] = read_status(connection, kafka, [ORDERS])
    findings = check_services(Settings(db, kafka, tmp_path, "local"), [ORDERS])
    return status.health, [finding.told for finding in findings if not finding.fits]


@pytest.mark.parametrize(("told", "made"), OBSTACLES.items())
def test_an_addition_to_the_target_is_refused_with_the_sql_that_removes_it(
    db: str, loaded: dict[str, str], tmp_path: Path, told: str, made: str
) -> None:
    with psycopg.connect(db) as connection:
        connection.execute(made.encode())

    health, unfit = judge(db, loaded, tmp_path)
    assert (health.state, told in health.cause) == ("bad_target", True)
    assert [told in finding for finding in unfit] == [True]
    load_id = plan(db)
    with pytest.raises(DeclarationError, match=told) as refused:
        begin_staging(db, load_id)
    assert query(db, "select attempt from penstock.load where state = 'planned'") == [(0,)]
    remedy = re.search(r"take it off \((.*;)\)", refused.value.next_step)
    assert remedy
    assert remedy[1] in health.next_step

    with psycopg.connect(db) as connection:
        connection.execute(remedy[1].encode())
        connection.execute("update penstock.load set state = 'discarded', ended_at = now() where state = 'planned'")
    health, unfit = judge(db, loaded, tmp_path)
    assert health.state != "bad_target"
    assert unfit == []
    publish(db, loaded, stage_rows(db, [Range(0, 100, 150)]))
    assert query(db, "select count(*) from analytics.orders") == [(150,)]


def test_a_dropped_target_with_published_loads_is_never_created_again(
    db: str, loaded: dict[str, str], tmp_path: Path
) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("drop table analytics.orders")

    health, unfit = judge(db, loaded, tmp_path)
    with pytest.raises(DeclarationError, match="does not exist, and 1 loads are published in it") as refused:
        begin_staging(db, plan(db))

    assert (health.state, health.cause, health.next_step) == ("bad_target", refused.value.what, refused.value.next_step)
    assert [refused.value.what in finding for finding in unfit] == [True]
    assert "restore the table from a backup" in refused.value.next_step
    assert query(db, "select to_regclass('analytics.orders')") == [(None,)]


def test_a_renamed_target_is_found_under_its_new_name(db: str, loaded: dict[str, str], tmp_path: Path) -> None:
    with psycopg.connect(db) as connection:
        connection.execute('create schema old; alter table analytics.orders rename to "Orders"')
        connection.execute('alter table analytics."Orders" set schema old')

    health, _ = judge(db, loaded, tmp_path)
    load_id = plan(db)
    with pytest.raises(DeclarationError, match=r'old\."Orders" holds rows of these loads') as refused:
        begin_staging(db, load_id)
    assert health.cause == refused.value.what

    back = re.search(r"\((alter table .*;)\)", refused.value.next_step)
    assert back
    with psycopg.connect(db) as connection:
        connection.execute(back[1].encode())
    assert begin_staging(db, load_id) == 1


def test_a_target_that_was_never_published_into_is_created(db: str, loaded: dict[str, str]) -> None:
    assert begin_staging(db, plan(db, declare("topic", target="analytics.orders_2", columns=COLUMNS))) == 1

    assert query(db, "select count(*) from analytics.orders_2") == [(0,)]
