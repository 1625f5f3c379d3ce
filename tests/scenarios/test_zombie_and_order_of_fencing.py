"""Two loaders at once: fence first, restore second. The other order doubles or loses rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import psycopg
import pytest

from fix_kafka import MakeTopic
from loading_process import await_blocked, await_true, locked, query
from penstock.errors import FencedError
from penstock.load.publish import publish_load
from penstock.model.load import Load
from penstock.model.ranges import Range
from penstock_stack.broker import Broker
from producing import Account
from proving import Watcher, find_faults
from proxy import KafkaProxy
from whole_loads import Loader, MakeLoader


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """A small loader of a log that holds the offsets 0, 1, 2, …: it keeps its position and its rows in one database.

    It publishes rows and position in one transaction, and only if nobody fenced it: all but the order is right.
    """

    connection: psycopg.Connection[tuple[int]]
    number: int

    def fence(self) -> None:
        """End every other loader that has not published."""
        self.connection.execute(
            "update model.loader set state = 'fenced' where number <> %s and state = 'at work'", [self.number]
        )

    def restore(self) -> int:
        """Read the position from which to continue."""
        [position] = self.connection.execute("select at from model.position").fetchone() or (0,)
        return position

    def start(self) -> None:
        self.connection.execute("insert into model.loader values (%s, 'at work')", [self.number])

    def publish(self, start: int, until: int) -> bool:
        """Make the rows visible and move the position, unless fenced."""
        with self.connection.transaction():
            ended = self.connection.execute(
                "update model.loader set state = 'published' where number = %s and state = 'at work'", [self.number]
            )
            if ended.rowcount == 1:
                self.connection.execute(
                    "insert into model.row select generate_series(%s::int, %s::int)", [start, until - 1]
                )
                self.connection.execute("update model.position set at = %s", [until])
            return ended.rowcount == 1


@pytest.fixture
def model(db: str) -> str:
    with psycopg.connect(db) as connection:
        connection.execute(
            "create schema model; create table model.row (o int); create table model.position (at int);"
            "create table model.loader (number int, state text); insert into model.position values (0)"
        )
    return db


@pytest.mark.parametrize(
    ("fence_first", "rows", "distinct", "old_published"), [(False, 250, 150, True), (True, 150, 150, False)]
)
def test_restoring_before_fencing_doubles_rows_that_are_published_in_between(
    fence_first: bool, rows: int, distinct: int, old_published: bool, model: str
) -> None:
    with psycopg.connect(model, autocommit=True) as one, psycopg.connect(model, autocommit=True) as two:
        old, new = ModelLoader(one, 1), ModelLoader(two, 2)
        old.start()
        old_position = old.restore()  # 0; it reads [0, 100)
        new.start()
        if fence_first:
            new.fence()
            published = old.publish(old_position, 100)
            position = new.restore()
        else:
            position = new.restore()
            published = old.publish(old_position, 100)
            new.fence()  # too late: the old loader has already published
        assert new.publish(position, 150)

    assert published is old_published
    assert query(model, "select count(*), count(distinct o) from model.row") == [(rows, distinct)]


@pytest.mark.parametrize(("fence_first", "rows"), [(False, 50), (True, 150)])
def test_restoring_before_fencing_loses_rows_that_the_old_loader_claimed(
    fence_first: bool, rows: int, model: str
) -> None:
    """The model of a loader that moves the position when it begins, and moves it back when it is ended."""
    with psycopg.connect(model, autocommit=True) as one, psycopg.connect(model, autocommit=True) as two:
        old, new = ModelLoader(one, 1), ModelLoader(two, 2)
        old.start()
        one.execute("update model.position set at = 100")  # claims [0, 100)
        new.start()

        def fence() -> None:
            new.fence()
            two.execute("update model.position set at = 0")

        if fence_first:
            fence()
            position = new.restore()
        else:
            position = new.restore()
            fence()
        assert not old.publish(0, 100)
        assert new.publish(position, 150)

    assert query(model, "select count(*), count(distinct o) from model.row") == [(rows, rows)]


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(100)
    return account


def stage_zombie(account: Account, make_loader: MakeLoader, network: KafkaProxy) -> tuple[Loader, Loader, Load]:
    """Stage a load by an old loader, and send more orders for the new one, which reaches Kafka through the network."""
    old = make_loader(account.topic)
    zombie = old.plan()
    assert zombie is not None
    old.stage(zombie.load_id)
    account.send_orders(50, first=100)
    return old, replace(old, bootstrap=network.address), zombie


def test_a_zombie_that_publishes_between_fence_and_restore_waits_and_is_refused(
    db: str, account: Account, make_loader: MakeLoader, faulty_network: KafkaProxy
) -> None:
    old, new, zombie = stage_zombie(account, make_loader, faulty_network)

    with Watcher(db), ThreadPoolExecutor() as threads:
        faulty_network.hush()
        planning = threads.submit(new.plan)
        await_true(lambda: faulty_network.held, "the plan queries Kafka")
        with locked(db, "lock table penstock.position in access exclusive mode"):
            faulty_network.speak()
            await_blocked(db)  # the plan has fenced, and cannot read the positions yet
            publishing = threads.submit(publish_load, db, old.settings.kafka, zombie.load_id)
            await_true(lambda: len(query(db, WAITING)) == 2, "the publish waits too")
        load = planning.result(60)
        with pytest.raises(FencedError, match="superseded"):
            publishing.result(60)
        assert load is not None
        assert load.ranges == (Range(0, 0, 150),)
        new.stage(load.load_id)
        published = new.publish(load.load_id)

    assert published.rows == 150
    assert find_faults(db, account) == []


def test_a_plan_starts_behind_a_zombie_that_publishes_while_it_queries_kafka(
    db: str, account: Account, make_loader: MakeLoader, faulty_network: KafkaProxy
) -> None:
    old, new, zombie = stage_zombie(account, make_loader, faulty_network)

    with Watcher(db), ThreadPoolExecutor() as threads:
        faulty_network.hush()
        planning = threads.submit(new.plan)  # its fencing and reading is rolled back while it waits
        await_true(lambda: faulty_network.held, "the plan queries Kafka")
        assert publish_load(db, old.settings.kafka, zombie.load_id).by_this_call
        faulty_network.speak()
        load = planning.result(60)
        assert load is not None
        assert load.ranges == (Range(0, 100, 150),)
        new.stage(load.load_id)
        new.publish(load.load_id)

    assert query(db, "select count(*), count(distinct id) from analytics.orders") == [(150, 150)]
    assert find_faults(db, account) == []


def test_a_plan_waits_for_a_running_publish_and_starts_behind_it(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    loader = make_loader(account.topic)
    first = loader.plan()
    assert first is not None
    loader.stage(first.load_id)
    account.send_orders(50, first=100)

    with Watcher(db), ThreadPoolExecutor() as threads:
        with locked(db, "lock table penstock.event in access exclusive mode"):
            publishing = threads.submit(
                publish_load, db, loader.settings.kafka, first.load_id
            )  # complete except for its COMMIT
            await_blocked(db)
            planning = threads.submit(loader.plan)
            await_true(lambda: len(query(db, WAITING)) == 2, "the plan waits too")
        assert publishing.result(60).by_this_call
        load = planning.result(60)
        assert load is not None
        assert load.ranges == (Range(0, 100, 150),)
        loader.stage(load.load_id)
        loader.publish(load.load_id)

    assert query(db, "select count(*), count(distinct id) from analytics.orders") == [(150, 150)]
    assert find_faults(db, account) == []


WAITING = (
    "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    " and application_name <> 'watcher'"
)


def test_two_processes_that_publish_the_same_load_publish_it_once(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    loader = make_loader(account.topic)
    load = loader.plan()
    assert load is not None
    loader.stage(load.load_id)

    with Watcher(db), ThreadPoolExecutor() as threads:
        with locked(db, "lock table penstock.position in share mode"):
            both = [threads.submit(publish_load, db, loader.settings.kafka, load.load_id) for _ in range(2)]
            await_true(lambda: len(query(db, WAITING)) == 2, "both wait")
        ends = [each.result(60) for each in both]

    assert sorted(end.by_this_call for end in ends) == [False, True]
    assert query(db, "select count(*), count(distinct id) from analytics.orders") == [(100, 100)]
