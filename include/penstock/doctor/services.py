"""Checks whether the services fit the declarations: topics, isolation, targets, rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from penstock.declaration.mistakes import clip
from penstock.errors import DeclarationError, KafkaError, PenstockError, RuleCrashedError, WrongUseError
from penstock.kafka.admin import read_log
from penstock.ledger.check_result import try_regex
from penstock.ledger.connection import connect
from penstock.ledger.decision import autocommitting
from penstock.ledger.migration import compare_migrations
from penstock.ledger.roles import GIVE_ROLES, read_own_role
from penstock.load.results.examination import examine_result
from penstock.target.postgres.preparation import examine_target, find_missing_rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked property of a service."""

    pipeline: str
    what: str
    fits: bool
    told: str


def check_services(settings: Settings, pipelines: Sequence[Pipeline]) -> list[Finding]:
    """Check everything that a load needs, without changes. No transaction is open while Kafka is asked."""
    with connect(settings.db) as connection, autocommitting(connection):
        ledger = _check_ledger(connection)
        roles = list(_check_role(connection))
        found = [
            finding
            for pipeline in pipelines
            for finding in (
                _check_topic(settings.kafka, pipeline),
                # The check of a target reads the ledger, so the ledger must be usable.
                *(_check_target(connection, pipeline) if ledger.fits else ()),
                *_check_regexes(connection, pipeline),
            )
        ]
    checker = check_checker(settings.db, settings.db_checker, pipelines)
    rules = list(_check_rules(settings, pipelines)) if checker.fits else []
    return [ledger, *roles, checker, *found, *rules]


def check_checker(db: str, checker: str | None, pipelines: Sequence[Pipeline]) -> Finding:
    """Check the login and the role of the checks, and that they may only read."""
    from penstock.quality.checker import choose_access, find_strength

    try:
        with connect(db) as connection:
            access = choose_access(connection, db, checker)
        with connect(access.db) as connection:
            schemas = sorted({pipeline.target.schema_name for pipeline in pipelines})
            fault = find_strength(connection, access, schemas)
    except PenstockError as error:
        return Finding("-", "role of the checks", fits=False, told=error.what)
    message = f"{fault[0]}: {fault[1]}" if fault else access.describe()
    return Finding("-", "role of the checks", fits=fault is None, told=message)


def _check_rules(settings: Settings, pipelines: Sequence[Pipeline]) -> Iterator[Finding]:
    """Run each rule on no row, as the role of the checks: a rule is SQL of a declaration."""
    from penstock.quality.checker import choose_access, open_checker
    from penstock.quality.rules import try_rule

    ruled = [pipeline for pipeline in pipelines if pipeline.rules]
    if not ruled:
        return
    with connect(settings.db) as connection:
        access = choose_access(connection, settings.db, settings.db_checker)
    with open_checker(access, timeout_minutes=1) as connection:
        for pipeline in ruled:
            for place, rule in enumerate(pipeline.rules):
                try:
                    try_rule(connection, pipeline, rule)
                except RuleCrashedError as error:
                    yield Finding(pipeline.name, f"rules[{place}] {rule.name}", fits=False, told=error.what)
                connection.rollback()


def _check_ledger(connection: Connection) -> Finding:
    try:
        difference = compare_migrations(connection)
        difference.refuse()
    except WrongUseError as error:
        return Finding("-", "ledger", fits=False, told=error.what)
    missing = difference.missing
    message = f"{', '.join(missing)} missing: run `penstock migrate`" if missing else "up to date"
    return Finding("-", "ledger", not missing, message)


def _check_role(connection: Connection) -> Iterator[Finding]:
    role = read_own_role(connection)
    name = f"{role.name} is a superuser, which no load needs: {GIVE_ROLES}" if role.is_superuser else role.name
    yield Finding("-", "role of PENSTOCK_DB", fits=True, told=name)
    right = (
        "maintenance sees older snapshots" if role.sees_snapshots else f"leaves are not merged: {role.grant_of_stats}"
    )
    yield Finding("-", "right to see snapshots", fits=role.sees_snapshots, told=right)


def _check_topic(kafka: Mapping[str, str], pipeline: Pipeline) -> Finding:
    try:
        log = read_log(kafka, pipeline.topic, pipeline.isolation)
    except KafkaError as error:
        return Finding(pipeline.name, f"topic {pipeline.topic}", fits=False, told=error.what)
    offsets = sum(partition.end - partition.start for partition in log.partitions.values())
    message = f"{len(log.partitions)} partitions, {offsets} offsets at {pipeline.isolation}, id {log.topic_id}"
    return Finding(pipeline.name, f"topic {pipeline.topic}", fits=True, told=message)


def _check_regexes(connection: Connection, pipeline: Pipeline) -> Iterator[Finding]:
    """Let PostgreSQL parse the regular expressions of the checks, because its dialect differs from Python's."""
    for place, check in enumerate(pipeline.checks):
        regexes = [check.arguments.get("regex"), *(check.arguments.get("regex_list") or ())]
        for regex in filter(None, regexes):
            try:
                try_regex(connection, regex)
            except psycopg.errors.DataError as error:
                message = f"{clip(regex)}: {error.diag.message_primary}"
                yield Finding(pipeline.name, f"checks[{place}] {check.expect}", fits=False, told=message)


def _check_target(connection: Connection, pipeline: Pipeline) -> Iterator[Finding]:
    what = f"target {pipeline.target}"
    try:
        examined = examine_target(connection, pipeline)
    except DeclarationError as error:
        yield Finding(pipeline.name, what, fits=False, told=f"{error.what} Next: {error.next_step}")
        return
    message = "exists and fits" if examined.exists else "will be created"
    if examined.missing_columns:
        message = f"exists; {', '.join(examined.missing_columns)} will be added"
    yield Finding(pipeline.name, what, fits=True, told=message)
    yield _check_rights(connection, pipeline)
    for result in pipeline.results:
        yield _check_result(connection, pipeline, result)


def _check_result(connection: Connection, pipeline: Pipeline, result: Result) -> Finding:
    what = f"result {result.table}"
    try:
        return Finding(pipeline.name, what, fits=True, told=examine_result(connection, pipeline, result))
    except DeclarationError as error:
        return Finding(pipeline.name, what, fits=False, told=f"{error.what} Next: {error.next_step}")


def _check_rights(connection: Connection, pipeline: Pipeline) -> Finding:
    missing = find_missing_rights(connection, pipeline)
    message = f"the role may not {' nor '.join(missing)}" if missing else "the role may create and attach"
    return Finding(pipeline.name, f"rights on {pipeline.target}", not missing, message)
