"""The doctor against a real broker and a real ledger: each setting that is changed turns its finding."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from declaring import declare, write_declaration
from fix_kafka import MakeTopic, await_partitions, create_topic
from loading_process import await_true
from penstock.cli.main import app
from penstock.kafka.admin import read_log
from penstock.load.plan import plan_load
from penstock_stack import ports
from penstock_stack.broker import Broker, make_cluster
from producing import Account, order

HOUR_MS = 3_600_000


class Doctor:
    """Runs `penstock doctor` in this process, against one pair of services and one folder of declarations."""

    def __init__(self, db: str, bootstrap: str, folder: Path) -> None:
        self.db, self.folder = db, folder
        self.settings = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.settings)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        environment = {
            "PENSTOCK_DB": self.db,
            "PENSTOCK_KAFKA": self.settings["bootstrap.servers"],
            "PENSTOCK_PIPELINES": str(self.folder),
        }
        done = CliRunner().invoke(app, ["doctor", *arguments], env=environment)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def document(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code, out, _ = self(*arguments, "--json")
        return code, json.loads(out)

    def examine(self) -> dict[str, Any]:
        """The one pipeline's part of the document."""
        (pipeline,) = self.document()[1]["pipelines"]
        return dict(pipeline)

    def find(self, setting: str) -> dict[str, Any]:
        """The finding about one setting."""
        (finding,) = [each for each in self.examine()["findings"] if each["setting"] == setting]
        return dict(finding)

    def plan(self, topic: str) -> None:
        """Have the ledger know the topic and where its partitions stand."""
        plan_load(self.db, self.settings, declare(topic), "run")

    def alter(self, topic: str, name: str, value: str) -> None:
        """Change a setting of the topic and wait until the broker tells the new one."""
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        self.admin.incremental_alter_configs([resource])[resource].result(30)
        await_true(lambda: self._read(topic)[name].value == value, f"{topic} has {name}={value}")

    def _read(self, topic: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return dict(self.admin.describe_configs([resource])[resource].result(30))


@pytest.fixture
def doctor(db: str, kafka: Broker, tmp_path: Path) -> Doctor:
    return Doctor(db, kafka.bootstrap, tmp_path)


def send_at(kafka: Broker, topic: str, *times_ms: int, partition: int = 0) -> None:
    """Send a record with each of these timestamps."""
    send_each_at(kafka, topic, [(partition, at) for at in times_ms])


def send_each_at(kafka: Broker, topic: str, places: list[tuple[int, int]]) -> None:
    """Send a record to each of these partitions with the timestamp beside it."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number, (partition, at) in enumerate(places):
        producer.produce(topic, order(number), partition=partition, timestamp=at)
    assert producer.flush(30) == 0


def ago(hours: float) -> int:
    return int(time.time() * 1000 - hours * HOUR_MS)


def test_one_copy_is_wrong_and_unlimited_retention_is_ok_on_the_embedded_broker(
    doctor: Doctor, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    write_declaration(doctor.folder, topic)
    doctor.plan(topic)

    code, document = doctor.document("orders")

    assert code == 1
    (pipeline,) = document["pipelines"]
    assert list(pipeline) == ["name", "findings", "headroom"]
    told = {finding["setting"]: (finding["level"], finding["found"]) for finding in pipeline["findings"]}
    assert told["replication.factor"] == ("wrong", "1")
    assert told["min.insync.replicas"] == ("wrong", "1")
    assert told["replicas > min.insync.replicas"] == ("wrong", "1 and 1")
    assert {setting for setting, (level, _) in told.items() if level == "ok"} == {
        "in-sync replicas", "unclean.leader.election.enable", "cleanup.policy", "retention.ms", "retention.bytes",
        "message.timestamp.type", "auto.create.topics.enable", "topic id", "positions", "partitions", "headroom",
        "isolation", "enable.auto.commit", "open transactions", "leaves of the target",
        "role of PENSTOCK_DB", "right to see snapshots", "path of records",
    }  # fmt: skip
    assert told["retention.ms"] == ("ok", "no limit")
    assert told["acks"] == ("warning", None)
    assert pipeline["headroom"] == [
        {"partition": number, "state": "nothing_waits", "waiting": 0, "hours": None, "told": "everything is loaded"}
        for number in (0, 1)
    ]


@pytest.mark.parametrize(
    ("setting", "value", "before", "after"),
    [
        ("unclean.leader.election.enable", "true", "ok", "wrong"),
        ("min.insync.replicas", "2", "wrong", "ok"),
        ("cleanup.policy", "compact", "ok", "warning"),
        ("cleanup.policy", "compact,delete", "ok", "warning"),
        ("retention.ms", str(HOUR_MS), "ok", "wrong"),
        ("retention.ms", str(24 * HOUR_MS), "ok", "warning"),
        ("retention.ms", str(72 * HOUR_MS), "ok", "ok"),
        ("retention.bytes", "1000000", "ok", "warning"),
    ],
)
def test_a_setting_that_is_changed_turns_its_finding(
    doctor: Doctor, make_topic: MakeTopic, setting: str, value: str, before: str, after: str
) -> None:
    topic = make_topic()
    write_declaration(doctor.folder, topic)

    assert doctor.find(setting)["level"] == before
    doctor.alter(topic, setting, value)
    found = doctor.find(setting)

    assert found["level"] == after
    assert (found["change"] == "") == (after == "ok")


def test_the_timestamp_type_turns_where_records_are_deleted_by_age(doctor: Doctor, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=str(100 * HOUR_MS))
    write_declaration(doctor.folder, topic)

    assert doctor.find("message.timestamp.type")["level"] == "warning"
    doctor.alter(topic, "message.timestamp.type", "LogAppendTime")
    assert doctor.find("message.timestamp.type")["level"] == "ok"


def test_loads_by_hand_and_uncommitted_reads_are_findings(doctor: Doctor, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=str(100 * HOUR_MS))
    write_declaration(doctor.folder, topic, schedule=None, isolation="read_uncommitted")

    retention, isolation = doctor.find("retention.ms"), doctor.find("isolation")

    assert retention["level"] == "warning"
    assert "loads are started by hand" in retention["told"]
    assert isolation["level"] == "warning"


def test_headroom_is_the_oldest_unloaded_record_s_age_limit(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(3, retention_ms=str(10 * HOUR_MS))
    write_declaration(doctor.folder, topic)
    send_at(kafka, topic, ago(4), ago(1), partition=0)
    send_at(kafka, topic, ago(3), ago(9), partition=1)  # the first of the log decides, not the oldest of its times

    first, second, third = doctor.examine()["headroom"]

    assert (first["state"], first["waiting"]) == ("counted", 2)
    assert 5.9 <= first["hours"] <= 6
    assert 6.9 <= second["hours"] <= 7
    assert (third["state"], third["hours"]) == ("nothing_waits", None)
    assert doctor.find("headroom")["level"] == "ok"


def test_what_is_loaded_needs_no_headroom_and_the_next_record_decides(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms=str(10 * HOUR_MS))
    write_declaration(doctor.folder, topic)
    send_at(kafka, topic, ago(9.5), ago(2))
    doctor.plan(topic)
    assert doctor.find("headroom")["level"] == "wrong"  # half an hour, and the next load comes within one

    set_positions(doctor.db, 1)
    (loaded_one,) = doctor.examine()["headroom"]
    set_positions(doctor.db, 2)
    (loaded_all,) = doctor.examine()["headroom"]

    assert 7.9 <= loaded_one["hours"] <= 8
    assert (loaded_all["state"], loaded_all["hours"]) == ("nothing_waits", None)


def set_positions(db: str, position: int) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("update penstock.position set position = %s", [position])


def test_a_record_past_its_age_has_no_time_left(doctor: Doctor, kafka: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=str(2 * HOUR_MS))
    write_declaration(doctor.folder, topic)
    doctor.plan(topic)
    send_at(kafka, topic, ago(5))

    (measured,) = doctor.examine()["headroom"]

    assert measured["hours"] == 0  # whether the broker has deleted it meanwhile or not
    assert measured["state"] in ("counted", "lost")
    assert doctor.find("headroom")["level"] == "wrong"


def test_records_that_are_lost_are_wrong_with_their_offsets(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    write_declaration(doctor.folder, account.topic)
    doctor.plan(account.topic)
    account.send_orders(10)
    account.delete_before(6)

    examined = doctor.examine()

    assert examined["headroom"] == [
        {"partition": 0, "state": "lost", "waiting": 4, "hours": 0.0, "told": "offsets [0, 6) are deleted already"}
    ]
    assert doctor.find("positions")["level"] == "wrong"
    assert "offsets [0, 6) are lost" in doctor.find("positions")["found"]


def test_a_range_without_a_visible_record_is_unknown_and_not_ok(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(retention_ms=str(100 * HOUR_MS)))
    write_declaration(doctor.folder, account.topic)
    account.transact([order(1)], commit=False)
    settings = {"bootstrap.servers": kafka.bootstrap}
    # The abort is answered before its marker is in the log.
    await_true(
        lambda: read_log(settings, account.topic, "read_committed").partitions[0].end == 2, "the marker is there"
    )

    (measured,) = doctor.examine()["headroom"]

    assert (measured["state"], measured["waiting"], measured["hours"]) == ("unknown", 2, None)


def test_a_size_limit_tells_the_rate_at_which_the_log_grows(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_bytes="1000000")
    write_declaration(doctor.folder, topic)
    send_at(kafka, topic, *(ago(10 - number) for number in range(10)))

    found, (measured,) = doctor.find("retention.bytes"), doctor.examine()["headroom"]

    assert "at 1 offsets an hour" in found["told"]
    assert "kafka-log-dirs.sh" in found["change"]
    assert (measured["state"], measured["hours"]) == ("unknown", None)
    assert "at an unknown time" in measured["told"]


def test_a_young_open_transaction_is_shown_with_its_producer_and_is_no_fault(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    write_declaration(doctor.folder, account.topic)
    assert doctor.find("open transactions")["found"] == "none"
    account.leave_open(account.begin("stuck"), [order(1)])
    account.send_orders(3)

    finding = doctor.find("open transactions")

    assert finding["level"] == "ok"
    assert "an open transaction holds back 4 offsets of partition 0 from offset 0 on" in finding["found"]
    assert f"transactional id {account.topic}-stuck" in finding["found"]


def test_added_partitions_are_said_and_a_topic_created_again_is_wrong(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    write_declaration(doctor.folder, topic)
    doctor.plan(topic)
    doctor.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    await_partitions(doctor.admin, topic, 2)
    assert "partitions 1: new" in doctor.find("partitions")["found"]

    doctor.admin.delete_topics([topic])[topic].result(30)
    create_topic(kafka.bootstrap, topic, 1)

    examined = doctor.examine()
    (identity,) = [finding for finding in examined["findings"] if finding["setting"] == "topic id"]
    assert identity["level"] == "wrong"
    assert "deleted and created again" in identity["told"]
    assert examined["headroom"] == []


def test_the_newest_topic_that_the_ledger_knows_counts(doctor: Doctor, make_topic: MakeTopic) -> None:
    topic = make_topic()
    write_declaration(doctor.folder, topic)
    doctor.plan(topic)
    with psycopg.connect(doctor.db) as connection:
        connection.execute(
            "insert into penstock.generation (pipeline_id, cluster_id, topic_id)"
            " select pipeline_id, cluster_id, 'newer' from penstock.generation"
        )

    assert doctor.find("topic id")["wanted"] == "newer"
    assert doctor.find("topic id")["level"] == "wrong"


def test_brokers_settings_that_may_not_be_read_are_a_warning_and_a_topic_s_are_an_error(
    db: str, tmp_path: Path
) -> None:
    broker = Broker(
        tmp_path / "guarded",
        *ports.choose(2),
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    try:
        broker.start()
        doctor = Doctor(db, broker.bootstrap, tmp_path)
        create_topic(broker.bootstrap, "orders", 1)
        write_declaration(tmp_path, "orders")
        assert doctor.find("auto.create.topics.enable")["level"] == "ok"

        forbid_configs(doctor.admin, ResourceType.BROKER, "kafka-cluster")
        await_true(lambda: doctor.find("auto.create.topics.enable")["level"] == "warning", "the right is revoked")
        assert doctor.find("auto.create.topics.enable")["found"] is None
        assert doctor.find("min.insync.replicas")["found"] == "1"

        forbid_configs(doctor.admin, ResourceType.TOPIC, "orders")
        await_true(lambda: "error" in doctor.document()[1], "the right on the topic is revoked")
        code, document = doctor.document()
        assert code == 1
        assert "the configuration of topic orders (needs the right DescribeConfigs)" in document["error"]
    finally:
        broker.kill()


def forbid_configs(admin: AdminClient, kind: ResourceType, name: str) -> None:
    """Allow everything on a resource but to describe its configuration."""
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)
        for operation, permission in (
            (AclOperation.ALL, AclPermissionType.ALLOW),
            (AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY),
        )
    ]
    for done in admin.create_acls(rules).values():
        done.result(30)


def test_a_lagging_copy_and_automatic_topics_are_found_among_three_brokers(db: str, tmp_path: Path) -> None:
    brokers = make_cluster(tmp_path / "cluster", 3)
    brokers[0].settings["auto.create.topics.enable"] = "true"
    try:
        for broker in brokers:
            broker.spawn()
        for broker in brokers:
            broker.await_ready()
        doctor = Doctor(db, ",".join(broker.bootstrap for broker in brokers), tmp_path)
        wanted = NewTopic("safe", 2, replication_factor=3, config={"min.insync.replicas": "2"})
        doctor.admin.create_topics([wanted])["safe"].result(30)
        await_partitions(doctor.admin, "safe", 2)
        write_declaration(tmp_path, "safe")
        # A broker that has not heard of the topic yet answers with an error.
        await_true(lambda: "pipelines" in doctor.document()[1], "each broker knows the topic")
        await_true(lambda: doctor.find("in-sync replicas")["level"] == "ok", "all copies are in sync")

        code, document = doctor.document()
        assert code == 0  # warnings do not fail
        findings = {finding["setting"]: finding for finding in document["pipelines"][0]["findings"]}
        assert findings["replication.factor"]["level"] == "ok"
        assert findings["auto.create.topics.enable"]["level"] == "warning"
        assert "of the brokers 1;" in findings["auto.create.topics.enable"]["change"]

        brokers[2].kill()
        await_true(lambda: len(doctor.admin.describe_cluster().result(30).nodes) == 2, "the broker is given up")
        # Until its partitions have another leader, the answer is an error.
        lagging = "only 2 in sync at worst, in partitions 0, 1"
        await_true(lambda: lagging in doctor("--json")[1], "a copy is missing")
        assert doctor.find("in-sync replicas")["level"] == "warning"
    finally:
        for broker in brokers:
            broker.kill()


def test_two_hundred_partitions_are_answered(doctor: Doctor, kafka: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(200, retention_ms=str(10 * HOUR_MS))
    write_declaration(doctor.folder, topic)
    send_each_at(kafka, topic, [(partition, ago(1 + partition / 100)) for partition in range(200)])

    headroom = doctor.examine()["headroom"]
    assert [each["partition"] for each in headroom] == list(range(200))
    assert all(9 - partition / 100 - 0.2 <= each["hours"] <= 9 for partition, each in enumerate(headroom))


def test_missing_topics_are_one_error_that_names_them_all(doctor: Doctor, make_topic: MakeTopic) -> None:
    write_declaration(doctor.folder, make_topic())
    write_declaration(doctor.folder, "no_such_topic", name="lost")
    write_declaration(doctor.folder, "nor_this_one", name="absent")

    code, document = doctor.document()

    assert code == 1
    assert (document["state"], document["pipeline"]) == ("failed", "absent, lost")
    assert "the description of topic no_such_topic" in document["error"]
    assert "the description of topic nor_this_one" in document["error"]
    assert document["next_step"]


def test_a_broker_out_of_reach_is_one_error(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In use it is 120 s: the test needs the answer, not the time.
    for module in ("kafka.admin", "doctor.answers"):
        monkeypatch.setattr(f"penstock.{module}.ANSWER_SECONDS", 3)
    (port,) = ports.choose(1)
    doctor = Doctor(db, f"{ports.LOOPBACK}:{port}", tmp_path)
    write_declaration(tmp_path, "orders")

    code, document = doctor.document()

    assert code == 1
    assert "the list of brokers" in document["error"]
    assert "pipelines" not in document


def test_people_get_tables_with_changes_and_loaded_partitions_are_counted(
    doctor: Doctor, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(4, retention_ms=str(10 * HOUR_MS))
    write_declaration(doctor.folder, topic)
    send_at(kafka, topic, ago(4))

    code, printed, complaint = doctor()

    assert code == 1
    assert f"--entity-name {topic} --add-config min.insync.replicas=2" in printed
    assert "nothing waits in 3 of 4 partitions" in printed
    assert "…" not in printed  # no text is shortened, however narrow the terminal
    assert "records can be lost" in complaint
