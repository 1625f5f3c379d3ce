"""A whole load from a broker with SASL, TLS and rights, by a user with the rights that the documentation names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from declaring import declare
from fix_kafka import create_topic
from guarding import PASSWORD, Guarded, guard
from loading_process import await_true
from penstock.errors import PenstockError
from penstock.kafka.admin import read_log
from producing import Account, order
from proving import find_faults
from whole_loads import Loader, MakeLoader


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = guard(tmp_path_factory.mktemp("stack") / "keys")
    try:
        made.start()
        yield made
    finally:
        made.broker.kill()


def start(
    guarded: Guarded, make_loader: MakeLoader, user: str, topic: str, reader: str = "native"
) -> tuple[Account, Loader]:
    """An account of a new topic that is written at the broker's own listener, and a loader of a user's."""
    create_topic(guarded.broker.bootstrap, topic, 2)
    client = getattr(guarded, user)
    loader = make_loader(topic, client["bootstrap.servers"], reader=reader)
    loader.client = client
    return Account(guarded.broker.bootstrap, topic), loader


@pytest.mark.parametrize("reader", ["native", "spark"])
@pytest.mark.parametrize("user", ["ann", "bob"])
def test_a_user_with_the_rights_loads_and_verifies_with_all_three_clients(
    user: str, reader: str, db: str, guarded: Guarded, make_loader: MakeLoader
) -> None:
    account, loader = start(guarded, make_loader, user, f"{user}_by_{reader}", reader)
    topic = account.topic
    guarded.allow(user, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    account.send_orders(100)
    account.transact(map(order, range(5)), commit=False, partition=1)
    await_true(lambda: may_read(loader), "the right is there")

    loader.load()
    verified = loader.verify()

    assert find_faults(db, account) == []
    assert (verified.faults, verified.chunks_reread) == ((), 2)
    assert verified.holes == {"aborted": 5, "marker": 1}


def test_a_wrong_password_and_a_missing_right_are_reported_without_a_secret(
    guarded: Guarded, make_loader: MakeLoader
) -> None:
    account, loader = start(guarded, make_loader, "ann", "kept_from_ann")
    account.send_orders(10)
    with pytest.raises(PenstockError) as kept:
        loader.plan()
    loader.client = guarded.ann | {"sasl.password": "canary"}
    with pytest.raises(PenstockError) as wrong:
        loader.plan()

    assert f"topic {account.topic}: Broker: Topic authorization failed" in str(kept.value)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in str(wrong.value)
    for told in map(str, (kept.value, wrong.value)):
        assert PASSWORD not in told
        assert "canary" not in told


def test_a_missing_right_on_the_mirror_group_is_named_and_fails_nothing(
    guarded: Guarded, make_loader: MakeLoader, caplog: pytest.LogCaptureFixture
) -> None:
    account, loader = start(guarded, make_loader, "ann", "mirrored_by_ann")
    guarded.allow("ann", ResourceType.TOPIC, account.topic, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    await_true(lambda: may_read(loader), "the right is there")
    mirrored = replace(loader, pipeline=declare(account.topic, mirror_group="ann_may_not"))
    mirrored.client = loader.client

    with caplog.at_level(logging.WARNING, "penstock"):
        assert mirrored.plan() is None

    [line] = [each for each in caplog.messages if "consumer group" in each]
    assert "orders: its positions are not in the consumer group ann_may_not: " in line
    assert "Group authorization failed" in line
    assert PASSWORD not in line


def may_read(loader: Loader) -> bool:
    """Whether the broker has heard of the right yet."""
    try:
        read_log(loader.settings.kafka, loader.pipeline.topic, "read_committed")
    except PenstockError:
        return False
    return True
