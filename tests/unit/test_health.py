"""The health word: what needs a person comes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.health import Newest, judge
from penstock.kafka import PartitionLog
from penstock.plan import Fault

FAULT = Fault("log_start_passed", 0, 5, PartitionLog(9, 20))


def test_a_hold_is_named_with_the_ways_on() -> None:
    health = judge("orders", Newest(17, "held", "amount below 0"), [], 5, "", "")

    assert health.state == "held"
    assert health.cause == "load 17: amount below 0"
    assert "penstock approve 17" in health.next_step
    assert "penstock discard 17" in health.next_step


@given(st.sampled_from(["planned", "staging", "staged", "validated", "published", "failed"]), st.integers(0, 9))
def test_a_lost_log_is_never_green_whatever_the_newest_load(state: str, lag: int) -> None:
    assert judge("orders", Newest(1, state, None), [FAULT], lag, "", "").state == "log_lost"


def test_kafka_out_of_reach_is_unknown_and_not_ok() -> None:
    assert judge("orders", Newest(1, "published", None), [], None, "no answer", "").state == "unknown"


def test_another_topic_under_the_name_is_told_before_the_offsets_are_compared() -> None:
    assert judge("orders", Newest(1, "published", None), [FAULT], 0, "", "the topic id changed").state == "other_topic"


def test_lag_makes_it_behind_and_none_makes_it_ok() -> None:
    assert judge("orders", Newest(1, "published", None), [], 7, "", "").state == "behind"
    assert judge("orders", Newest(1, "published", None), [], 0, "", "").state == "ok"


def test_a_pipeline_that_never_ran_is_new() -> None:
    assert judge("orders", None, [], 100, "", "").state == "new"
