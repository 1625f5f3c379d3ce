"""Rules on staged rows: the rows that fail leave the attempt's table for the quarantine, before the checks run.

The conditions of rules are SQL of the declaration, so they run as the role of the checks, on a connection of their own.
The records of failed rows are read from the log again, because the staged rows do not hold them. Then one transaction
moves the rows and changes the counts. A process that dies before it has moved nothing; the next one begins again.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from penstock import advice
from penstock.errors import RuleCrashedError
from penstock.ledger.connection import Connection, connect
from penstock.ledger.quarantine import count_moved
from penstock.ledger.statements import Statements
from penstock.model.load import CheckResult
from penstock.model.ranges import Range
from penstock.quality.checker import choose_access, grant_reads, name_condition, open_checker, refuse_strong
from penstock.quality.dedupe import apply_dedupe
from penstock.quality.moving import Cause, move_rows
from penstock.quality.predicates import compose_no_rows, judge, write_alone
from penstock.target.postgres.attempt import attempt_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline, Rule
    from penstock.model.load import Load

    Kafka = Mapping[str, str]

log = logging.getLogger(__name__)

_statements = Statements("quality/rules")

Place = tuple[int, int]
MOST_SAMPLES = 10
# Records are set aside in transactions of this many, because no transaction may be open while Kafka is read.
SET_ASIDE_AT_ONCE = 500


@dataclass(slots=True)
class Judged:
    """The rows of an attempt, judged by the rules: counts by the place of the first rule that a row fails."""

    passed: int = 0
    failed: Counter[int] = field(default_factory=Counter)
    # Rows for which a rule cannot be computed: the place of the rule and the words of the server.
    crashed: dict[Place, tuple[int, str]] = field(default_factory=dict)
    # False if there are more such rows than any rule may fail: the other rows are not judged then.
    complete: bool = True

    def count(self, rule: int) -> int:
        """Count the rows that a rule refuses."""
        return self.failed[rule] + sum(found == rule for found, _ in self.crashed.values())


def apply_rules(db: str, kafka: Kafka | None, load: Load, checker: str | None = None) -> list[CheckResult]:
    """Apply the rules of a staged load, then `dedupe`, and return their results.

    A result without success holds the load. If a rule fails more rows than its `hold_above`, no row is moved.
    """
    results = _apply_rules(db, kafka, load, checker)
    return [*results, *(apply_dedupe(db, kafka, load) if all(result.success for result in results) else ())]


def _apply_rules(db: str, kafka: Kafka | None, load: Load, checker: str | None) -> list[CheckResult]:
    rules = load.declaration.rules
    if not rules:
        return []
    with connect(db) as connection:
        access = choose_access(connection, db, checker)
        if access.is_other:
            grant_reads(connection, load)
        moved = count_moved(connection, load)
    refuse_strong(access, load)
    with open_checker(access, load.declaration.timeout_minutes) as checking:
        for rule in rules:
            try_rule(checking, load.declaration, rule, load)
        checking.rollback()
        judged = _judge(checking, load)
        rows = _count_rows(judged, moved)
        results = [
            _decide(load, rule, judged.count(at), moved.get(rule.name, 0), rows) for at, rule in enumerate(rules)
        ]
        if not judged.complete:
            for result in results:
                result.observed["at_least"] = True
        if not all(result.success for result in results):
            return list(_add_samples(checking, load, judged, results))
        places = _list_failed(checking, load, judged, sum(judged.failed.values()))
    if places:
        move_rows(db, kafka, load, {place: _make_cause(rules[at], words) for place, (at, words) in places.items()})
    return results


def try_rule(connection: psycopg.Connection[Any], pipeline: Pipeline, rule: Rule, load: Load | None = None) -> None:
    """Run a rule on no row; RuleCrashedError if it cannot run."""
    pieces = {"judged": judge(pipeline, [rule]), "condition": write_alone(rule), "no_rows": compose_no_rows(pipeline)}
    try:
        for statement in ("try_rule", "try_condition", "try_brackets"):
            _statements.execute(connection, statement, pieces)
    except psycopg.Error as error:
        raise _crashed(rule, pipeline.name, load, error) from error


def _count_rows(judged: Judged, moved: Mapping[str, int]) -> int:
    return judged.passed + judged.failed.total() + len(judged.crashed) + sum(moved.values())


def _decide(load: Load, rule: Rule, failed: int, moved: int, rows: int) -> CheckResult:
    """Compare the failed rows of a load, also those that an earlier process has moved, with the limits of the rule.

    A redrive reads its records from the quarantine, where most of them may belong.
    """
    limit = rule.hold_above
    passes = load.kind == "redrive" or (
        failed + moved <= limit.records and (limit.share is None or failed + moved <= limit.share * rows)
    )
    observed: dict[str, Any] = {"rows": rows, "failed": failed + moved, "hold_above": limit.records}
    if limit.share is not None:
        observed["hold_above_share"] = limit.share
    return CheckResult("rule", rule.name, None, None, "error", passes, observed)


def _judge(checking: Connection, load: Load) -> Judged:
    """Judge all rows in one pass. If a rule cannot be computed for a row, the rows that stop it are found first."""
    judged = Judged()
    try:
        _count_failed(checking, load, judged)
    except psycopg.DataError:
        checking.rollback()
        judged.crashed, judged.complete = _find_crashed(checking, load)
        if judged.complete:
            _count_failed(checking, load, judged)
        else:
            judged.passed = (load.rows or 0) - len(judged.crashed)
    finally:
        checking.rollback()
    return judged


def _count_failed(checking: Connection, load: Load, judged: Judged) -> None:
    pieces = {
        "judged": judge(load.declaration),
        "staged": attempt_table(load.load_id, load.attempt),
    }
    try:
        found = _statements.fetch_all(checking, _make_count, "count_failed", pieces, **_split(judged.crashed))
    except psycopg.Error as error:
        if isinstance(error, psycopg.DataError) and not judged.crashed:
            raise
        raise _crashed(None, load.pipeline, load, error) from error
    judged.passed = sum(rows for rule, rows in found if rule is None)
    judged.failed = Counter({rule: rows for rule, rows in found if rule is not None})


def _find_crashed(checking: Connection, load: Load) -> tuple[dict[Place, tuple[int, str]], bool]:
    """Find the rows for which a rule cannot be computed: a range that fails is halved until it is one row.

    The search ends early, and returns false, when it has found more rows of one rule than this rule may fail: that
    holds the load. A redrive has no limit.
    """
    crashed: dict[Place, tuple[int, str]] = {}
    left = [rule.hold_above.records for rule in load.declaration.rules]
    waiting = sorted(load.ranges, reverse=True)
    while waiting:
        if load.kind != "redrive" and min(left) < 0:
            return crashed, False
        range_ = waiting.pop()
        if _runs(checking, load, range_, load.declaration.rules) is None:
            continue
        if len(range_) > 1:
            middle = range_.from_offset + len(range_) // 2
            waiting.append(Range(range_.partition, middle, range_.until_offset))
            waiting.append(Range(range_.partition, range_.from_offset, middle))
        else:
            at, words = _find_rule(checking, load, range_)
            crashed[range_.partition, range_.from_offset] = (at, words)
            left[at] -= 1
    return crashed, True


def _find_rule(checking: Connection, load: Load, row: Range) -> tuple[int, str]:
    """Find the first rule that a row fails, or that cannot be computed for it, and the words of the server."""
    for at, rule in enumerate(load.declaration.rules):
        message = _runs(checking, load, row, [rule])
        if message is not None:
            return at, message
    raise RuleCrashedError(
        "the rules cannot be computed together for a row, although each of them can.",
        pipeline=load.pipeline,
        load=load.load_id,
        ranges=[row],
        next_step=advice.CORRECT_RULE,
    )


def _runs(checking: Connection, load: Load, range_: Range, rules: Sequence[Rule]) -> str | None:
    """Compute rules for a range; None if that is possible, otherwise the words of the server without values."""
    pieces = {"judged": judge(load.declaration, rules), "staged": attempt_table(load.load_id, load.attempt)}
    where = {"partition": range_.partition, "from_offset": range_.from_offset, "until_offset": range_.until_offset}
    try:
        _statements.execute(checking, "judge_range", pieces, **where)
    except psycopg.DataError as error:
        return name_condition(error)
    except psycopg.Error as error:
        raise _crashed(None, load.pipeline, load, error) from error
    finally:
        checking.rollback()
    return None


def _list_failed(checking: Connection, load: Load, judged: Judged, most: int) -> dict[Place, tuple[int, str | None]]:
    """List rows that fail a rule or cannot be judged: by their places, the rule and the words of the server."""
    pieces = {
        "judged": judge(load.declaration),
        "staged": attempt_table(load.load_id, load.attempt),
    }
    where = {**_split(judged.crashed), "most": most}
    found = _statements.fetch_all(checking, _make_failed, "list_failed", pieces, **where) if most else []
    checking.rollback()
    return {**dict(found), **judged.crashed}


def _add_samples(
    checking: Connection, load: Load, judged: Judged, results: Sequence[CheckResult]
) -> Iterator[CheckResult]:
    """Add some places of failed rows to the results of a load that will be held."""
    places = _list_failed(checking, load, judged, 1_000 if judged.complete else 0)
    for at, result in enumerate(results):
        if not result.success:
            offsets = sorted(place for place, (rule, _) in places.items() if rule == at)[:MOST_SAMPLES]
            result.observed["offsets"] = [list(place) for place in offsets]
        yield result


def _make_cause(rule: Rule, words: str | None) -> Cause:
    """Describe why a row goes to the quarantine, without its values."""
    if words is not None:
        return Cause("rule", f"the rule {rule.name} cannot be computed: {words}", rule.name)
    return Cause("rule", rule.reason or f"the rule {rule.name} is not met: {rule.where or rule.expect}", rule.name)


def _split(crashed: Mapping[Place, object]) -> dict[str, list[int]]:
    return {"partitions": [partition for partition, _ in crashed], "offsets": [offset for _, offset in crashed]}


def _make_count(rule: int | None, rows: int) -> tuple[int | None, int]:
    return rule, rows


def _make_failed(partition: int, offset: int, rule: int) -> tuple[Place, tuple[int, None]]:
    return (partition, offset), (rule, None)


def _crashed(rule: Rule | None, pipeline: str, load: Load | None, error: psycopg.Error) -> RuleCrashedError:
    """Make the error of a rule that cannot run. The cursor of the checks has left out the values of rows."""
    named = f"the rule {rule.name}" if rule else "a rule"
    words = (error.diag.message_primary or str(error)).partition("\n")[0].rstrip(".")
    state = "" if "SQLSTATE" in words else f" (SQLSTATE {error.sqlstate or 'none'})"
    return RuleCrashedError(
        f"{named} cannot run: {words}{state}.",
        pipeline=pipeline,
        load=load.load_id if load else None,
        next_step=advice.CORRECT_RULE,
    )
