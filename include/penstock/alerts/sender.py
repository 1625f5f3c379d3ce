"""The sender of the outbox: every process that ends a step, and the DAG penstock_notices, sends what is due.

A change of state writes its notices into the outbox, in its own transaction, so no notice is lost with the process that
caused it. The sender leases notices, commits, sends them, and then records that they were sent:
- two senders never lease the same notice at the same time;
- a receiver that does not answer delays this process for seconds, and no other process at all, because no lock is held;
- a notice that no receiver took is tried again by any later sender, with growing pauses, until one takes it;
- a process that dies between sending and recording lets the lease run out: then the notice is sent a second time. The
  number of the incident in the text shows a person that it is the same one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

import psycopg

from penstock.alerts.delivery import send_message
from penstock.alerts.message import write_digest, write_notice
from penstock.errors import PenstockError
from penstock.ledger.connection import connect
from penstock.ledger.incident import (
    claim_notices,
    find_due_routes,
    finish_notices,
    postpone_notices,
    return_notices,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.connection import Connection
    from penstock.ledger.incident import Notice

log = logging.getLogger(__name__)

# The receivers of a route, as apprise URLs; None if this process does not know the route, and another one may.
FindUrls = Callable[[str], "list[str] | None"]

# One receiver gets this long. All receivers of one call together get twice as long, which is far below the lease.
SECONDS_EACH = 5.0
MOST = 20
MOST_CALLS = 20


def send_due(db: str, find_urls: FindUrls, seconds: float = 2 * SECONDS_EACH, most: int = MOST) -> int:
    """Send the notices that are due now; return how many were sent. Never raises, and ends after `seconds`."""
    deadline = time.monotonic() + seconds
    try:
        with connect(db) as connection:
            found = {route: _find(find_urls, route) for route in find_due_routes(connection)}
            urls = {route: each for route, each in found.items() if each is not None}
            notices = claim_notices(connection, list(urls), most) if urls else []
            connection.commit()
            by_route = [list(each) for _, each in groupby(sorted(notices, key=_get_route), _get_route)]
            # Receivers that did not take a notice before come last: they may use up the time.
            by_route.sort(key=lambda each: max(notice.attempts for notice in each))
            return sum(_send_route(connection, each, urls[each[0].route], deadline) for each in by_route)
    except (psycopg.Error, PenstockError) as error:
        log.warning("the notices that are due were not sent: %s", type(error).__name__)
        return 0


def send_all(db: str, find_urls: FindUrls) -> int:
    """Send everything that is due, in calls that each end within a lease; return how many were sent. Never raises."""
    sent = 0
    for _ in range(MOST_CALLS):
        now = send_due(db, find_urls, SECONDS_EACH * 6, MOST)
        sent += now
        if not now:
            break
    return sent


def _find(find_urls: FindUrls, route: str) -> list[str] | PenstockError | None:
    try:
        return find_urls(route)
    except PenstockError as error:
        return error


def _get_route(notice: Notice) -> str:
    return notice.route


def _send_route(
    connection: Connection, notices: Sequence[Notice], urls: list[str] | PenstockError, deadline: float
) -> int:
    """Send the notices of one route. After a message that no receiver took, the others wait for a later sender."""
    sent = 0
    groups = _group(notices)
    for place, group in enumerate(groups):
        ids = [notice.notice_id for notice in group]
        if deadline <= time.monotonic():
            return_notices(connection, [notice.notice_id for rest in groups[place:] for notice in rest])
            connection.commit()
            break
        error = _send(group, urls, deadline)
        if error is None:
            finish_notices(connection, ids)
            sent += len(ids)
            log.info("sent to %s: %s", group[0].route, _name(group))
        else:
            log.warning("not sent to %s: %s: %s", group[0].route, _name(group), error)
            postpone_notices(connection, ids, error)
            return_notices(connection, [notice.notice_id for rest in groups[place + 1 :] for notice in rest])
        connection.commit()
        if error is not None:
            break
    return sent


def _group(notices: Sequence[Notice]) -> list[list[Notice]]:
    """Each notice is a message of its own, except those of a digest."""
    digest = [notice for notice in notices if notice.notice == "digest"]
    return [*([notice] for notice in notices if notice.notice != "digest"), *([digest] if digest else [])]


def _send(group: Sequence[Notice], urls: list[str] | PenstockError, deadline: float) -> str | None:
    if isinstance(urls, PenstockError):
        return urls.what
    left = max(0.0, deadline - time.monotonic())
    message = write_digest(group) if group[0].notice == "digest" else write_notice(group[0])
    return send_message(urls, message, min(SECONDS_EACH, left))


def _name(group: Sequence[Notice]) -> str:
    first = group[0]
    return f"{first.notice} of incident {first.incident_id}" if len(group) == 1 else f"{first.notice} of {len(group)}"
