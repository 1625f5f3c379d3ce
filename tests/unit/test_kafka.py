"""What becomes of an answer that a broker cannot give yet."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from penstock.errors import KafkaError
from penstock.kafka import admin as kafka
from penstock.kafka.admin import Client, PassingError, ask_while_passing, connect


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
def test_a_leader_that_was_just_elected_is_asked_again(client: Client, code: int) -> None:
    answers = iter([_refused(code), _refused(code), _answered(7)])
    assert ask_while_passing(lambda: client.wait_for(next(answers), "asked for offsets")) == 7


def test_a_leader_that_never_knows_is_told_in_bounded_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 0.3)
    with pytest.raises(PassingError, match=r"asked for offsets, did not answer: .*high watermark"):
        ask_while_passing(lambda: client.wait_for(_refused(ClientError.OFFSET_NOT_AVAILABLE), "asked for offsets"))


def test_any_other_refusal_stops_at_once(client: Client) -> None:
    answers = iter([_refused(ClientError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(KafkaError, match="did not answer") as stopped:
        ask_while_passing(lambda: client.wait_for(next(answers), "asked for offsets"))
    assert not isinstance(stopped.value, PassingError)


def test_an_answer_is_not_waited_for_where_no_broker_can_be_connected_to(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "UNREACHABLE_SECONDS", 1)
    asked = client.describe_cluster(request_timeout=60)
    with pytest.raises(KafkaError, match=r"no answer came in time \(.*Connection refused"):
        client.wait_for(asked, "asked which cluster it is")
