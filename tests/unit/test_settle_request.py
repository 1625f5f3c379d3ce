"""The request to settle a held load: each failed check with counts and places, in a table that Markdown can read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from declaring import declare
from penstock.airflow.settle_request import write_body
from penstock.model.load import CheckResult, Load, LoadState
from penstock.model.ranges import Range

LOAD = Load(
    load_id=17,
    pipeline_id=1,
    pipeline="orders",
    generation_id=1,
    kind="live",
    state=LoadState.HELD,
    attempt=1,
    run_id="run",
    declaration=declare("topic"),
    ranges=tuple(Range(partition, 0, 10) for partition in range(1000)),
    cause="a check",
    rows=9990,
    quarantined=10,
    holes=0,
    filtered=0,
    transform_sha256=None,
    superseded_by=None,
    cluster_id="",
    topic_id="",
    application_id=None,
    backfill_id=None,
)


def fail(observed: dict[str, Any], partition: int | None = None, column: str | None = None) -> CheckResult:
    """The result of a check that failed."""
    return CheckResult("builtin", "expect_it", partition, column, "error", success=False, observed=observed)


def write(*failed: CheckResult, load: Load = LOAD, count: int | None = None) -> str:
    """The request about a load."""
    return write_body(load, failed, count or len(failed), "penstock_stage.load_17_1")


def test_a_result_shows_its_counts_and_its_places_apart() -> None:
    body = write(
        fail({"outside": 1234, "by": "key", "offsets": [5, 7]}, partition=3),
        fail({"unexpected_count": 2, "offsets": [[4, 11], [5, 12]]}, column="a|b"),
        fail({"unread": 1, "chunks": [[0, 10]]}, partition=4),
        fail({"copies": 1, "places": [{"partition": 6, "offset": 9, "kind": "copies", "other": [6, 8]}]}, partition=6),
        fail({}),
    )

    place = "partition 6 offset 9 (copies, other: partition 6 offset 8)"
    assert f"| `expect_it` | error | partition 6 | copies 1 | {place} |" in body
    assert "| `expect_it` | error | partition 3 | outside 1,234, by key | offset 5, offset 7 |" in body
    places = "partition 4 offset 11, partition 5 offset 12"
    assert f"| `expect_it` | error | column a\\|b | unexpected_count 2 | {places} |" in body
    assert "| `expect_it` | error | partition 4 | unread 1 | offsets [0, 10) |" in body
    assert "| `expect_it` | error | all rows |  |  |" in body


def test_a_result_names_the_suite_of_its_check() -> None:
    assert "| `expect_it` of the suite finance | error | column id |" in write(
        replace(fail({}, column="id"), suite="finance")
    )


def test_a_request_about_a_thousand_partitions_stays_short() -> None:
    body = write(*[fail({"outside": 1}, partition=number) for number in range(20)], count=1000)

    assert "| and 980 more: `penstock.check_results` | | | | |" in body
    assert "and 995 more" in body
    assert len(body) < 4000


def test_a_request_says_what_a_discard_means_for_its_kind_of_load() -> None:
    live, filling = write(fail({})), write(fail({}), load=replace(LOAD, kind="backfill"))

    assert "its pipeline loads nothing more" in live
    assert "The pipeline's next run loads the same offsets again." in live
    assert "its pipeline continues." in filling
    assert "A backfill can load the same offsets again." in filling
    assert "The records stay in the quarantine." in write(fail({}), load=replace(LOAD, kind="redrive"))
