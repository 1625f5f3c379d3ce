"""A record whose timestamp is beyond Spark's range: the reader that cannot read it names it, the other one reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.decide.rollback import roll_back
from penstock.errors import StageError
from penstock.verify import reread
from producing import Account, order

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from whole_loads import MakeLoader

# One millisecond after the last one that Spark's microseconds hold.
LATE = b'{"id": 1}'
DISTANT = 9_223_372_036_854_776
FREE = {"message_timestamp_after_max_ms": str(2**63 - 1), "message_timestamp_before_max_ms": str(2**63 - 1)}


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    """A record of partition 1 lies beyond the range."""
    account = Account(kafka.bootstrap, make_topic(2, **FREE))
    account.send_orders(20)
    account.send([LATE], partition=1, timestamp=DISTANT)
    account.send_orders(5, first=20)
    return account


def test_spark_s_error_names_the_record_and_the_native_reader(make_loader: MakeLoader, account: Account) -> None:
    loader = make_loader(account.topic, reader="spark")
    load = loader.plan()
    assert load is not None

    with pytest.raises(StageError, match="reader: native") as raised:
        loader.stage(load.load_id)

    [distant] = raised.value.ranges
    assert (distant.partition, distant.until_offset) == (1, distant.from_offset + 1)
    assert [sent.value for sent in account.sent if sent.partition == 1 and sent.offset == distant.from_offset] == [LATE]


@pytest.mark.parametrize("most", [1, 3])
def test_verification_reads_such_a_chunk_natively_and_proves_it(
    make_loader: MakeLoader, account: Account, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(reread, "MOST_DISTANT", most)
    loader = make_loader(account.topic)
    loader.load()
    account.send([LATE, order(30)], partition=0, timestamp=DISTANT + 5)
    account.send_orders(10, first=31)
    loader.load()
    assert len(loader.query("select from penstock.quarantine where reason = 'bad_timestamp'")) == 3

    verified = loader.verify()

    assert verified.faults == ()
    assert verified.chunks_reread == verified.chunks > 0


@pytest.mark.parametrize("most", [1, 3])
def test_verification_avoids_such_a_record_between_chunks(
    make_loader: MakeLoader, kafka: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(reread, "MOST_DISTANT", most)
    account = Account(kafka.bootstrap, make_topic(1, **FREE))
    loader = make_loader(account.topic)
    account.send_orders(5)
    loader.load()
    account.send([LATE], timestamp=DISTANT)
    rolled_back = loader.load()
    account.send_orders(5, first=5)
    loader.load()
    roll_back(loader.db, rolled_back, "ann", "a try")

    verified = loader.verify()

    assert (verified.faults, verified.chunks_reread) == ((), 2)
