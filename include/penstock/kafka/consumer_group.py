"""Offsets of a consumer group, committed without joining the group, so that tools that show lag see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka import KafkaError as Code

from penstock.errors import KafkaError
from penstock.kafka.admin import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

# The broker refuses offsets from outside a group that has members: the group is a consumer's own.
HAS_MEMBERS = {Code.UNKNOWN_MEMBER_ID, Code.NON_EMPTY_GROUP, Code.ILLEGAL_GENERATION}


def commit_offsets(
    settings: Mapping[str, str], group: str, topic: str, offsets: Mapping[int, int], seconds: float
) -> None:
    """Commit one offset a partition. A group with members is left as it is, and the KafkaError says so."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    admin = connect(settings)
    request = [ConsumerGroupTopicPartitions(group, places)]
    try:
        [future] = admin.alter_consumer_group_offsets(request, request_timeout=seconds).values()
        # The client itself ends the request after `seconds`.
        errors = [each.error for each in future.result(2 * seconds).topic_partitions if each.error]
    except KafkaException as error:
        raise _describe(error.args[0]) from error
    except TimeoutError as error:
        raise KafkaError(f"no answer came in {seconds:g} s") from error
    if errors:
        raise _describe(errors[0])


def _describe(error: Code) -> KafkaError:
    if error.code() in HAS_MEMBERS:
        return KafkaError(f"the group has members, so it belongs to a consumer ({error.str()})")
    return KafkaError(error.str())
