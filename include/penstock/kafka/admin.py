"""What the log holds: where each partition starts and ends, and which topic of which cluster it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.errors import KafkaError, WrongUseError
from penstock.model.log import Identity, Isolation, PartitionLog, TopicLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future
    from datetime import datetime

ISOLATION = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
# A busy broker may take 20 s for a reply, and the first question of a client needs five of them: 100 s, as measured.
ANSWER_SECONDS = 120
REPLY_SECONDS = 60
# Where no broker can be connected to, nobody waits for longer.
UNREACHABLE_SECONDS = 20
# The client writes its log to stderr by itself: 293 lines when a broker is down. Errors say the same in one sentence.
QUIET = {"log_level": 0}
# What a broker answers while a partition changes its leader; it will know soon.
PASSING = {
    Code.LEADER_NOT_AVAILABLE,
    Code.NOT_LEADER_FOR_PARTITION,
    Code.OFFSET_NOT_AVAILABLE,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
}
T = TypeVar("T")


class PassingError(KafkaError):
    """Kafka cannot answer yet."""


class Client(AdminClient):  # type: ignore[misc]
    """An admin client that hears why it cannot connect: to what it is asked it then only answers that time is over."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        heard: list[Code] = []
        super().__init__(limit_replies() | QUIET | {"error_cb": heard.append, **settings})
        self._heard = heard

    def wait_for(self, future: Future[Any], asked: str) -> Any:  # noqa: ANN401 - as many types as there are questions
        """Wait for an answer; a KafkaError says what was asked."""
        self._heard.clear()
        try:
            return self._wait(future)
        except KafkaException as error:
            kind = PassingError if error.args[0].code() in PASSING else KafkaError
            raise _unanswered(asked, error.args[0].str() + self._tell_heard(), kind) from error
        except TimeoutError as error:
            raise _unanswered(asked, f"no answer came in time{self._tell_heard()}") from error

    def _wait(self, future: Future[Any]) -> Any:  # noqa: ANN401
        began = time.monotonic()
        while True:
            try:
                return future.result(timeout=0.5)
            except TimeoutError:
                waited = time.monotonic() - began
                if waited > ANSWER_SECONDS + 5 or (waited > UNREACHABLE_SECONDS and self._is_cut_off()):
                    raise

    def _is_cut_off(self) -> bool:
        self.poll(0)
        return any(error.code() == Code._ALL_BROKERS_DOWN for error in self._heard)

    def _tell_heard(self) -> str:
        """What it has heard last; that all brokers are down only says how often."""
        self.poll(0)
        said = [error.str() for error in self._heard if error.code() != Code._ALL_BROKERS_DOWN]
        return f" ({said[-1]})" if said else ""


def limit_replies() -> dict[str, Any]:
    """Settings of a client that waits for slow replies; the library's own give up a connection after 10 s."""
    milliseconds = int(1000 * min(REPLY_SECONDS, ANSWER_SECONDS))
    return {"socket.timeout.ms": milliseconds, "api.version.request.timeout.ms": milliseconds}


def read_identity(settings: Mapping[str, str], topic: str) -> Identity:
    """Ask the cluster which one it is, and which topic it has under this name."""
    admin = connect(settings)
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)
    topic_id = admin.wait_for(described[topic], f"asked about topic {topic}").topic_id
    return Identity(_read_cluster_id(admin), str(topic_id))


def read_log(settings: Mapping[str, str], topic: str, isolation: Isolation) -> TopicLog:
    """Ask the cluster what a topic holds. With read_committed, a partition ends at its last stable offset."""
    return read_logs(settings, {topic: isolation})[topic]


def read_logs(settings: Mapping[str, str], topics: Mapping[str, Isolation]) -> dict[str, TopicLog]:
    """Ask for several topics through one connection."""
    admin = connect(settings)
    cluster_id = _read_cluster_id(admin)
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_SECONDS)
    logs = {}
    for topic, isolation in topics.items():
        description = admin.wait_for(described[topic], f"asked about topic {topic}")
        partitions = [
            TopicPartition(topic, partition.id)
            for partition in sorted(description.partitions, key=lambda part: part.id)
        ]
        starts = _list_offsets(admin, partitions, OffsetSpec.earliest(), isolation)
        ends = _list_offsets(admin, partitions, OffsetSpec.latest(), isolation)
        logs[topic] = TopicLog(
            cluster_id=cluster_id,
            topic=topic,
            topic_id=str(description.topic_id),
            partitions={
                number: PartitionLog(starts[number].offset, end.offset, end.leader_epoch)
                for number, end in ends.items()
            },
        )
    return logs


def find_offsets_at(settings: Mapping[str, str], log: TopicLog, time: datetime, isolation: Isolation) -> dict[int, int]:
    """Find, per partition, the first offset whose record is not older than `time`; where there is none, the end."""
    found = find_first_offsets_at(settings, log, time, isolation)
    return {number: found.get(number, partition.end) for number, partition in log.partitions.items()}


def find_first_offsets_at(
    settings: Mapping[str, str], log: TopicLog, time: datetime, isolation: Isolation
) -> dict[int, int]:
    """Find the first offset whose record is not older than `time`; partitions without such a record are left out."""
    partitions = [TopicPartition(log.topic, number) for number in log.partitions]
    spec = OffsetSpec.for_timestamp(int(time.timestamp() * 1000))
    found = _list_offsets(connect(settings), partitions, spec, isolation)
    return {number: int(each.offset) for number, each in found.items() if each.offset >= 0}


def connect(settings: Mapping[str, str]) -> Client:
    """Make an admin client; it connects when it is first asked."""
    try:
        return Client(settings)
    except KafkaException as error:
        raise WrongUseError(
            f"the Kafka client refuses its settings: {error.args[0].str()}.",
            next_step="correct the settings (PENSTOCK_KAFKA; in Airflow, the pipeline's Kafka connection).",
        ) from error


def _read_cluster_id(admin: Client) -> str:
    asked = admin.describe_cluster(request_timeout=ANSWER_SECONDS)
    return str(admin.wait_for(asked, "asked which cluster it is").cluster_id)


def _list_offsets(
    admin: Client, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: Isolation
) -> dict[int, Any]:
    def ask() -> dict[int, Any]:
        asked = admin.list_offsets(
            dict.fromkeys(partitions, spec), isolation_level=ISOLATION[isolation], request_timeout=ANSWER_SECONDS
        )
        return {
            partition.partition: _read_offset(
                admin, future, f"asked for offsets of {partition.topic} partition {partition.partition}"
            )
            for partition, future in asked.items()
        }

    return ask_while_passing(ask)


def ask_while_passing(ask: Callable[[], T]) -> T:
    """Ask again while a leader is being elected, as long as one may wait for an answer."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except PassingError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _read_offset(admin: Client, future: Future[Any], asked: str) -> Any:  # noqa: ANN401 - confluent_kafka has no types
    found = admin.wait_for(future, asked)
    # Where a leader never answered, the client may give this instead of an error. Taken for an offset, it would read as
    # a lost log, or as a time after the last record.
    if found.offset == OFFSET_INVALID:
        raise _unanswered(asked, "no offset came")
    return found


def _unanswered(asked: str, reason: str, kind: type[KafkaError] = KafkaError) -> KafkaError:
    return kind(
        f"Kafka, {asked}, did not answer: {reason}.",
        next_step="check that the brokers run and can be reached, and that the topic and the rights to it are there.",
    )
