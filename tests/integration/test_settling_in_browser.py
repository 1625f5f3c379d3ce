"""A person settles a held load on Airflow's pages, in a real browser. It makes the picture of the docs too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from fix_airflow import AirflowSite
    from fix_browser import Browser
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

pytestmark = pytest.mark.timeout(1200)
POSITIVE = {"expect": "expect_column_values_to_be_between", "column": "amount", "min_value": 0}
LARGEST_PICTURE = 150_000  # bytes: a repository keeps every version of a picture


def test_a_person_reads_the_failed_check_gives_a_reason_and_approves(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, browser: Browser, tmp_path: Path
) -> None:
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for number in range(1, 1001):
        value = {"id": number, "amount": -313 if number % 400 == 0 else number}
        producer.produce(topic, json.dumps(value), partition=number % 2)
    assert producer.flush(30) == 0
    airflow.write_pipeline(
        "orders",
        topic=topic,
        schedule=None,
        value="json",
        columns={"id": {"type": "bigint", "required": True}, "amount": {"type": "numeric(12,2)"}},
        target="analytics.orders",
        checks=[POSITIVE],
    )
    assert airflow.run("orders")[1] == "failed"
    airflow.await_request(1)

    browser.sign_in(airflow.web)
    browser.open(airflow.web.url)
    browser.click("//*[normalize-space()='Required Actions']")
    browser.click("//a[normalize-space()='ask']")

    approve = "//button[normalize-space()='Approve' and not(@disabled)]"
    body = browser.read("//*[contains(text(), 'Failed checks')]/ancestor::*[.//table][1]/..")
    for text in (
        "Load 1 of orders is held: publish it as it is, or discard it?",
        "1,000 rows, 0 quarantined, 0 holes",
        "expect_column_values_to_be_between error column amount",
        "unexpected_count 2",
        "partition 0 offset 199, partition 0 offset 399",
    ):
        assert text in body
    assert "313" not in body
    assert not browser.shows(approve), "an answer without a reason is offered"
    browser.write("//input[@name='element_why']", "these two are refunds")
    browser.find(approve)
    picture = Path(os.environ.get("PICTURES", tmp_path)) / "settle.png"
    browser.take_picture(picture)
    assert 10_000 < picture.stat().st_size < LARGEST_PICTURE

    browser.click(approve)
    assert airflow.await_end("penstock_settle", "load_1") == "success"
    with psycopg.connect(airflow.loads) as connection:
        assert connection.execute("select count(*) from analytics.orders").fetchone() == (1000,)
        decided = connection.execute("select actor, why from penstock.event where what = 'approved'").fetchall()
    assert decided == [("admin", "these two are refunds")]
