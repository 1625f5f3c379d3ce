"""Requests to the cluster: ids, ends and offsets of logs, and the configuration of topics and brokers."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from penstock import advice
from penstock.errors import KafkaError, WrongUseError, name_partitions
from penstock.model.log import Ends, Identity, Isolation, PartitionLog, TopicEnds, TopicLog
from penstock.waiting import retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from datetime import datetime

ISOLATION = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
# A busy broker may take 20 s for a reply. The first request of a client needs five replies: 100 s, as measured.
ANSWER_SECONDS = 120
REPLY_SECONDS = 60
# Time limit while no broker can be connected to.
UNREACHABLE_SECONDS = 20
POLL_SECONDS = 0.5
# The client would write its own log to stderr: 293 lines when a broker is down. Errors say the same in one sentence.
QUIET = {"log_level": 0}
# A broker answers with these errors for a short time while a partition changes its leader.
TRANSIENT = {
    Code.LEADER_NOT_AVAILABLE,
    Code.NOT_LEADER_FOR_PARTITION,
    Code.OFFSET_NOT_AVAILABLE,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
}
T = TypeVar("T")


class TransientError(KafkaError):
    """Kafka cannot answer yet."""


class Client(AdminClient):  # type: ignore[misc]
    """An admin client that remembers connection errors: a request that fails for one only reports a timeout."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        connection_errors: list[Code] = []
        super().__init__(limit_replies() | QUIET | {"error_cb": connection_errors.append, **settings})
        self._connection_errors = connection_errors

    def wait_for(self, future: Future[Any], request: str) -> Any:  # noqa: ANN401 - each request has its own type
        """Wait for the answer to a request; a KafkaError names the request."""
        self._connection_errors.clear()
        try:
            return self._wait(future)
        except KafkaException as error:
            kind = TransientError if error.args[0].code() in TRANSIENT else KafkaError
            raise _unanswered(request, error.args[0].str() + self._describe_connection(), kind) from error
        except TimeoutError as error:
            raise _unanswered(request, f"no answer came in time{self._describe_connection()}") from error

    def _wait(self, future: Future[Any]) -> Any:  # noqa: ANN401
        started = time.monotonic()
        return retry(
            lambda: future.result(timeout=POLL_SECONDS),
            on=TimeoutError,
            seconds=ANSWER_SECONDS + 5,
            every=0,
            give_up=lambda _: time.monotonic() - started > UNREACHABLE_SECONDS and self._has_no_broker(),
        )

    def _has_no_broker(self) -> bool:
        self.poll(0)
        return any(error.code() == Code._ALL_BROKERS_DOWN for error in self._connection_errors)

    def _describe_connection(self) -> str:
        """The last connection error in parentheses. "All brokers are down" gives no reason, and is left out."""
        self.poll(0)
        reasons = [error.str() for error in self._connection_errors if error.code() != Code._ALL_BROKERS_DOWN]
        return f" ({reasons[-1]})" if reasons else ""


def limit_replies() -> dict[str, Any]:
    """Settings of a client that waits for slow replies. By default the library gives up a connection after 10 s."""
    milliseconds = int(1000 * min(REPLY_SECONDS, ANSWER_SECONDS))
    return {"socket.timeout.ms": milliseconds, "api.version.request.timeout.ms": milliseconds}


def read_identity(settings: Mapping[str, str], topic: str) -> Identity:
    """Read the id of the cluster, and the id of the topic that has this name now."""
    admin = connect(settings)
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)
    topic_id = admin.wait_for(described[topic], f"the description of topic {topic}").topic_id
    return Identity(_read_cluster_id(admin), str(topic_id))


def read_log(settings: Mapping[str, str], topic: str, isolation: Isolation) -> TopicLog:
    """Read where each partition of a topic starts and ends. With read_committed it ends at its last stable offset."""
    return read_logs(settings, {topic: isolation})[topic]


