"""The panels below the loads as documents: quality, quarantine, backfills, incidents and events."""

from __future__ import annotations

import base64
import hmac
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.airflow.page.documents import (
    BackfillEntry,
    Backfills,
    Events,
    HoldEntry,
    IncidentEntry,
    Incidents,
    LossEntry,
    NoticeEntry,
    Payload,
    PreviewRange,
    Quality,
    QualityCheck,
    QualityResult,
    Quarantine,
    QuarantinedRecord,
    QuarantinedRecords,
    QuarantineGroup,
    ResultEntry,
    Results,
)
from penstock.airflow.page.loads import count_pages, describe_event, find_run
from penstock.ledger import panel
from penstock.ledger.incident import list_notices, read_incidents
from penstock.status.quality import read_quality
from penstock.status.results import read_results

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.incident import Incident, ListedNotice
    from penstock.ledger.panel import ListedBackfill, ListedRecord
    from penstock.ledger.quarantine import Quarantined
    from penstock.model.ranges import Range
    from penstock.status.quality import CheckHistory

RECORDS_A_PAGE = EVENTS_A_PAGE = MOST_INCIDENTS = MOST_HOLDS = 50
MOST_NOTICES = 5  # of each incident
HASH_LENGTH = 12
QUALITY_SQL = "select * from penstock.quality_history where pipeline = '{name}' order by load_id desc, ordinal;"
QUARANTINE_SQL = (
    "select reason, rule, count(*) from penstock.quarantined where pipeline = '{name}' group by reason, rule;"
)
RECORDS_SQL = (
    'select load_id, partition, "offset", reason, rule, detail from penstock.quarantined '
    "where pipeline = '{name}' order by load_id desc, partition, \"offset\";"
)
RESULTS_SQL = "select * from penstock.results where pipeline = '{name}' order by \"table\";"
BACKFILLS_SQL = "select * from penstock.backfills where pipeline = '{name}' order by backfill_id desc;"
INCIDENTS_SQL = "select * from penstock.incidents where pipeline = '{name}' order by incident_id desc;"
EVENTS_SQL = "select * from penstock.events where pipeline = '{name}' order by event_id desc;"


def describe_quality(connection: Connection, name: str, last: int, expectation: str | None) -> Quality:
    """Describe the results of the checks on the last loads."""
    found = read_quality(connection, name, last, expectation)
    return Quality(
        pipeline=name,
        loads=list(found.loads),
        checks=[_describe_check(check) for check in found.checks],
        failures=[{"load": each.load_id, **_without(asdict(each), "load_id")} for each in found.failures],
        sql=QUALITY_SQL.format(name=name),
    )


def _describe_check(check: CheckHistory) -> QualityCheck:
    results = [
        QualityResult(
            load=each.load_id,
            load_kind=each.load_kind,
            state=each.state,
            checked_at=each.checked_at,
            success=each.success,
            partitions_failed=each.partitions_failed,
            figure=each.figure,
        )
        for each in check.results
    ]
    return QualityCheck(
        expectation=check.expectation,
        column=check.column,
        suite=check.suite,
        check_id=check.check_id,
        kind=check.kind,
        severity=check.severity,
        failed=check.failed,
        results=results,
    )


def describe_results(connection: Connection, name: str, declared: Pipeline | None) -> Results:
    """Describe the tables that are derived from the rows of a pipeline."""
    found = read_results(connection, name, declared)
    return Results(
        pipeline=name,
        results=[ResultEntry.model_validate(asdict(each) | {"key": list(each.key)}) for each in found],
        sql=RESULTS_SQL.format(name=name),
    )


def describe_quarantine(connection: Connection, name: str, pipeline_id: int | None) -> Quarantine:
    """Describe the quarantine by reason and rule."""
    groups = [] if pipeline_id is None else panel.group_quarantined(connection, pipeline_id)
    return Quarantine(
        records=sum(each["records"] for each in groups),
        groups=[QuarantineGroup(**each) for each in groups],
        sql=QUARANTINE_SQL.format(name=name),
    )


def describe_records(
    connection: Connection, name: str, pipeline_id: int | None, reason: str | None, rule: str | None, page: int,
    secret: bytes,
) -> QuarantinedRecords:  # fmt: skip
    """Describe a page of quarantined records without their contents."""
    found, total = [], 0
    if pipeline_id is not None:
        total = panel.count_quarantined(connection, pipeline_id, reason, rule)
        skip = (page - 1) * RECORDS_A_PAGE
        found = panel.list_quarantined(connection, pipeline_id, reason, rule, most=RECORDS_A_PAGE, skip=skip)
    return QuarantinedRecords(
        page=page,
        pages=count_pages(total, RECORDS_A_PAGE),
        total=total,
        records=[_describe_record(each, secret) for each in found],
        sql=RECORDS_SQL.format(name=name),
    )


