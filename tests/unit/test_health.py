"""The health word: what needs a person comes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import advice
from penstock.model.health import (
    Missing,
    Newest,
    OpenFaults,
    OpenHold,
    judge,
    name_held_redrives,
    name_waiting_results,
)
from penstock.model.load import LoadState
from penstock.model.log import PartitionLog
from penstock.model.plan import Fault

FAULT = Fault("log_start_passed", 0, 5, PartitionLog(9, 20))
CUT = Fault("beyond_end", 1, 50, PartitionLog(0, 8))
SINCE = datetime(2026, 11, 18, 9, tzinfo=UTC)


def test_a_hold_has_its_decisions_as_the_next_step() -> None:
    health = judge("orders", Newest(17, LoadState.HELD, "amount below 0"), [], 5, "", "")

    assert health.state == "held"
    assert health.cause == "load 17: amount below 0"
    assert "penstock approve 17" in health.next_step
    assert "penstock discard 17" in health.next_step


def test_a_held_redrive_is_named_and_leaves_the_state_of_the_pipeline() -> None:
    fresh = judge("orders", Newest(17, LoadState.PUBLISHED, None), [], 0, "", "")
    behind = judge("orders", Newest(17, LoadState.PUBLISHED, None), [], 5, "", "")

    named = name_held_redrives(fresh, [18, 19])

    assert (named.state, "load 18, 19" in named.cause) == ("ok", True)
    assert "penstock discard 18 --why … (its records stay in the quarantine)" in named.next_step.replace("`", "")
    assert name_held_redrives(behind, [18]).next_step == behind.next_step
    assert name_held_redrives(fresh, []) == fresh


def test_results_that_wait_for_a_rebuild_are_named_and_change_no_state() -> None:
    fresh = judge("orders", None, (), 0, "", "")
    done = replace(fresh, next_step=advice.NOTHING)
    named = name_waiting_results(done, "orders", ["a.totals", "a.newest"])
    assert (named.state, named.cause) == (
        fresh.state,
        f"{fresh.cause}; results that wait for a rebuild: a.totals, a.newest",
    )
    assert "`penstock rebuild orders a.totals`" in named.next_step
    assert name_waiting_results(fresh, "orders", ["a.totals"]).next_step == fresh.next_step
    assert name_waiting_results(done, "orders", []) == done


def test_the_next_step_of_a_held_load_fits_its_kind() -> None:
    assert "the next run then plans again" in advice.settle_held(7)
    assert advice.settle_held(7, "redrive") == advice.settle_redrive(7)
    assert "a backfill can load the same offsets again" in advice.settle_held(7, "backfill")


@given(
    st.sampled_from(
        [
            LoadState.PLANNED,
            LoadState.STAGING,
            LoadState.STAGED,
            LoadState.VALIDATED,
            LoadState.PUBLISHED,
            LoadState.FAILED,
        ]
    ),
    st.integers(0, 9),
)
def test_a_lost_log_is_never_ok_for_any_newest_load(state: LoadState, lag: int) -> None:
    assert judge("orders", Newest(1, state, None), [FAULT], lag, "", "").state == "log_lost"


def test_a_pipeline_without_an_answer_from_kafka_is_unknown() -> None:
    assert judge("orders", Newest(1, LoadState.PUBLISHED, None), [], None, "no answer", "").state == "unknown"


def test_another_topic_is_reported_before_faulty_offsets() -> None:
    assert (
        judge("orders", Newest(1, LoadState.PUBLISHED, None), [FAULT], 0, "", "the topic id changed").state
        == "other_topic"
    )


def test_a_pipeline_with_lag_is_behind_and_without_it_is_ok() -> None:
    assert judge("orders", Newest(1, LoadState.PUBLISHED, None), [], 7, "", "").state == "behind"
    assert judge("orders", Newest(1, LoadState.PUBLISHED, None), [], 0, "", "").state == "ok"


@given(
    st.sampled_from([LoadState.PLANNED, LoadState.STAGING, LoadState.PUBLISHED, LoadState.FAILED]), st.integers(0, 9)
)
def test_open_faults_are_never_ok_for_any_newest_load(state: LoadState, lag: int) -> None:
    health = judge("orders", Newest(1, state, None), [], lag, "", "", found=OpenFaults(3, 2, "a row is missing"))
    assert health.state == "faulty"
    assert "penstock verify orders" in health.next_step


def test_an_unfinished_load_whose_run_failed_is_failed_until_a_process_works_on_it() -> None:
    broken = Newest(3, LoadState.STAGED, None, has_worker=False, failure="a rule crashed", failure_step="correct it")
    health = judge("orders", broken, [], 5, "", "")
    assert (health.state, health.cause, health.next_step) == (
        "failed",
        "load 3 is staged: a rule crashed",
        "correct it",
    )
    assert judge("orders", replace(broken, has_worker=True), [], 5, "", "").state == "loading"


def test_a_pipeline_that_never_ran_is_new() -> None:
    assert judge("orders", None, [], 100, "", "").state == "new"


def test_a_loss_leads_to_acceptance_and_a_truncation_or_another_topic_to_adoption() -> None:
    published = Newest(1, LoadState.PUBLISHED, None)

    assert "penstock accept-loss orders --why" in judge("orders", published, [FAULT], 5, "", "").next_step
    for health in (
        judge("orders", published, [CUT], 5, "", ""),
        judge("orders", published, [FAULT, CUT], 5, "", ""),
        judge("orders", published, [], 5, "", "the topic id changed"),
    ):
        assert "penstock adopt orders --why" in health.next_step
        assert "accept-loss" not in health.next_step
    recording = judge("orders", published, [FAULT], 5, "", "", on_loss="record")
    assert (recording.state, "the next run records the loss" in recording.next_step) == ("log_lost", True)


def test_a_hold_is_reported_with_its_time_while_kafka_does_not_answer() -> None:
    hold = OpenHold("other_topic", "the topic id changed", SINCE)

    seen = judge("orders", None, [], None, "", "the topic id changed", hold=hold)
    assert seen.cause == "the topic id changed (held since 2026-11-18T09:00:00+00:00)"
    unseen = judge("orders", Newest(1, LoadState.PUBLISHED, None), [], None, "no answer", "", hold=hold)
    assert (unseen.state, unseen.next_step) == ("other_topic", seen.next_step)
    cut = judge("orders", None, [], None, "no answer", "", hold=OpenHold("log_cut", "cut at 8", SINCE))
    assert (cut.state, "penstock adopt" in cut.next_step) == ("log_lost", True)


def test_a_log_that_fits_again_is_judged_by_its_state_and_not_by_the_open_hold() -> None:
    hold = OpenHold("log_lost", "gone", SINCE)
    assert judge("orders", Newest(1, LoadState.PUBLISHED, None), [], 7, "", "", hold=hold).state == "behind"


def test_a_truncated_log_that_has_grown_again_is_reported_by_its_hold() -> None:
    hold = OpenHold("log_cut", "partition 0: the log was truncated at 5", datetime(2026, 1, 31, tzinfo=UTC))
    told = judge("orders", Newest(1, LoadState.PUBLISHED, None), (), 0, "", "", hold=hold)
    assert (told.state, told.cause) == (
        "log_lost",
        "partition 0: the log was truncated at 5 (held since 2026-01-31T00:00:00+00:00)",
    )
    assert "penstock adopt orders" in told.next_step


def test_unfinished_backfills_and_gaps_are_reported_if_nothing_else_is_wrong() -> None:
    published = Newest(1, LoadState.PUBLISHED, None)
    waits = judge("orders", published, (), 0, "", "", missing=Missing(gaps=7, backfills=(3, 4)))
    assert (waits.state, waits.cause) == ("behind", "backfill 3, 4 has not ended")
    assert waits.next_step.endswith("`penstock backfill orders --resume 3`, `penstock backfill orders --resume 4`")
    gaps = judge("orders", published, (), 0, "", "", missing=Missing(gaps=7))
    assert (gaps.state, gaps.cause) == ("ok", "everything up to the end is loaded; 7 offsets below it are gaps")
    lost = judge("orders", published, (), 0, "", "", missing=Missing(lost=9))
    assert lost.cause == "everything up to the end is loaded; 9 offsets below it are lost (penstock.losses)"
    assert lost.next_step == "nothing to do"


@pytest.mark.parametrize(
    ("state", "somebody", "idle", "word"),
    [
        ("staging", False, 0, "stalled"),
        ("staging", True, 10_000, "loading"),
        ("planned", False, 60, "loading"),
        ("planned", False, 1000, "stalled"),
        ("staged", False, 1000, "stalled"),
        ("validated", False, 1000, "stalled"),
        ("validated", True, 1000, "loading"),
        ("published", False, 10_000, "ok"),
    ],
)
def test_a_load_without_a_process_is_stalled(state: LoadState, somebody: bool, idle: float, word: str) -> None:
    health = judge("orders", Newest(7, state, None, somebody, SINCE, idle), [], 0, "", "")

    assert health.state == word
    if word == "stalled":
        assert health.cause == f"load 7 is {state} since 2026-11-18T09:00:00+00:00, and no process works on it"
        assert "penstock run orders" in health.next_step