def read_logs(settings: Mapping[str, str], topics: Mapping[str, Isolation]) -> dict[str, TopicLog]:
    """Read the logs of several topics through one connection."""
    admin = connect(settings)
    cluster_id = _read_cluster_id(admin)
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_SECONDS)
    logs = {}
    for topic, isolation in topics.items():
        description = admin.wait_for(described[topic], f"the description of topic {topic}")
        partitions = [
            TopicPartition(topic, partition.id)
            for partition in sorted(description.partitions, key=lambda part: part.id)
        ]
        starts = _list_offsets(admin, partitions, OffsetSpec.earliest(), isolation)
        highs = _list_offsets(admin, partitions, OffsetSpec.latest(), "read_uncommitted")
        ends = highs
        if isolation == "read_committed":
            ends = _list_offsets(admin, partitions, OffsetSpec.latest(), isolation)
        logs[topic] = TopicLog(
            cluster_id=cluster_id,
            topic=topic,
            topic_id=str(description.topic_id),
            partitions={
                number: PartitionLog(starts[number].offset, end.offset, end.leader_epoch, highs[number].offset)
                for number, end in ends.items()
            },
        )
    return logs


def read_ends(settings: Mapping[str, str], topics: Sequence[str]) -> dict[str, TopicEnds | KafkaError]:
    """Read where the partitions of topics start and end, for all topics by one request of each kind.

    The error of a topic hides no other topic. Nothing is tried again: the caller asks again soon.
    """
    admin = connect(settings)
    cluster_id = _read_cluster_id(admin)
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_SECONDS)
    found: dict[str, TopicEnds | KafkaError] = {}
    identities, places = {}, []
    for topic in topics:
        try:
            description = admin.wait_for(described[topic], f"the description of topic {topic}")
        except KafkaError as error:
            found[topic] = error
            continue
        identities[topic] = Identity(cluster_id, str(description.topic_id))
        places += [TopicPartition(topic, partition.id) for partition in description.partitions]
    answers = [
        admin.list_offsets(dict.fromkeys(places, spec), isolation_level=isolation, request_timeout=ANSWER_SECONDS)
        for spec, isolation in (
            (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
            (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
            (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
        )
        if places
    ]
    for topic, identity in identities.items():
        try:
            found[topic] = TopicEnds(identity, _read_ends_of(admin, topic, places, answers))
        except KafkaError as error:
            found[topic] = error
    return found


def _read_ends_of(
    admin: Client,
    topic: str,
    places: Sequence[TopicPartition],
    answers: Sequence[Mapping[TopicPartition, Future[Any]]],
) -> dict[int, Ends]:
    request = f"the offsets of topic {topic} partition"
    return {
        place.partition: Ends(
            *(int(_read_offset(admin, each[place], f"{request} {place.partition}").offset) for each in answers)
        )
        for place in places
        if place.topic == topic
    }


def read_configs(settings: Mapping[str, str], topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read the settings of topics by one request; a topic whose settings Kafka does not show is left out."""
    if not topics:
        return {}
    admin = connect(settings)
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found = {}
    for resource, future in admin.describe_configs(resources, request_timeout=ANSWER_SECONDS).items():
        with suppress(KafkaError):
            found[resource.name] = _to_values(admin.wait_for(future, f"the configuration of topic {resource.name}"))
    return found


def find_offsets_at(settings: Mapping[str, str], log: TopicLog, time: datetime, isolation: Isolation) -> dict[int, int]:
    """Find, per partition, the first offset whose record is not older than `time`; the end if there is none."""
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


def describe_held_back(settings: Mapping[str, str], log: TopicLog, isolation: Isolation) -> str:
    """Describe how many offsets open transactions hold back from a load of committed records; empty if none."""
    if isolation == "read_uncommitted":
        return ""
    try:
        ends = read_log(settings, log.topic, "read_uncommitted").partitions
    except KafkaError:  # the message says that nothing is new, with or without this sentence
        return ""
    held = {
        number: ends[number].end - partition.end
        for number, partition in log.partitions.items()
        if number in ends and ends[number].end > partition.end
    }
    if not held:
        return ""
    return (
        f" {sum(held.values())} offsets of {name_partitions(held)} are behind open transactions; `penstock doctor` "
        "names their producers."
    )


def read_brokers(settings: Mapping[str, str], name: str) -> dict[int, str | None]:
    """Read one setting from each broker; None if the broker does not show it to this user."""
    admin = connect(settings)
    described = admin.wait_for(admin.describe_cluster(request_timeout=ANSWER_SECONDS), "the list of brokers")
    futures = {node.id: _request_config(admin, ResourceType.BROKER, str(node.id)) for node in described.nodes}
    return {broker: _read_broker(admin, future, broker).get(name) for broker, future in futures.items()}


def read_topic_config(settings: Mapping[str, str], topic: str) -> dict[str, str]:
    """Read the settings of a topic, including inherited ones."""
    return read_config(connect(settings), topic)


def read_config(admin: Client, topic: str) -> dict[str, str]:
    """Read the settings of a topic through an existing client."""
    future = _request_config(admin, ResourceType.TOPIC, topic)
    return _to_values(admin.wait_for(future, f"the configuration of topic {topic} (needs the right DescribeConfigs)"))


def _request_config(admin: Client, kind: ResourceType, name: str) -> Any:  # noqa: ANN401 - the client has no type for it
    # One request for each resource, because each broker has to be asked itself.
    (future,) = admin.describe_configs([ConfigResource(kind, name)], request_timeout=ANSWER_SECONDS).values()
    return future


def _read_broker(admin: Client, future: Any, broker: int) -> dict[str, str]:  # noqa: ANN401
    """Read a broker's configuration; empty on an error, because many users may read topics but no broker settings."""
    try:
        return _to_values(admin.wait_for(future, f"the configuration of broker {broker}"))
    except KafkaError:
        return {}


def _to_values(config: Mapping[str, Any]) -> dict[str, str]:
    return {name: entry.value for name, entry in config.items() if entry.value is not None}


def connect(settings: Mapping[str, str]) -> Client:
    """Make an admin client; it connects with its first request."""
    with refusing_settings():
        return Client(settings)


@contextmanager
def refusing_settings() -> Iterator[None]:
    """Make a client inside: settings that it refuses are the fault of the person that wrote them.

    The client raises other errors than its own for the name of a callback, which no text can be.
    """
    try:
        yield
    except (KafkaException, TypeError, ValueError, AttributeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise WrongUseError(
            f"the Kafka client refuses its settings: {reason}.", next_step=advice.CORRECT_KAFKA_SETTINGS
        ) from error


def _read_cluster_id(admin: Client) -> str:
    described = admin.describe_cluster(request_timeout=ANSWER_SECONDS)
    return str(admin.wait_for(described, "the cluster id").cluster_id)


def _list_offsets(
    admin: Client, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: Isolation
) -> dict[int, Any]:
    def ask() -> dict[int, Any]:
        listed = admin.list_offsets(
            dict.fromkeys(partitions, spec), isolation_level=ISOLATION[isolation], request_timeout=ANSWER_SECONDS
        )
        return {
            partition.partition: _read_offset(
                admin, future, f"the offsets of topic {partition.topic} partition {partition.partition}"
            )
            for partition, future in listed.items()
        }

    return retry_transient(ask)


def retry_transient(ask: Callable[[], T]) -> T:
    """Repeat a request while a leader is being elected, for at most ANSWER_SECONDS."""
    return retry(ask, on=TransientError, seconds=ANSWER_SECONDS)


def _read_offset(admin: Client, future: Future[Any], request: str) -> Any:  # noqa: ANN401 - the client has no types
    found = admin.wait_for(future, request)
    # The client may return OFFSET_INVALID instead of an error when a leader never answered. Read as an offset, it would
    # mean a lost log, or a time after the last record.
    if found.offset == OFFSET_INVALID:
        raise _unanswered(request, "the reply holds no offset")
    return found


def _unanswered(request: str, reason: str, kind: type[KafkaError] = KafkaError) -> KafkaError:
    return kind(f"Kafka did not answer the request for {request}: {reason}.", next_step=advice.CHECK_BROKERS_AND_RIGHTS)
