"""Incidents and the outbox of their notices, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.incident import FAILURES, HOLDS, IncidentKind, key_of_load
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from penstock.declaration.alerts import Route
    from penstock.declaration.parts import Severity
    from penstock.ledger.connection import Connection
    from penstock.model.incident import Sighting

NoticeKind = Literal["opened", "reminder", "ended", "digest"]

# The daily digest of warnings, as the time since midnight UTC: before the working day of Europe begins.
DIGEST_AT = timedelta(hours=6)
# A process that sends a notice gives up long before.
LEASE = timedelta(minutes=2)

# A list for people is limited; the view has all.
MOST_SHOWN = 200

# A digest is one message, so it must not be split by the limit of notices.
MOST_IN_DIGEST = 10_000

_statements = Statements("ledger/incident")


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that this process has to send, with the facts of its incident."""

    notice_id: int
    notice: NoticeKind
    route: str
    attempts: int
    incident_id: int
    pipeline: str
    kind: IncidentKind
    key: str
    load: int | None
    ranges: tuple[Range, ...]
    message: str
    next_step: str
    link: str | None
    opened_at: datetime
    last_seen_at: datetime
    times_seen: int
    ended_at: datetime | None
    ended_by: str | None
    ended_why: str | None


@dataclass(frozen=True, slots=True)
class ListedNotice:
    """A notice as people see it: what is sent, what waits, and the error of the last attempt."""

    incident: int
    kind: NoticeKind
    route: str
    due_at: datetime
    attempts: int
    next_attempt_at: datetime
    last_error: str | None
    sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class Overdue:
    """A pipeline that has loaded nothing since a moment."""

    pipeline: str
    since: datetime
    age: timedelta


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident, as people see it."""

    incident: int
    pipeline: str
    kind: IncidentKind
    severity: Severity
    state: Literal["open", "muted", "ended"]
    load: int | None
    ranges: tuple[Range, ...]
    message: str
    next_step: str
    link: str | None
    opened_at: datetime
    last_seen_at: datetime
    times_seen: int
    ended_at: datetime | None
    ended_by: str | None
    ended_why: str | None
    muted_until: datetime | None
    muted_by: str | None
    muted_why: str | None


def see_incident(connection: Connection, sighting: Sighting, routes: Sequence[Route]) -> None:
    """Open an incident, with a notice for each route, or count another sighting of the open incident."""
    wanted = {route.to: route for route in routes if route.severity in (None, sighting.severity)}
    _statements.execute(
        connection,
        "see_incident",
        pipeline=sighting.pipeline,
        kind=sighting.kind,
        key=sighting.key,
        severity=sighting.severity,
        load_id=sighting.load,
        ranges=Jsonb([asdict(range_) for range_ in sighting.ranges]),
        message=sighting.message,
        next_step=sighting.next_step,
        link=sighting.link,
        is_over=sighting.is_over,
        digest_at=DIGEST_AT,
        routes=Jsonb([_describe_route(route) for route in wanted.values()]),
    )


def _describe_route(route: Route) -> dict[str, Any]:
    every = route.remind_after
    return {"route": route.to, "remind_seconds": None if every is None else every.total_seconds()}


def end_incidents(
    connection: Connection,
    pipeline: str,
    kinds: Collection[IncidentKind] | None,
    keys: Sequence[str] | None,
    *,
    by: str,
    why: str | None,
    except_keys: Sequence[str] = (),
    except_prefix: str | None = None,
) -> None:
    """End the open incidents of these kinds and keys, with the reason; None means all kinds, or all keys.

    Without a reason an incident of another kind replaces them, and no notice is sent.
    """
    _statements.execute(
        connection,
        "end_incidents",
        pipeline=pipeline,
        kinds=None if kinds is None else [str(kind) for kind in kinds],
        keys=None if keys is None else list(keys),
        except_keys=list(except_keys),
        except_prefix=except_prefix,
        ended_by=by,
        why=why,
    )


def end_load_incidents(connection: Connection, pipeline: str, load_id: int, by: str, why: str) -> None:
    """End the incidents that concern one load, because the load was settled."""
    end_incidents(connection, pipeline, None, [key_of_load(load_id)], by=by, why=why)


def link_incidents(
    connection: Connection,
    pipeline: str,
    kinds: Collection[IncidentKind],
    load_id: int | None,
    link: str,
    next_step: str,
) -> None:
    """Add the link to the run, and the next step that fits there, to the open incidents that have no link."""
    where = {"pipeline": pipeline, "kinds": [str(kind) for kind in kinds], "load_id": load_id}
    _statements.execute(connection, "link_incidents", **where, link=link, next_step=next_step)


def list_notices(connection: Connection, incident_ids: Sequence[int], most: int) -> list[ListedNotice]:
    """Read the newest notices of each of some incidents."""
    where = {"incident_ids": list(incident_ids), "most": most}
    return _statements.fetch_all(connection, ListedNotice, "list_notices", **where)


def read_incidents(connection: Connection, pipeline: str | None, *, ended: bool) -> list[Incident]:
    """Read the newest incidents, of one pipeline or of all."""
    where = {"pipeline": pipeline, "ended": ended, "incident_id": None, "most": MOST_SHOWN}
    return _statements.fetch_all(connection, _make_incident, "read_incidents", **where)


def read_incident(connection: Connection, incident_id: int) -> Incident | None:
    """Read one incident."""
    where = {"pipeline": None, "ended": True, "incident_id": incident_id, "most": 1}
    return _statements.fetch_one(connection, _make_incident, "read_incidents", **where)


def change_mute(connection: Connection, incident_id: int, until: datetime | None, who: str, why: str) -> bool:
    """Mute an open incident until a time, or end its mute; False if there is no open incident of this number."""
    where = {"incident_id": incident_id, "until": until, "who": who, "why": why}
    return _statements.execute(connection, "change_mute", **where) == 1


def find_overdue(connection: Connection, limits: Mapping[str, timedelta]) -> list[Overdue]:
    """Find the pipelines whose last success is longer ago than their limit, and that have no other open trouble."""
    where = {"names": list(limits), "seconds": [limit.total_seconds() for limit in limits.values()]}
    causes = [str(kind) for kind in (IncidentKind.HELD_LOAD, *HOLDS, *FAILURES)]
    return _statements.fetch_all(connection, Overdue, "find_overdue", **where, causes=causes)


def find_due_routes(connection: Connection) -> list[str]:
    """Find the routes that have notices to send now."""
    return _statements.fetch_values(connection, str, "find_due_routes")


def claim_notices(connection: Connection, routes: Sequence[str], most: int) -> list[Notice]:
    """Lease due notices to this process: all digests, and at most `most` others. The caller commits, then sends."""
    where = {"routes": list(routes), "lease": LEASE}
    return [
        *_statements.fetch_all(connection, _make_notice, "claim_notices", **where, digests=False, most=most),
        *_statements.fetch_all(connection, _make_notice, "claim_notices", **where, digests=True, most=MOST_IN_DIGEST),
    ]


def finish_notices(connection: Connection, notice_ids: Sequence[int]) -> None:
    """Record that notices were sent, and schedule the next reminders."""
    _statements.execute(connection, "finish_notices", notice_ids=list(notice_ids), digest_at=DIGEST_AT)


def postpone_notices(connection: Connection, notice_ids: Sequence[int], error: str) -> None:
    """Return notices that no receiver took, with the reason."""
    _statements.execute(connection, "postpone_notices", notice_ids=list(notice_ids), error=error)


def return_notices(connection: Connection, notice_ids: Sequence[int]) -> None:
    """Return notices that were claimed and not tried."""
    _statements.execute(connection, "return_notices", notice_ids=list(notice_ids))


def _make_incident(kind: str, ranges: Sequence[Mapping[str, int]], **columns: Any) -> Incident:  # noqa: ANN401
    return Incident(kind=IncidentKind(kind), ranges=tuple(Range(**each) for each in ranges), **columns)


def _make_notice(kind: str, ranges: Sequence[Mapping[str, int]], **columns: Any) -> Notice:  # noqa: ANN401
    return Notice(kind=IncidentKind(kind), ranges=tuple(Range(**each) for each in ranges), **columns)