def _describe_record(record: ListedRecord, secret: bytes) -> QuarantinedRecord:
    return QuarantinedRecord(
        load=record.load,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        reason=record.reason,
        rule=record.rule,
        detail=record.detail,
        first=None if record.first_offset is None else f"{record.first_partition}:{record.first_offset}",
        dropped_at=record.dropped_at,
        # A plain hash of a customer's number is the number to everybody who can count: a secret of the server is in it.
        key_hash=None if record.key is None else hmac.new(secret, record.key, "sha256").hexdigest()[:HASH_LENGTH],
    )


def describe_payload(name: str, record: Quarantined) -> Payload:
    """Describe the contents of a record; as text where they are UTF-8, otherwise in base64."""
    return Payload(
        pipeline=name,
        load=record.load,
        partition=record.partition,
        offset=record.offset,
        headers=record.headers,
        dropped_at=record.dropped_at,
        **_decode("key", record.key),
        **_decode("value", record.value),
    )


def _decode(name: str, given: bytes | None) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        return {name: given.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(given).decode()}


def describe_backfills(connection: Connection, name: str, pipeline_id: int | None) -> Backfills:
    """Describe the backfills that run, and the last ten."""
    found = [] if pipeline_id is None else panel.list_backfills(connection, pipeline_id)
    return Backfills(backfills=[_describe_backfill(name, each) for each in found], sql=BACKFILLS_SQL.format(name=name))


def _describe_backfill(name: str, found: ListedBackfill) -> BackfillEntry:
    rate = found.offsets_done / found.seconds if found.seconds and found.offsets_done else None
    runs = found.loads_done + found.loads_stopped < found.loads
    known = {field: value for field, value in asdict(found).items() if field in BackfillEntry.model_fields}
    return BackfillEntry(
        **known,
        state="running" if runs else "done" if found.loads == found.loads_done else "stopped",
        offsets_per_second=rate,
        eta_seconds=(found.offsets - found.offsets_done) / rate if rate and runs else None,
        run_link=find_run(name, "backfill", found.run_id),
    )


def describe_incidents(connection: Connection, name: str) -> Incidents:
    """Describe the newest incidents of a pipeline, also those that have ended."""
    found = read_incidents(connection, name, ended=True)[:MOST_INCIDENTS]
    notices = list_notices(connection, [each.incident for each in found], MOST_NOTICES)
    incidents = [
        _describe_incident(each, [notice for notice in notices if notice.incident == each.incident]) for each in found
    ]
    return Incidents(incidents=incidents, sql=INCIDENTS_SQL.format(name=name))


def _describe_incident(found: Incident, notices: list[ListedNotice]) -> IncidentEntry:
    fields = _without(asdict(found), "ranges")
    ranges = [describe_range(each) for each in found.ranges]
    return IncidentEntry(**fields, ranges=ranges, notices=[_describe_notice(each) for each in notices])


def _describe_notice(found: ListedNotice) -> NoticeEntry:
    state = "sent" if found.sent_at else "failing" if found.last_error else "waiting"
    fields = _without(asdict(found), "incident") | {"next_attempt_at": None if found.sent_at else found.next_attempt_at}
    return NoticeEntry.model_validate(fields | {"state": state})


def describe_range(range_: Range, **more: int | None) -> PreviewRange:
    """Describe a range."""
    where = {"from": range_.from_offset, "until": range_.until_offset, "offsets": len(range_)}
    return PreviewRange(partition=range_.partition, **where, **more)


def describe_events(connection: Connection, name: str, pipeline_id: int | None, page: int) -> Events:
    """Describe a page of the events, and the newest losses and holds."""
    if pipeline_id is None:
        return Events(page=1, pages=1, events=[], losses=[], holds=[], sql=EVENTS_SQL.format(name=name))
    events = panel.list_events(connection, pipeline_id, most=EVENTS_A_PAGE, skip=(page - 1) * EVENTS_A_PAGE)
    return Events(
        page=page,
        pages=count_pages(panel.count_events(connection, pipeline_id), EVENTS_A_PAGE),
        events=[describe_event(each) for each in events],
        losses=[LossEntry(**each) for each in panel.list_losses(connection, pipeline_id, MOST_HOLDS)],
        holds=[_describe_hold(name, each) for each in panel.list_holds(connection, pipeline_id, MOST_HOLDS)],
        sql=EVENTS_SQL.format(name=name),
    )


def _describe_hold(name: str, hold: dict[str, Any]) -> HoldEntry:
    return HoldEntry(**hold, next_step=None if hold["ended_at"] else advice.resolve_hold(hold["kind"], name))


def _without(fields: dict[str, Any], left_out: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != left_out}
