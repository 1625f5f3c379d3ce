"""The level of each finding, one rule a test. A setting that could not be read is never ok."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from declaring import declare
from penstock.doctor import judgement as judging
from penstock.doctor.commands import Commands
from penstock.doctor.copies import judge_copies, judge_elections
from penstock.doctor.facts import Cluster, Copies, Finding, Known, Topic
from penstock.doctor.retention import find_need, judge_cleanup, judge_clock, judge_size, judge_time, read_retention
from penstock.model.log import PartitionLog, TopicLog

COMMANDS = Commands("broker:9092", "orders")
SAFE = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}
NEW = Known(None, None, {})
DAY_MS = 86_400_000
copies = st.builds(lambda lag, in_sync: Copies(in_sync + lag, in_sync), st.integers(0, 3), st.integers(0, 5))


def topic(config: dict[str, str] | None = None, *, of: dict[int, Copies] | None = None) -> Topic:
    """A topic of two partitions with offsets 10 to 20, with three copies by default."""
    log = TopicLog("cluster", "orders", "id", {0: PartitionLog(10, 20), 1: PartitionLog(10, 20)})
    return Topic(log, of or {0: Copies(3, 3), 1: Copies(3, 3)}, {**SAFE, **(config or {})})


def judge_all_copies(judged: Topic) -> dict[str, Finding]:
    return {finding.setting: finding for finding in judge_copies(judged, 5, COMMANDS)}


def judge_kept(schedule: str | None, config: dict[str, str]) -> Finding:
    return judge_time(read_retention({**SAFE, **config}), find_need(schedule), COMMANDS)


def test_a_topic_that_loses_nothing_is_ok_throughout() -> None:
    judged = [
        *judge_copies(topic(), 3, COMMANDS),
        judge_elections(topic(), COMMANDS),
        judge_cleanup(SAFE, COMMANDS),
        judge_kept("@hourly", {}),
        judge_size(read_retention(SAFE), find_need("@hourly"), 5.0, COMMANDS),
        judge_clock(SAFE, read_retention(SAFE), COMMANDS),
        judging.judge_creation(Cluster({1: "false", 2: "false"})),
        judging.judge_topic_id(declare("orders"), topic(), Known("cluster", "id", {0: 10, 1: 20})),
        judging.judge_positions(topic(), Known("cluster", "id", {0: 10, 1: 20})),
        judging.judge_partitions(topic(), Known("cluster", "id", {0: 10, 1: 20})),
        judging.judge_isolation(declare("orders")),
        judging.judge_leaves(declare("orders"), Known("cluster", "id", {}, leaves=99)),
        *judging.list_own_settings(),
    ]

    assert [(finding.setting, finding.level) for finding in judged if finding.level != "ok"] == []
    assert [finding.setting for finding in judged if finding.told or finding.change] == []


@given(st.dictionaries(st.integers(0, 300), copies, min_size=1, max_size=8), st.integers(1, 6), st.integers(1, 6))
def test_copies_are_ok_only_if_every_partition_has_three_in_sync_and_room_for_one_to_fail(
    of: dict[int, Copies], least: int, brokers: int
) -> None:
    found = list(judge_copies(topic({"min.insync.replicas": str(least)}, of=of), brokers, COMMANDS))

    all_ok = all(finding.level == "ok" for finding in found)
    fewest = min(each.replicas for each in of.values())
    assert all_ok == (
        fewest >= 3 and 2 <= least < fewest and all(each.in_sync == each.replicas for each in of.values())
    )
    assert all(finding.told and finding.change for finding in found if finding.level != "ok")


@pytest.mark.parametrize(
    ("of", "level"),
    [
        ({0: Copies(3, 3)}, "ok"),
        ({0: Copies(3, 2)}, "warning"),
        ({0: Copies(3, 1)}, "wrong"),
        ({0: Copies(1, 1)}, "ok"),
    ],
)
def test_a_copy_that_lags_is_a_warning_and_a_last_copy_is_wrong(of: dict[int, Copies], level: str) -> None:
    assert judge_all_copies(topic(of=of))["in-sync replicas"].level == level


@pytest.mark.parametrize(
    ("replicas", "least", "level"), [(3, 2, "ok"), (4, 3, "ok"), (3, 3, "wrong"), (2, 3, "wrong"), (1, 1, "wrong")]
)
def test_as_many_copies_needed_as_there_are_is_wrong(replicas: int, least: int, level: str) -> None:
    found = judge_all_copies(topic({"min.insync.replicas": str(least)}, of={0: Copies(replicas, replicas)}))

    assert found["replicas > min.insync.replicas"].level == level


def test_the_partition_with_the_fewest_copies_decides_and_is_named() -> None:
    found = judge_all_copies(topic(of={0: Copies(3, 3), 1: Copies(1, 1)}))["replication.factor"]

    assert (found.found, found.level) == ("1 to 3", "wrong")
    assert found.told.startswith("partitions 1:")


def test_with_too_few_brokers_the_advice_adds_brokers_first() -> None:
    found = next(judge_copies(topic(of={0: Copies(1, 1)}), 1, COMMANDS))

    assert (found.setting, found.found, found.level) == ("replication.factor", "1", "wrong")
    assert found.change.startswith("add brokers until there are 3 (there are 1)")
    assert "kafka-reassign-partitions.sh --bootstrap-server broker:9092" in found.change


@pytest.mark.parametrize(("replicas", "first"), [(1, True), (2, True), (3, False)])
def test_min_insync_replicas_is_not_to_be_raised_before_there_are_copies(replicas: int, first: bool) -> None:
    found = judge_all_copies(topic({"min.insync.replicas": "1"}, of={0: Copies(replicas, replicas)}))

    assert found["min.insync.replicas"].change.startswith("raise the replication factor first") == first


@given(st.sets(st.sampled_from(sorted(SAFE))))
def test_a_setting_that_cannot_be_read_is_never_called_ok(hidden: set[str]) -> None:
    config = {name: value for name, value in SAFE.items() if name not in hidden}
    bare = Topic(topic().log, topic().copies, config)
    retention = read_retention(config)
    found = [
        *judge_copies(bare, 3, COMMANDS),
        judge_elections(bare, COMMANDS),
        judge_cleanup(config, COMMANDS),
        judge_time(retention, find_need("@hourly"), COMMANDS),
        judge_size(retention, find_need("@hourly"), None, COMMANDS),
        judge_clock(config, retention, COMMANDS),
    ]

    assert [finding.setting for finding in found if finding.setting in hidden and finding.level != "warning"] == []


def test_settings_of_producers_are_listed_and_never_ok() -> None:
    found = list(judging.list_producers_settings())

    assert [finding.setting for finding in found][:2] == ["acks", "enable.idempotence"]
    assert {(finding.scope, finding.found, finding.level) for finding in found} == {("producers", None, "warning")}


def test_unclean_elections_are_wrong_and_the_command_turns_them_off() -> None:
    found = judge_elections(topic({"unclean.leader.election.enable": "true"}), COMMANDS)

    assert found.level == "wrong"
    assert found.change == (
        "kafka-configs.sh --bootstrap-server broker:9092 --alter --entity-type topics --entity-name orders "
        "--add-config unclean.leader.election.enable=false"
    )


@pytest.mark.parametrize(
    ("brokers", "level"),
    [({1: "false"}, "ok"), ({1: "false", 2: "true"}, "warning"), ({1: "false", 2: None}, "warning"), ({}, "warning")],
)
def test_brokers_that_create_topics_or_do_not_tell_are_a_warning(brokers: dict[int, str | None], level: str) -> None:
    assert judging.judge_creation(Cluster(brokers)).level == level


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compaction_is_a_warning(policy: str) -> None:
    assert judge_cleanup({"cleanup.policy": policy}, COMMANDS).level == "warning"


@pytest.mark.parametrize(
    ("schedule", "days", "level"),
    [
        ("@hourly", 7, "ok"),
        ("@hourly", 1, "warning"),  # 24 intervals, and yet no weekend
        ("@daily", 4, "ok"),
        ("@daily", 3, "warning"),
        ("@daily", 1, "wrong"),
        ("@weekly", 7, "wrong"),
        ("@weekly", 28, "ok"),
        (None, 7, "warning"),
        ("@once", 7, "warning"),
    ],
)
def test_retention_is_judged_by_the_intervals_it_holds(schedule: str | None, days: int, level: str) -> None:
    found = judge_kept(schedule, {"retention.ms": str(days * DAY_MS)})

    assert found.level == level
    assert found.change == "" or "retention.ms=" in found.change


def test_how_many_intervals_retention_holds_is_said() -> None:
    assert judge_kept("@hourly", {"retention.ms": str(7 * DAY_MS)}).found == "7 d: 168 intervals"


def test_a_pipeline_loaded_by_hand_learns_how_often_it_must_load() -> None:
    found = judge_kept(None, {"retention.ms": str(7 * DAY_MS)})

    assert found.told == "loads are started by hand: the time between two loads must never exceed 7 d"


@pytest.mark.parametrize(
    "config",
    [{"retention.ms": "-1"}, {"retention.ms": str(2**63 - 1)}, {"cleanup.policy": "compact", "retention.ms": "5"}],
)
@pytest.mark.parametrize("schedule", ["@hourly", "@yearly", None])
def test_a_topic_that_deletes_nothing_by_age_is_ok_for_every_schedule(
    schedule: str | None, config: dict[str, str]
) -> None:
    assert judge_kept(schedule, config).level == "ok"


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.sampled_from(["* * * * *", "@hourly", "@daily", "@monthly"]))
def test_longer_retention_is_never_judged_worse(one: int, other: int, schedule: str) -> None:
    order = ["wrong", "warning", "ok"]
    shorter, longer = (judge_kept(schedule, {"retention.ms": str(ms)}).level for ms in sorted((one, other)))

    assert order.index(shorter) <= order.index(longer)


@given(st.integers(0, 10**12), st.sampled_from(["* * * * *", "@hourly", "@daily", "@monthly"]))
def test_what_the_finding_says_to_set_is_judged_ok(milliseconds: int, schedule: str) -> None:
    found = judge_kept(schedule, {"retention.ms": str(milliseconds)})

    if found.level != "ok":
        advised = found.change.rpartition("retention.ms=")[2]
        assert judge_kept(schedule, {"retention.ms": advised}).level == "ok"


def test_a_size_says_what_a_record_may_take_at_the_present_rate() -> None:
    retention = read_retention({**SAFE, "retention.bytes": "7200000"})

    found = judge_size(retention, find_need("@hourly"), 1000.0, COMMANDS)

    assert found.level == "warning"
    assert "at 1,000 offsets an hour" in found.told
    assert "lasts 3 d only if a record takes up to 100 bytes" in found.told
    assert "cannot read the size" in judge_size(retention, find_need("@hourly"), None, COMMANDS).told


def test_producers_clocks_matter_only_where_records_are_deleted_by_age() -> None:
    by_age = read_retention({**SAFE, "retention.ms": "1000"})

    assert judge_clock(SAFE, by_age, COMMANDS).level == "warning"
    assert judge_clock(SAFE, read_retention(SAFE), COMMANDS).level == "ok"
    assert judge_clock({"message.timestamp.type": "LogAppendTime"}, by_age, COMMANDS).level == "ok"


def test_another_topic_under_the_name_is_wrong() -> None:
    found = judging.judge_topic_id(declare("orders"), topic(), Known("cluster", "another", {0: 1}))

    assert found.level == "wrong"
    assert "deleted and created again" in found.told
    assert judging.judge_topic_id(declare("orders"), topic(), NEW).level == "ok"


def test_positions_outside_the_log_are_wrong_with_the_offsets() -> None:
    found = judging.judge_positions(topic(), Known("cluster", "id", {0: 5, 1: 15}))

    assert found.level == "wrong"
    assert found.found is not None
    assert "offsets [5, 10) are lost" in found.found


@pytest.mark.parametrize(
    ("positions", "level", "words"),
    [
        ({}, "ok", "2 in the topic, 0 in the ledger"),
        ({0: 10, 1: 10}, "ok", "2 in the topic, 2 in the ledger"),
        ({0: 10}, "ok", "partitions 1: new"),
        ({0: 10, 1: 10, 7: 3}, "wrong", "2 in the topic, 3 in the ledger"),
    ],
)
def test_new_partitions_are_said_and_missing_ones_are_wrong(positions: dict[int, int], level: str, words: str) -> None:
    found = judging.judge_partitions(topic(), Known("cluster", "id", positions))

    assert found.level == level
    assert found.found is not None
    assert words in found.found


@pytest.mark.parametrize(("leaves", "level"), [(300, "ok"), (301, "warning"), (1000, "warning"), (1001, "wrong")])
def test_a_target_without_maintenance_is_found_before_locks_run_out(leaves: int, level: str) -> None:
    found = judging.judge_leaves(declare("orders"), Known("cluster", "id", {}, leaves))
    assert found.level == level
    assert ("penstock maintain orders" in found.change) == (level != "ok")


def test_uncommitted_records_are_a_warning() -> None:
    assert judging.judge_isolation(declare("orders", isolation="read_uncommitted")).level == "warning"


def test_an_interval_longer_than_a_weekend_sets_the_need() -> None:
    assert find_need("@hourly").time == timedelta(days=3)
    assert find_need("@monthly").time == timedelta(days=124)


def test_the_time_outside_a_window_is_part_of_the_longest_interval() -> None:
    assert find_need("@hourly", closed=timedelta(hours=20)).time == timedelta(hours=84)
    assert find_need(None, closed=timedelta(hours=20)).interval is None
