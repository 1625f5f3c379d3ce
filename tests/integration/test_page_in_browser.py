"""The page in Airflow, in a real browser: what it shows of real loads, and the actions of a person.

It makes the pictures of the docs, and pictures of each section, light and dark, in `build/page` for people to look at.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from fix_browser import KEYS
from fix_kafka import create_topic
from penstock.decide.rollback import roll_back
from penstock.declaration.pipeline import read_named
from penstock.status.sampler import sample_pipelines
from privileges import superuser
from producing import Account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fix_airflow import AirflowSite
    from fix_browser import Browser
    from penstock_stack.broker import Broker

SELECTION = "//*[@role='group' and @aria-label='selection']"
DIALOG = "//*[@role='dialog']"
SECTIONS = ("coverage", "loads", "results", "quality", "quarantine", "backfill", "incidents", "events")
pytestmark = pytest.mark.timeout(1200)
LIMIT = {"expect": "expect_column_values_to_be_between", "column": "amount", "max_value": 1000}
POSITIVE = {"name": "positive_amount", "where": "amount >= 0"}
NEWEST = {"table": "analytics.newest", "mode": "upsert", "key": ["id"]}
REFUNDS = (7, 11, 13)
LOOK = Path(__file__).parents[2] / "build" / "page"
LARGEST_PICTURE = 150_000  # bytes: a repository keeps every version of a picture
CANARY = "canary-0815-only-in-a-value"


@pytest.fixture(scope="module")
def orders(airflow: AirflowSite, kafka: Broker) -> AirflowSite:
    """A pipeline with a rolled back load, a hole of an aborted transaction, a quarantine, and a load that is held."""
    LOOK.mkdir(parents=True, exist_ok=True)
    create_topic(kafka.bootstrap, "orders", 2)
    account = Account(kafka.bootstrap, "orders")
    declare(airflow, account.topic, rules=[POSITIVE])
    for dag in ("penstock_audit", "penstock_maintenance"):
        airflow.stop_schedule(dag)
    account.send(amounts(-number if number in REFUNDS else number for number in range(200)), partition=0)
    account.send(amounts(range(200)), partition=1)
    account.transact(amounts(range(5)), commit=False, partition=1)
    account.send([b"no json: " + CANARY.encode()], partition=1)
    account.send(amounts([3]), partition=1)
    assert airflow.run("orders")[1] == "success"
    account.send(amounts(range(100)), partition=0)
    assert airflow.run("orders")[1] == "success"
    roll_back(airflow.loads, 2, "ada", "these are tests of the shop")
    account.send(amounts([5, 5000]), partition=1)
    assert airflow.run("orders")[1] == "failed"
    airflow.await_request(3)
    sample_pipelines(
        airflow.loads, lambda _: {"bootstrap.servers": kafka.bootstrap}, [read_named(airflow.pipelines, "orders")]
    )
    return airflow


def test_the_list_shows_each_pipeline_and_leads_to_its_page(orders: AirflowSite, browser: Browser) -> None:
    browser.sign_in(orders.web)
    browser.open(f"{orders.web.url}/plugin/penstock")
    row = browser.read("//tr[.//a[normalize-space()='orders']]")
    assert "held" in row
    assert "load 3" in row
    browser.write("//input[@aria-label='search']", "nothing of this name")
    browser.find("//*[contains(text(), 'No pipeline fits')]")
    browser.write("//input[@aria-label='search']", KEYS["backspace"] * 30)
    browser.find("//a[normalize-space()='orders']")
    browser.resize(1240, 560)
    picture(browser, "page-list.png")
    browser.click("//a[normalize-space()='orders']")
    browser.find("//h1[normalize-space()='orders']")


def test_a_dag_has_the_same_page_as_a_tab(orders: AirflowSite, browser: Browser) -> None:
    browser.sign_in(orders.web)
    browser.open(f"{orders.web.url}/dags/orders/plugin/penstock-dag")
    browser.find("//h1[normalize-space()='orders']")


def test_the_link_of_a_task_opens_its_load_on_the_page(orders: AirflowSite, browser: Browser) -> None:
    [(run,)] = query(orders, "select run_id from penstock.loads where pipeline = 'orders' and load_id = 3")
    links = orders.get(f"dags/orders/dagRuns/{run}/taskInstances/validate/links")["extra_links"]
    browser.sign_in(orders.web)
    browser.open(links["Load"])
    assert "Cause: " in browser.read("//article[@aria-label='load 3']")


def test_every_section_shows_what_the_ledger_holds(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    for name, texts in {
        "coverage": ("published ", "quarantined 4", "holes ", "rolled back 100", "sum "),
        "loads": ("rolled back", "held", "published", "3 loads"),
        "results": ("analytics.newest", "one row for each id", "current", "load 2", "none yet"),
        "quality": ("expect_column_values_to_be_between", "1 of "),
        "quarantine": ("rule positive_amount", "bad json"),
        "backfill": ("No backfill has run yet.",),
        "incidents": ("held load", "load 3", "Next: "),
        "events": ("rolled back", "ada", "these are tests of the shop"),
    }.items():
        shown = browser.read(f"//section[@id='{name}']")
        for text in texts:
            assert text in shown, (name, shown)
    browser.click("//button[contains(., 'expect_column_values_to_be_between')]")
    browser.find("//section[@id='quality']//*[contains(., 'load 3: offsets 1:209')]")
    browser.click("//button[@aria-label='load 3']")
    detail = browser.read("//article[@aria-label='load 3']")
    for text in ("Cause: ", "expect_column_values_to_be_between of amount", "Approve…", "1:"):
        assert text in detail, detail
    browser.click("//button[contains(., 'bad json')]")
    browser.find(f"//tr[contains(., '{find_broken(orders)}')]")
    assert CANARY not in browser.run("return document.documentElement.outerHTML"), "the page holds a value"


def test_the_map_has_a_bar_a_partition_and_its_legend_sums_up(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    legend = browser.read("//*[@data-legend]").replace(",", "")
    counts = [int(number) for number in re.findall(r"(\d+)\n?", legend.split("sum ")[0])]
    total = int(re.findall(r"sum (\d+) offsets", legend)[0])
    assert sum(counts) == total
    assert total == query(orders, "select sum(log_end)::bigint from penstock.samples where pipeline = 'orders'")[0][0]
    bar = "//*[local-name()='svg' and @data-partition='0']"
    browser.write(bar, KEYS["end"])
    assert "Partition 0, offsets" in browser.read("//section[@id='coverage']//*[@role='status']")


def test_a_section_that_cannot_be_read_says_so_and_the_others_stay(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    with psycopg.connect(superuser(orders.loads), autocommit=True) as connection:
        connection.execute("revoke select on penstock.check_result from penstock_loader")
        try:
            reload_page(browser, orders)
            failed = browser.read("//section[@id='quality']")
            browser.take_picture(LOOK / "quality-error.png", "//section[@id='quality']")
        finally:
            connection.execute("grant select on penstock.check_result to penstock_loader")
    assert "permission denied for table check_result" in failed
    assert "Next: " in failed
    assert "3 loads" in browser.read("//section[@id='loads']")
    browser.click("//section[@id='quality']//button[normalize-space()='Try again']")
    browser.find("//section[@id='quality']//button[contains(., 'expect_column_values_to_be_between')]")


def test_a_page_without_its_ledger_says_so_and_comes_back(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    name = sql.Identifier("loads_by_airflow")
    with psycopg.connect(superuser(orders.loads), dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} allow_connections false").format(name))
        try:
            browser.open(f"{orders.web.url}/plugin/penstock?pipeline=orders")
            browser.find("//button[normalize-space()='Try again']")
            shown = browser.read()
            browser.take_picture(LOOK / "no-ledger.png")
        finally:
            connection.execute(sql.SQL("alter database {} allow_connections true").format(name))
    assert "Next: " in shown
    browser.click("//button[normalize-space()='Try again']")
    browser.find("//h1[normalize-space()='orders']")


def test_an_error_500_of_a_section_says_what_to_do_and_the_others_stay(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    rule = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'result_state_check'"
    [(states,)] = query(orders, rule)
    with psycopg.connect(superuser(orders.loads), autocommit=True) as connection:
        connection.execute("alter table penstock.result drop constraint result_state_check")
        connection.execute("update penstock.result set state = 'a state of a later release'")
        try:
            reload_page(browser, orders)
            failed = browser.read("//section[@id='results']")
            browser.take_picture(LOOK / "error-500.png", "//section[@id='results']")
        finally:
            connection.execute("update penstock.result set state = 'current'")
            connection.execute(f"alter table penstock.result add constraint result_state_check {states}".encode())
    assert "Airflow answered 500." in failed
    assert "Next: reload this page; if this happens again, read the log of Airflow's API server." in failed
    assert "3 loads" in browser.read("//section[@id='loads']")
    browser.click("//section[@id='results']//button[normalize-space()='Try again']")
    browser.find("//section[@id='results'][contains(., 'current since')]")


def test_new_and_broken_pipelines_have_a_page_that_says_what_to_do(orders: AirflowSite, browser: Browser) -> None:
    fresh, broken = orders.pipelines / "fresh.yaml", orders.pipelines / "broken.yaml"
    fresh.write_text((orders.pipelines / "orders.yaml").read_text().replace("orders", "fresh"))
    broken.write_text("name: broken\ntopic: orders\nvalue: avro\n")
    try:
        browser.sign_in(orders.web)
        browser.resize(1240, 2400)
        browser.open(f"{orders.web.url}/plugin/penstock?pipeline=fresh")
        for section, text in {
            "coverage": "",
            "loads": "Nothing is loaded yet. Next: Load now.",
            "results": "declared",
            "quality": "No load was checked yet.",
            "backfill": "No backfill has run yet.",
            "incidents": "Nothing has gone wrong yet.",
            "events": "No person and no run has decided anything yet.",
        }.items():
            browser.find(f"//section[@id='{section}'][contains(., \"{text}\")][not(.//*[@aria-label='loading'])]")
        assert "Next: wait a minute. If no sample comes, start the DAG penstock_sample" in browser.read("//header")
        assert "nothing holds records back" not in browser.read("//section[@aria-label='figures']")
        browser.take_picture(LOOK / "fresh.png")
        browser.open(f"{orders.web.url}/plugin/penstock?pipeline=broken")
        await_sections(browser)
        head, shown = browser.read("//header"), browser.read()
        browser.take_picture(LOOK / "broken.png")
        assert "broken.yaml:3: value: invalid value 'avro'; allowed: json, text, bytes" in head.splitlines()
        assert "Next: correct the declaration" in head
        assert str(orders.pipelines) not in browser.run("return document.documentElement.outerHTML")
        assert "null" not in shown
        for label in ("Load now", "Backfill…", "Verify…", "Preview", "Start the backfill", "its DAG"):
            assert label not in shown, label
    finally:
        fresh.unlink()
        broken.unlink()


def test_pictures_of_the_page_are_made_in_light_and_dark(orders: AirflowSite, browser: Browser) -> None:
    places = {"head": "//header", **{name: f"//section[@id='{name}']" for name in SECTIONS}}
    open_page(browser, orders)
    for mode in ("dark", "light"):
        browser.run("localStorage.setItem('theme', arguments[0])", mode)
        reload_page(browser, orders)
        for name, place in places.items():
            browser.take_picture(LOOK / f"{name}-{mode}.png", place)
    for name, section, height in (("page-coverage.png", "a[href]", 920), ("page-quality.png", "#quality", 760)):
        browser.resize(1240, height)
        reload_page(browser, orders)
        browser.run("document.querySelector(arguments[0]).scrollIntoView()", section)
        picture(browser, name)


def test_contents_are_shown_after_a_click_that_says_so_and_are_recorded(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    browser.click("//button[contains(., 'bad json')]")
    browser.click(f"//button[@aria-label='show {find_broken(orders)}']")
    assert CANARY not in browser.read()
    browser.click("//button[normalize-space()='Show the contents']")
    browser.find(f"//code[contains(., '{CANARY}')]")
    seen = query(orders, "select actor from penstock.events where what like 'contents%'")
    assert seen == [("admin",)]


def test_a_viewer_reads_which_right_is_missing(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders, "viewer")
    reason = browser.read("//*[@id='rights']")
    assert reason.startswith("You may only look.")
    assert "penstock_settle" in reason
    assert "GET on the connection penstock_db" in reason
    for label in ("Load now", "Verify…", "Approve…", "Discard…", "Start the backfill", "Rebuild…", "Redrive…"):
        browser.find(f"//button[normalize-space()='{label}' and @disabled and @aria-describedby='rights']")
    browser.click("//button[contains(., 'bad json')]")
    browser.click(f"//button[@aria-label='show {find_broken(orders)}']")
    browser.find("//button[normalize-space()='Show the contents' and @disabled]")
    assert CANARY not in browser.read()


def test_quarantined_records_are_redriven_after_a_dry_run(orders: AirflowSite, browser: Browser) -> None:
    declare(orders, "orders")
    open_page(browser, orders)
    group = "//tr[contains(., 'positive_amount')]"
    browser.click(f"{group}//button[normalize-space()='Dry run…']")
    browser.click(f"{DIALOG}//button[normalize-space()='Count those that pass']")
    browser.find("//*[@role='status'][contains(., '3 of 3 records would pass')]", 300)
    assert query(orders, "select count(*) from analytics.orders where amount < 0") == [(0,)]
    browser.click(f"{group}//button[normalize-space()='Redrive…']")
    browser.write(f"{DIALOG}//textarea", "refunds are rows now")
    browser.click(f"{DIALOG}//button[normalize-space()='Redrive']")
    browser.find("//*[@role='status'][contains(., '3 of 3 records are published')]", 300)
    browser.find("//section[@id='quarantine'][not(contains(., 'positive_amount'))]")
    assert query(orders, "select count(*) from analytics.orders where amount < 0") == [(3,)]


def test_a_held_load_is_approved_on_the_page(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    browser.click("//header//a[normalize-space()='its request']")
    browser.find("//*[contains(text(), 'Load 3 of orders is held: publish it as it is, or discard it?')]")
    reload_page(browser, orders)
    browser.click("//button[normalize-space()='Approve…']")
    approve = f"{DIALOG}//button[normalize-space()='Approve' and not(@disabled)]"
    browser.find(f"{DIALOG}//textarea")
    assert not browser.shows(approve), "an answer without a reason is offered"
    browser.write(f"{DIALOG}//textarea", "five thousand is right")
    browser.click(approve)
    browser.find("//*[@role='status'][contains(., 'approve load 3') and contains(., 'done')]", 300)
    decided = query(orders, "select load_id, actor, why from penstock.event where what = 'approved'")
    assert decided == [(3, "admin", "five thousand is right")]
    browser.find("//h1/following-sibling::*[not(contains(., 'held'))]")


def test_a_span_of_the_map_is_loaded_after_its_preview(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    bar = "//*[local-name()='svg' and @data-partition='0']"
    browser.drag(bar, 0.8, 0.95)
    assert "0:200-300" in browser.read(SELECTION)
    browser.click(f"{SELECTION}//button[normalize-space()='Clear']")
    browser.write(bar, KEYS["end"] + " ")
    assert "100 offsets: 0:200-300" in browser.read(SELECTION)
    browser.click(f"{SELECTION}//button[normalize-space()='Load this range…']")
    start = "//button[normalize-space()='Start the backfill' and not(@disabled)]"
    browser.find("//textarea[@name='offsets' and normalize-space()='0:200-300']")
    assert not browser.shows(start), "the backfill can start before its preview"
    browser.click("//button[normalize-space()='Preview']")
    browser.find("//form[@aria-label='backfill']//*[contains(text(), '100 offsets in 1 load')]")
    browser.click(start)
    browser.find("//*[@role='status'][contains(., 'backfill of 100 offsets') and contains(., 'done')]", 300)
    browser.find("//*[@data-legend][not(contains(., 'rolled back'))]")
    browser.find("//section[@id='backfill']//tr[contains(., 'done') and contains(., 'admin')]")
    covered = "select load_id, rows from penstock.covered where partition = 0 and from_offset = 200"
    [(load, rows)] = query(orders, covered)
    assert rows == 100
    assert query(orders, f"select kind, state from penstock.loads where load_id = {load}") == [
        ("backfill", "published")
    ]


def test_a_load_is_rolled_back_and_brought_back_on_the_page(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    browser.click("//button[@aria-label='load 3']")
    for button, label, state in (
        ("Roll back", "roll back load 3", "rolled_back"),
        ("Bring back", "undo the", "published"),
    ):
        browser.click(f"//article[@aria-label='load 3']//button[normalize-space()='{button}…']")
        browser.write(f"{DIALOG}//textarea", "a test")
        browser.click(f"{DIALOG}//button[normalize-space()='{button}']")
        browser.find(f"//*[@role='status']/*[contains(., '{label}') and contains(., 'done')]", 300)
        assert query(orders, "select state from penstock.loads where load_id = 3") == [(state,)]


def test_quarantined_records_are_dropped_and_a_range_is_verified(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    browser.click("//tr[contains(., 'bad json')]//button[normalize-space()='Drop…']")
    browser.write(f"{DIALOG}//textarea", "nobody needs it")
    browser.click(f"{DIALOG}//button[normalize-space()='Drop']")
    browser.find("//*[@role='status']/*[contains(., 'drop 1 record') and contains(., 'done')]", 300)
    dropped = "select reason from penstock.quarantined where dropped_at is not null"
    assert query(orders, dropped) == [("bad_json",)]
    browser.write("//*[local-name()='svg' and @data-partition='1']", KEYS["right"] + " ")
    browser.click(f"{SELECTION}//button[normalize-space()='Verify this…']")
    browser.click(f"{DIALOG}//button[normalize-space()='Verify']")
    browser.find("//*[@role='status']/*[contains(., 'a verification') and contains(., 'done')]", 300)
    assert query(orders, "select actor, faults from penstock.verifications") == [("admin", 0)]


def test_a_result_is_rebuilt_on_the_page(orders: AirflowSite, browser: Browser) -> None:
    with psycopg.connect(orders.loads) as connection:
        connection.execute("update analytics.newest set amount = -1 where id = 3")
    open_page(browser, orders)
    browser.click("//section[@id='results']//button[normalize-space()='Rebuild…']")
    browser.click(f"{DIALOG}//button[normalize-space()='Rebuild']")
    browser.find("//*[@role='status'][contains(., '1 rows of it were written, 0 deleted')]", 300)
    assert query(orders, "select count(*) from analytics.newest where amount = -1") == [(0,)]
    assert query(orders, "select actor from penstock.events where what like 'result rebuilt%'") == [("admin",)]


def test_a_rebuild_under_way_shows_its_progress(orders: AirflowSite, browser: Browser) -> None:
    bar = "//section[@id='results']//*[@role='progressbar'][@aria-label='rebuild of analytics.newest']"
    with psycopg.connect(orders.loads) as blocker:
        # The rebuild has begun when it waits for the rows of a load.
        leaves = "select inhrelid::regclass::text from pg_inherits where inhparent = 'analytics.orders'::regclass"
        leaf = str(blocker.execute(leaves).fetchall()[0][0])
        blocker.execute(sql.SQL("lock table {} in access exclusive mode").format(sql.Identifier(*leaf.split("."))))
        open_page(browser, orders)
        with psycopg.connect(orders.loads) as earlier:
            # It begins after the page has read everything again at the news that its run is running.
            earlier.execute("select from penstock.pipeline where name = 'orders' for update")
            browser.click("//section[@id='results']//button[normalize-space()='Rebuild…']")
            browser.click(f"{DIALOG}//button[normalize-space()='Rebuild']")
            browser.find("//*[@role='status']/*[contains(., 'rebuild of') and contains(., 'running')]", 300)
        browser.find(bar, 300)
        shown = browser.read("//section[@id='results']//tr[contains(., 'analytics.newest')]")
        assert "building" in shown
        assert "0 % of about" in shown
        assert "rows, load 0 of " in shown
    browser.find("//*[@role='status'][contains(., '0 rows of it were written, 0 deleted')]", 300)
    browser.find("//section[@id='results'][not(.//*[@role='progressbar'])]", 60)


def test_a_backfill_is_cancelled_on_the_page(orders: AirflowSite, browser: Browser) -> None:
    # Without a slot in the pool the loads of the run wait.
    pool = {"pool": "penstock_backfill", "slots": 0, "include_deferred": False}
    orders.api.patch("pools/penstock_backfill", json=pool).raise_for_status()
    form = {"pipeline": "orders", "what": "offsets", "offsets": ["0:0-20"], "replace": True, "records_per_load": 10}
    run = orders.trigger("penstock_backfill", **form)
    waiting = "select count(*) from penstock.loads where kind = 'replay' and state = 'planned'"
    orders.wait(lambda: query(orders, waiting) == [(2,)], 300, "the loads are planned")
    before = query(orders, "select count(*) from analytics.orders")
    open_page(browser, orders)
    browser.click("//section[@id='backfill']//button[normalize-space()='Cancel…']")
    browser.write(f"{DIALOG}//textarea", "the wrong range")
    browser.click(f"{DIALOG}//button[normalize-space()='Cancel the backfill']")
    browser.find("//*[@role='status'][contains(., '2 open loads discarded, and what is published stays')]", 300)
    browser.find("//section[@id='backfill']//tr[contains(., 'stopped') and not(.//button)]")
    assert orders.await_end("penstock_backfill", run) == "failed"
    assert query(orders, waiting) == [(0,)]
    assert query(orders, "select count(*) from analytics.orders") == before
    told = "select actor, why from penstock.events where what like 'cancelled backfill%'"
    assert query(orders, told) == [("admin", "the wrong range")]
    assert query(orders, "select count(*) from penstock.incidents where ended_at is null and kind like '%failed%'") == [
        (0,)
    ]
    orders.api.patch("pools/penstock_backfill", json=pool | {"slots": 1}).raise_for_status()


def picture(browser: Browser, name: str) -> None:
    """Write a picture for the docs, to the folder PICTURES if it is given."""
    path = Path(os.environ.get("PICTURES", LOOK)) / name
    browser.take_picture(path)
    assert 10_000 < path.stat().st_size < LARGEST_PICTURE


def declare(airflow: AirflowSite, topic: str, **more: Any) -> None:
    """Declare the pipeline; a later call changes it."""
    airflow.write_pipeline(
        "orders",
        topic=topic,
        schedule=None,
        value="json",
        columns={"id": {"type": "bigint", "required": True}, "amount": {"type": "integer"}},
        target="analytics.orders",
        owner="shop",
        checks=[LIMIT],
        results=[NEWEST],
        **more,
    )


def amounts(values: Iterable[int]) -> list[bytes]:
    """One record an amount."""
    return [json.dumps({"id": index, "amount": amount}).encode() for index, amount in enumerate(values)]


def open_page(browser: Browser, airflow: AirflowSite, user: str = "admin") -> None:
    """Open the pipeline's page as a user."""
    browser.sign_in(airflow.web, user)
    browser.resize(1240, 2400)
    reload_page(browser, airflow)


def reload_page(browser: Browser, airflow: AirflowSite) -> None:
    """Load the pipeline's page again, and wait until every section has its document."""
    browser.open(f"{airflow.web.url}/plugin/penstock?pipeline=orders")
    await_sections(browser)


def await_sections(browser: Browser) -> None:
    """Wait until every section has its document."""
    for name in SECTIONS:
        browser.find(f"//section[@id='{name}'][not(.//*[@aria-label='loading'])]")


def find_broken(airflow: AirflowSite) -> str:
    """The place of the record that is not JSON: the marker of the aborted transaction is before it or after it."""
    [(partition, offset)] = query(
        airflow, "select partition, \"offset\" from penstock.quarantined where reason = 'bad_json'"
    )
    return f"{partition}:{offset}"


def query(airflow: AirflowSite, sql: str) -> list[Any]:
    """Read the ledger or the table."""
    with psycopg.connect(airflow.loads) as connection:
        return connection.execute(sql).fetchall()
