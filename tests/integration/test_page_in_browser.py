"""The page in Airflow, in a real browser: what it shows of real loads, and the actions of a person."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from fix_browser import KEYS
from fix_kafka import create_topic
from penstock.decide.rollback import roll_back
from producing import Account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fix_airflow import AirflowSite
    from fix_browser import Browser
    from penstock_stack.broker import Broker

pytestmark = pytest.mark.timeout(1200)
LIMIT = {"expect": "expect_column_values_to_be_between", "column": "amount", "max_value": 1000}
POSITIVE = {"name": "positive_amount", "where": "amount >= 0"}
REFUNDS = (7, 11, 13)
CANARY = "canary-0815-only-in-a-value"


@pytest.fixture(scope="module")
def orders(airflow: AirflowSite, kafka: Broker) -> AirflowSite:
    """A pipeline with a rolled back load, a hole of an aborted transaction, a quarantine, and a load that is held."""
    create_topic(kafka.bootstrap, "orders", 2)
    account = Account(kafka.bootstrap, "orders")
    declare(airflow, account.topic, rules=[POSITIVE])
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
    return airflow


def test_the_list_shows_each_pipeline_and_leads_to_its_page(orders: AirflowSite, browser: Browser) -> None:
    sign_in(browser, orders)
    browser.open(f"{orders.web.url}/plugin/penstock")
    row = browser.read("//tr[.//a[normalize-space()='orders']]")
    assert "held" in row
    assert "load 3" in row
    browser.write("//input[@aria-label='search']", "nothing of this name")
    browser.find("//*[contains(text(), 'No pipeline fits')]")
    browser.write("//input[@aria-label='search']", KEYS["backspace"] * 30)
    browser.click("//a[normalize-space()='orders']")
    browser.find("//h1[normalize-space()='orders']")


def test_a_dag_has_the_same_page_as_a_tab(orders: AirflowSite, browser: Browser) -> None:
    sign_in(browser, orders)
    browser.open(f"{orders.web.url}/dags/orders/plugin/penstock-dag")
    browser.find("//h1[normalize-space()='orders']")


def test_a_held_load_is_approved_on_the_page(orders: AirflowSite, browser: Browser) -> None:
    open_page(browser, orders)
    browser.click("//button[normalize-space()='Approve…']")
    approve = "//*[@role='dialog']//button[normalize-space()='Approve' and not(@disabled)]"
    browser.find("//*[@role='dialog']//textarea")
    assert not browser.shows(approve), "an answer without a reason is offered"
    browser.write("//*[@role='dialog']//textarea", "five thousand is right")
    browser.click(approve)
    browser.find("//*[@role='status'][contains(., 'approve load 3') and contains(., 'done')]", 300)
    decided = query(orders, "select load_id, actor, why from penstock.event where what = 'approved'")
    assert decided == [(3, "admin", "five thousand is right")]
    browser.find("//h1/following-sibling::*[not(contains(., 'held'))]")


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
        **more,
    )


def amounts(values: Iterable[int]) -> list[bytes]:
    """One record an amount."""
    return [json.dumps({"id": index, "amount": amount}).encode() for index, amount in enumerate(values)]


def sign_in(browser: Browser, airflow: AirflowSite) -> None:
    """Sign in to Airflow."""
    browser.open(airflow.web.url)
    browser.write("//input[@name='username']", airflow.web.user)
    browser.write("//input[@name='password']", airflow.web.password())
    browser.click("//button[@type='submit']")
    browser.find("//*[normalize-space()='Browse']")


def open_page(browser: Browser, airflow: AirflowSite) -> None:
    """Open the pipeline's page."""
    sign_in(browser, airflow)
    browser.open(f"{airflow.web.url}/plugin/penstock?pipeline=orders")
    browser.find("//h1[normalize-space()='orders']")


def query(airflow: AirflowSite, sql: str) -> list[Any]:
    """Read the ledger or the table."""
    with psycopg.connect(airflow.loads) as connection:
        return connection.execute(sql).fetchall()
