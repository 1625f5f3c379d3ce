"""The packages that an executor needs: the Spark reader loads without librdkafka, the native reader does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from declaring import write_declaration
from loading_process import LoadingProcess, query
from producing import Account, order

if TYPE_CHECKING:
    from pathlib import Path

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

# Python imports this module first in every process. In the processes of Spark's tasks it hides librdkafka.
SHIM = """
import sys

if any("pyspark" in word and ("daemon" in word or "worker" in word) for word in sys.orig_argv):
    sys.modules["confluent_kafka"] = None
"""


@pytest.mark.parametrize(("reader", "code"), [("spark", 0), ("native", 1)])
def test_the_spark_reader_needs_no_librdkafka_on_executors(
    db: str,
    kafka: Broker,
    make_topic: MakeTopic,
    environment: dict[str, str],
    tmp_path: Path,
    reader: str,
    code: int,
) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    account.send_orders(100)
    account.transact([order(number) for number in range(5)], commit=False, partition=0)  # ends in holes
    write_declaration(tmp_path, account.topic, reader=reader)
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(SHIM)
    found, document, stderr = LoadingProcess(environment | {"PYTHONPATH": str(shim)}, "orders", "--verbose").finish()

    assert found == code, stderr
    if code:
        assert "confluent_kafka" in stderr  # the shim works
    else:
        assert (document["rows"], document["holes"]) == (100, 6)
        assert query(db, "select count(*) from analytics.orders") == [(100,)]
