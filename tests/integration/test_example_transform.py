"""The transform of the how-to, as it is written there: on local cores, and on a standalone cluster of two workers."""

from __future__ import annotations

import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import yaml

from penstock.declaration.pipeline import Pipeline
from penstock.load.run import run_load
from penstock.settings import Settings
from producing import Account

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "how-to" / "transform-rows.md"
CURRENCIES = ("EUR", "USD", "GBP", "CHF")


def read_declaration(topic: str) -> Pipeline:
    """The declaration of the page, for another topic."""
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None, "the page has a declaration"
    return Pipeline.model_validate(yaml.safe_load(found[1]) | {"topic": topic})


@pytest.mark.parametrize("master", ["local[2]", "cluster"])
def test_the_example_makes_sales_in_euros(
    kafka: Broker, make_topic: MakeTopic, db: str, master: str, request: pytest.FixtureRequest
) -> None:
    account = Account(kafka.bootstrap, make_topic(partitions=4))
    for partition in range(4):
        values = (
            {
                "id": n,
                "amount": None if n % 10 == 0 else "21.74",
                "currency": CURRENCIES[n % 4],
                "ts": "2026-01-31T10:20:30Z",
            }
            for n in range(1000 * partition, 1000 * (partition + 1))
        )
        account.send((json.dumps(value).encode() for value in values), partition=partition)
    master = request.getfixturevalue("spark_cluster") if master == "cluster" else master
    settings = Settings(db, {"bootstrap.servers": kafka.bootstrap}, REPOSITORY / "include" / "pipelines", master)
    load = run_load(settings, read_declaration(account.topic), "run", print, io.StringIO())

    # A tenth has no amount; of all others those in Swiss francs, which the example does not know.
    numbers = [n for n in range(4000) if n % 10 and CURRENCIES[n % 4] != "CHF"]
    assert load is not None
    assert (load.rows, load.quarantined, load.holes, load.filtered) == (len(numbers), 0, 0, 4000 - len(numbers))
    with psycopg.connect(db) as connection:
        found = connection.execute(
            "select order_id, currency, euros, hour::text from analytics.sales order by 1"
        ).fetchall()
    rates = {"EUR": Decimal("21.74"), "USD": Decimal("20.00"), "GBP": Decimal("25.70")}
    assert [(number, currency, euros) for number, currency, euros, _ in found] == [
        (n, CURRENCIES[n % 4], rates[CURRENCIES[n % 4]]) for n in numbers
    ]
    assert {hour for *_, hour in found} == {"2026-01-31 10:00:00+00"}
