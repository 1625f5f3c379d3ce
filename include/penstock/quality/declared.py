"""The declared checks of a load: which ones apply, what they are given, and their results."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.declaration.durations import parse_window
from penstock.declaration.own_expectations import ONLY_LIVE, OWN_EXPECTATIONS, READ_AGAIN
from penstock.ledger.history import (
    find_added_partitions,
    find_first_load,
    find_window_start,
    read_chunks_read_twice,
    read_usual_volumes,
)
from penstock.model.load import CheckResult
from penstock.quality import data  # noqa: F401 - Great Expectations finds classes that are imported
from penstock.quality.gx import get_expectation_impl
from penstock.quality.observation import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.expectations.expectation import Expectation

    from penstock.declaration.pipeline import Check
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

# The words of Great Expectations for the severities of a declaration.
SEVERITIES = {"error": "critical", "warning": "warning", "info": "info"}
# The offsets of a topic that was created again are other records, so these checks see one generation only.
_OF_ONE_GENERATION = (
    "expect_key_order_within_partition",
    "expect_key_in_one_partition",
    "expect_sequence_without_gaps",
)


def select_checks(load: Load) -> tuple[Check, ...]:
    """Select the declared checks that apply to a load: age and volume are those of live loads."""
    return tuple(check for check in load.declaration.checks if load.kind == "live" or check.expect not in ONLY_LIVE)


def reads_history(load: Load) -> bool:
    """Whether a check of the load reads the rows of earlier loads."""
    return any(check.arguments.get("across") is not None for check in select_checks(load))


def gather_arguments(connection: Connection, load: Load) -> list[dict[str, Any]]:
    """Gather the arguments of each check that applies, with what the ledger says about earlier loads."""
    return [_gather(connection, load, check) for check in select_checks(load)]


def _gather(connection: Connection, load: Load, check: Check) -> dict[str, Any]:
    arguments = dict(check.arguments)
    if check.expect not in OWN_EXPECTATIONS:
        return arguments
    across = arguments.pop("across", None)
    if across is not None:
        arguments |= _find_history(connection, load, check.expect, across)
    give = _GIVEN.get(check.expect)
    return arguments | give(connection, load, arguments) if give else arguments


def _find_history(connection: Connection, load: Load, expect: str, across: str) -> dict[str, Any]:
    """The earlier loads to look up; no argument if there are none."""
    one_generation = expect in _OF_ONE_GENERATION
    start = find_window_start(connection, load.load_id, parse_window(across), same_generation=one_generation)
    if start is None:
        return {}
    history = {"history": str(load.declaration.target), "since_load": start, "replaced": ()}
    if load.kind == "replay":
        history["replaced"] = tuple((each.partition, each.from_offset, each.until_offset) for each in load.ranges)
        history["replaced_since"] = find_first_load(connection, load.load_id)
    if expect != "expect_key_order_within_partition":
        return history
    # A live load begins at the position: all published offsets of its generation are lower.
    return {**history, "history_is_before": load.kind == "live"}


def _give_added_partitions(connection: Connection, load: Load, _: Mapping[str, Any]) -> dict[str, Any]:
    return {"added_partitions": find_added_partitions(connection, load.generation_id)}


def _give_usual_volumes(connection: Connection, load: Load, arguments: Mapping[str, Any]) -> dict[str, Any]:
    weeks = arguments.get("weeks", get_expectation_impl("expect_volume_as_usual").__fields__["weeks"].default)
    return {"baseline": read_usual_volumes(connection, load.load_id, weeks)}


def _give_chunks_read_twice(connection: Connection, load: Load, _: Mapping[str, Any]) -> dict[str, Any]:
    return {"chunks": [asdict(each) for each in read_chunks_read_twice(connection, load.load_id, load.attempt)]}


# The arguments that an expectation needs from the ledger.
_GIVEN: dict[str, Callable[[Connection, Load, Mapping[str, Any]], dict[str, Any]]] = {
    "expect_key_in_one_partition": _give_added_partitions,
    "expect_volume_as_usual": _give_usual_volumes,
    READ_AGAIN: _give_chunks_read_twice,
}


def build_expectation(check: Check, arguments: dict[str, Any], **meta: object) -> Expectation:
    """Build the expectation of a check; any exception is a mistake in the declaration."""
    return get_expectation_impl(check.expect)(**arguments, severity=SEVERITIES[check.severity], meta=meta)


def translate(check: Check, result: ExpectationValidationResult, rows: int, stop: str | None) -> Iterator[CheckResult]:
    """Translate the result of a check: one result for the load, then one for each partition that failed.

    `stop` is the condition by which a value of a row stopped the check: then it has failed.
    """
    make = partial(
        CheckResult,
        "declared",
        check.expect,
        column=check.arguments.get("column"),
        severity=check.severity,
        suite=check.suite,
        check_id=check.check_id,
    )
    if stop is not None:
        yield make(partition=None, success=False, observed={"error": stop})
        return
    if check.expect not in OWN_EXPECTATIONS:
        success, observed = observe(check, result, rows)
        yield make(partition=None, success=success, observed=observed)
        return
    details = (result.result or {}).get("details") or {}
    yield make(partition=None, success=bool(result.success), observed=details["observed"])
    for judged in details.get("partitions", ()):
        place, success, observed = judged["partition"], judged["success"], judged["observed"]
        yield make(partition=place, success=success, observed=observed)
