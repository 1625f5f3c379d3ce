"""The validate step: run the checks on the staged rows, store the results, and decide."""

from __future__ import annotations

import importlib
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import ChecksCrashedError, FencedError, name_ranges
from penstock.ledger.check_result import count_warnings, keep_sums, lock_load
from penstock.ledger.connection import Connection, connect
from penstock.ledger.incident import end_incidents, see_incident
from penstock.ledger.load import hold_load, pass_checks, read_load, record_checks
from penstock.model.checks import describe_figures
from penstock.model.incident import OF_LOAD, IncidentKind, Sighting, key_of_load
from penstock.target.postgres.attempt import attempt_table, revoke_checks
from penstock.target.postgres.rows import hash_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.load import CheckResult, Load
    from penstock.quality.suite import Checked

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a load. `cause` is the reason for which the load is held; `summary` is one line for a person."""

    load: Load
    attempt: int
    passed: bool
    cause: str | None
    warnings: int
    summary: str


def import_ahead() -> threading.Thread:
    """Import Great Expectations in the background, for a process that waits for something else before it validates."""
    thread = threading.Thread(target=importlib.import_module, args=("penstock.quality.suite",), daemon=True)
    thread.start()
    return thread


def validate_load(
    db_uri: str, load_id: int, checker_uri: str | None = None, kafka: Mapping[str, str] | None = None
) -> Verdict:
    """Validate a staged load: rules move rows to the quarantine, then it becomes validated or held.

    An earlier decision stays. The checks run by the login of `checker_uri`. Without it, the loader's session sets their
    role. `kafka` is needed to read the records of rows that fail a rule.
    """
    with connect(db_uri) as connection:
        load = read_load(connection, load_id)
        decided = find_verdict(connection, load)
    verdict = decided or _check(db_uri, load, checker_uri, kafka)
    log.log(logging.INFO if verdict.passed else logging.ERROR, verdict.summary)
    return verdict


def _check(db_uri: str, load: Load, checker_uri: str | None, kafka: Mapping[str, str] | None) -> Verdict:
    from penstock.quality.rules import apply_rules
    from penstock.quality.suite import check_load

    try:
        ruled = apply_rules(db_uri, kafka, load, checker_uri)
        checked = check_load(db_uri, load, checker_uri)
    except ChecksCrashedError:
        with connect(db_uri) as connection:
            current = read_load(connection, load.load_id)
            if (current.state, current.attempt) == (load.state, load.attempt):
                revoke_checks(connection, load)
                connection.commit()
                raise
            # Another process has changed the load's state, and moved its table.
            return _find_other_verdict(connection, current, load)
    with connect(db_uri) as connection:
        return decide(connection, load, replace(checked, results=[*ruled, *checked.results]))


def find_verdict(connection: Connection, load: Load) -> Verdict | None:
    """Find the verdict on a load that is decided already; None for a staged load, an error for any other."""
    if load.state == "staged":
        return None
    if load.state == "held":
        return Verdict(load, load.attempt, passed=False, cause=load.cause, warnings=0, summary=_describe_held(load))
    if load.state in ("validated", "published"):
        count = count_warnings(connection, load.load_id)
        summary = f"{load.pipeline}: load {load.load_id} is {load.state} already; it stays."
        return Verdict(load, load.attempt, passed=True, cause=None, warnings=count, summary=summary)
    raise FencedError(
        f"the load is {load.state}, not staged, so it cannot be validated.",
        pipeline=load.pipeline,
        load=load.load_id,
        ranges=load.ranges,
        next_step=advice.SEE_CURRENT_LOAD,
    )


def decide(connection: Connection, load: Load, checked: Checked) -> Verdict:
    """Store the results and change the load's state, in the caller's transaction, unless another process was faster."""
    lock_load(connection, load.load_id)
    current = read_load(connection, load.load_id)
    if current.state != "staged" or current.attempt != load.attempt:
        return _find_other_verdict(connection, current, load)
    results = checked.results
    # The checks of all pipelines run as one role, and must not read the rows of another pipeline's held load.
    revoke_checks(connection, load)
    record_checks(connection, load, results)
    staged = attempt_table(load.load_id, load.attempt)
    keep_sums(connection, load.load_id, checked.sums, staged, hash_row(load.declaration))
    cause = describe_failures(results)
    warned = [result for result in _failed_checks(results) if result.severity == "warning"]
    if load.kind == "live":
        _see_warnings(connection, load, warned)
    elif warned:
        _see_warnings_of_range(connection, load, warned)
    if cause is None:
        pass_checks(connection, load)
    else:
        hold_load(connection, load, cause)
    settled = read_load(connection, load.load_id)
    summary = _describe_held(settled) if cause else _describe_passed(settled, len(results), warned)
    return Verdict(settled, load.attempt, passed=cause is None, cause=cause, warnings=len(warned), summary=summary)


def _see_warnings(connection: Connection, load: Load, warned: Sequence[CheckResult]) -> None:
    """Record one incident for each check that warns, and end those of the checks that no longer warn."""
    failed: dict[str, list[CheckResult]] = {}
    for result in warned:
        # Two checks of one expectation with other arguments are two incidents: each ends when it passes.
        check = (result.expectation, result.column, result.check_id)
        failed.setdefault(" ".join(filter(None, check)), []).append(result)
    for key, results in failed.items():
        message = name_ranges([describe_result(result) for result in results])
        sighting = Sighting(
            load.pipeline, IncidentKind.FAILED_CHECK, key, message, advice.SEE_WARNINGS, load.load_id, load.ranges
        )
        see_incident(connection, sighting, load.declaration.alerts)
    why = f"load {load.load_id} passes the check"
    kinds = [IncidentKind.FAILED_CHECK]
    end_incidents(
        connection,
        load.pipeline,
        kinds,
        None,
        by="penstock",
        why=why,
        except_keys=list(failed),
        except_prefix=OF_LOAD,
    )


def _see_warnings_of_range(connection: Connection, load: Load, warned: Sequence[CheckResult]) -> None:
    """Record the warnings of a load that no later load repeats as one incident, which ends with the load."""
    message = name_ranges([describe_result(result) for result in warned])
    key = key_of_load(load.load_id)
    sighting = Sighting(
        load.pipeline, IncidentKind.FAILED_CHECK, key, message, advice.SEE_WARNINGS, load.load_id, load.ranges
    )
    see_incident(connection, sighting, load.declaration.alerts)


def _find_other_verdict(connection: Connection, current: Load, checked: Load) -> Verdict:
    found = find_verdict(connection, current) if current.attempt == checked.attempt else None
    if found is None:
        raise FencedError(
            f"attempt {checked.attempt} was checked, but attempt {current.attempt} is current now.",
            pipeline=checked.pipeline,
            load=checked.load_id,
            next_step=advice.WAIT_FOR_OTHER_PROCESS,
        )
    return found


def _failed_checks(results: Sequence[CheckResult]) -> list[CheckResult]:
    """List the failures. A declared check that judges partitions has a result for the load, which stands for all."""
    return [each for each in results if not each.success and (each.kind != "declared" or each.partition is None)]


def describe_failures(results: Sequence[CheckResult]) -> str | None:
    """Describe in one line the first check that holds the load; None if no check does."""
    failed = [result for result in _failed_checks(results) if result.severity == "error"]
    if not failed:
        return None
    more = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
    return f"{describe_result(failed[0])}{more}"


def describe_result(result: CheckResult) -> str:
    """Describe in one line the figures that an expectation observed."""
    where = f" partition {result.partition}" if result.partition is not None else ""
    column = f" column {result.column}" if result.column else ""
    suite = f" of the suite {result.suite}" if result.suite else ""
    kind = "rule " if result.kind == "rule" else ""
    return f"{kind}{result.expectation}{column}{suite}{where}: {describe_figures(result.observed)}"


def _describe_held(load: Load) -> str:
    return f"{load.pipeline}: load {load.load_id} is held: {load.cause}"


def _describe_passed(load: Load, checks: int, warned: Sequence[CheckResult]) -> str:
    summary = f"{load.pipeline}: load {load.load_id} validated, {checks} checks"
    warnings = "; ".join(map(describe_result, warned))
    return f"{summary}, {len(warned)} warnings: {warnings}" if warned else summary
