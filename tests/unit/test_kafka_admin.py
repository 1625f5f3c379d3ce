"""Requests to Kafka are repeated on transient errors, and end at a time limit."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from penstock.errors import KafkaError
from penstock.kafka import admin as kafka
from penstock.kafka.admin import Client, TransientError, connect, retry_transient
from penstock.kafka.ends import Ends


@pytest.fixture
def client() -> Client:
    """A client that has no broker."""
    return connect({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})


def _refused(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(ClientError(code)))
    return future


def _answered(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@pytest.mark.parametrize("code", [ClientError.OFFSET_NOT_AVAILABLE, ClientError.NOT_LEADER_FOR_PARTITION])
def test_a_request_to_a_leader_that_was_just_elected_is_repeated(client: Client, code: int) -> None:
    answers = iter([_refused(code), _refused(code), _answered(7)])
    assert retry_transient(lambda: client.wait_for(next(answers), "the offsets")) == 7


def test_a_request_that_no_leader_answers_fails_after_the_time_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 0.3)
    with pytest.raises(TransientError, match=r"did not answer the request for the offsets: .*high watermark"):
        retry_transient(lambda: client.wait_for(_refused(ClientError.OFFSET_NOT_AVAILABLE), "the offsets"))


def test_another_error_is_raised_at_once(client: Client) -> None:
    answers = iter([_refused(ClientError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(KafkaError, match="did not answer") as stopped:
        retry_transient(lambda: client.wait_for(next(answers), "the offsets"))
    assert not isinstance(stopped.value, TransientError)


def test_a_request_fails_early_if_no_broker_can_be_connected_to(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "UNREACHABLE_SECONDS", 1)
    described = client.describe_cluster(request_timeout=60)
    with pytest.raises(KafkaError, match=r"no answer came in time \(.*Connection refused"):
        client.wait_for(described, "the cluster id")


def test_a_cluster_that_does_not_answer_a_look_is_an_outage_and_no_missing_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.kafka.ends.ANSWER_SECONDS", 1)
    with pytest.raises(KafkaError, match="the description of topic orders"):
        Ends({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}).list_partitions(["orders"])
