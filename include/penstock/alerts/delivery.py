"""Delivery of messages by apprise, to mail, Slack, webhooks and other receivers. No receiver fails or delays a load."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import WrongUseError, name_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from apprise import NotifyBase

    from penstock.alerts.message import Message

log = logging.getLogger(__name__)
# These loggers log the addresses of receivers, and the tokens in them.
LOGGERS_WITH_ADDRESSES = ("apprise", "urllib3.connectionpool", "requests")


def send_message(urls: Sequence[str], message: Message, seconds: float = 10) -> str | None:
    """Send a message to all targets in parallel; return None if at least one took it, or else the reason.

    It never raises, and returns after `seconds` at the latest: each target has a daemon thread, and a process ends
    without waiting for its daemon threads.
    """
    services = [_open_service(url) for url in urls]
    delivered: list[bool | None] = [None] * len(urls)

    def deliver(place: int) -> None:
        delivered[place] = _deliver(services[place], message)

    deadline = time.monotonic() + seconds
    threads = [_start(deliver, place) for place in range(len(urls))]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    taken = list(delivered)
    reasons = []
    for place, (url, arrived) in enumerate(zip(urls, taken, strict=True), start=1):
        if not arrived:
            reason = f"no answer in {seconds:.3g} s" if arrived is None else "refused, or not reached"
            reasons.append(f"target {place} of {len(urls)} ({_name_service(url)}): {reason}")
            log.warning("the alert was not delivered to %s", reasons[-1])
    if any(taken):
        return None
    return name_ranges(reasons) or "the connection names no target"


def _start(work: Callable[[int], None], place: int) -> threading.Thread:
    thread = threading.Thread(target=work, args=(place,), name=f"penstock-alert-{place}", daemon=True)
    thread.start()
    return thread


def _open_service(url: str) -> NotifyBase | None:
    """Make apprise's service of a URL; None if apprise refuses it. The import of apprise warns of deprecations."""
    try:
        with warnings.catch_warnings(action="ignore"), _hiding_addresses():
            import apprise

            return apprise.Apprise.instantiate(url, suppress_exceptions=True)
    except Exception as error:
        log.warning("apprise refused a target (%s): %s", _name_service(url), type(error).__name__)
        return None


def _deliver(service: NotifyBase | None, message: Message) -> bool:
    try:
        with _hiding_addresses():
            # Not by an Apprise object: its worker threads would keep the process from ending.
            return bool(service and service.notify(body=message.body, title=message.title, notify_type=message.type))
    except Exception as error:  # a receiver never fails a load
        # The text of the error may hold the address, and the address holds a token.
        log.warning("sending an alert raised %s", type(error).__name__)
        return False


_sending: ContextVar[bool] = ContextVar("an alert is being sent", default=False)


class _AddressFilter(logging.Filter):
    """Drops the records of a logger while an alert is sent in the same context: they may hold its address."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not _sending.get()


_FILTER = _AddressFilter()


@contextmanager
def _hiding_addresses() -> Iterator[None]:
    for name in LOGGERS_WITH_ADDRESSES:
        logging.getLogger(name).addFilter(_FILTER)  # a second time changes nothing
    token = _sending.set(True)
    try:
        yield
    finally:
        _sending.reset(token)


def _name_service(url: str) -> str:
    """The kind of service: the only part of an apprise URL that is not secret."""
    scheme, separator, _ = url.partition("://")
    return scheme if separator and scheme.isalnum() else "not an apprise URL"


def read_alert_targets(
    password: str | None = None, host: str | None = None, extra: Mapping[str, Any] | None = None
) -> list[str]:
    """Read the apprise URLs from the fields of an Airflow connection; an empty list if it has none.

    The password, which Airflow hides, holds them, separated by blanks or lines; or `urls` of the extra (a list, or text
    like the password); or, for a single URL, the host.
    """
    given = (extra or {}).get("urls") or ()
    named = given.split() if isinstance(given, str) else [str(url).strip() for url in given]
    found = [*(password or "").split(), *named, *(part for part in (host or "").split() if "://" in part)]
    invalid = [place for place, url in enumerate(found, start=1) if "://" not in url]
    if invalid:
        raise WrongUseError(
            f"target {invalid[0]} of the alerts' connection is not an apprise URL.",
            next_step=advice.WRITE_ALERT_TARGET,
        )
    return list(dict.fromkeys(found))
