"""The emission of events after a publish or a rollback. It changes no outcome, and an error is one line in the log."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.errors import PenstockError
from penstock.ledger.connection import explain
from penstock.lineage.facts import read_moved, read_published

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.lineage.facts import Moved, Parent, Published
    from penstock.model.load import Load
    from penstock.model.ranges import Range
    from penstock.settings import Settings

log = logging.getLogger(__name__)

# By default the client of OpenLineage repeats a request five times, each with a time limit of five seconds.
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where events go: the namespace of Penstock's jobs, the call that sends an event, and the run that publishes."""

    namespace: str
    send: Callable[[Any], object]
    parent: Parent | None = None


def emit_lineage(settings: Settings, load_id: int) -> None:
    """Emit to the receiver that the variables OPENLINEAGE_… name, if they name one; the client reads them itself."""
    namespace = settings.lineage
    if namespace is not None:
        emit_published(settings.db, settings.kafka, load_id, lambda: make_receiver(namespace))


def emit_lineage_of_move(settings: Settings, load: Load, ranges: Sequence[Range]) -> None:
    """Emit the events of a rollback, or of its undo, that has moved these ranges, to the same receiver."""
    namespace = settings.lineage
    if namespace is not None:
        emit_moved(settings.db, load, ranges, lambda: make_receiver(namespace))


def make_receiver(namespace: str) -> Receiver:
    """Make a receiver by the environment of this process."""
    from openlineage.client import OpenLineageClient

    return Receiver(namespace, OpenLineageClient().emit)


def emit_published(uri: str, kafka: Mapping[str, str], load_id: int, connect: Callable[[], Receiver]) -> None:
    """Emit the events of a load, if it is published. Never raises, and ends after a bounded time."""
    _emit(load_id, lambda: read_published(uri, kafka, load_id), connect)


def emit_moved(uri: str, load: Load, ranges: Sequence[Range], connect: Callable[[], Receiver]) -> None:
    """Emit the events of a rollback or of its undo, if it has moved something. Never raises, and ends as soon."""
    if ranges:
        _emit(load.load_id, lambda: read_moved(uri, load, ranges), connect)


def _emit(load_id: int, read: Callable[[], Published | Moved | None], connect: Callable[[], Receiver]) -> None:
    try:
        facts = read()
    except PenstockError as error:
        _warn(load_id, error.what)
        return
    except psycopg.Error as error:
        _warn(load_id, explain(error).what)
        return
    if facts is None:
        return
    try:
        from penstock.lineage.event import make_events

        receiver = connect()
        events = make_events(facts, receiver.namespace, receiver.parent)
    except ModuleNotFoundError as error:
        _warn(load_id, f"the package {error.name} is missing. Next: `pip install 'penstock[lineage]'`")
        return
    except Exception as error:  # the client raises anything for its configuration
        _warn(load_id, _describe(error))
        return
    failure = _send(receiver, events)
    if failure:
        _warn(load_id, failure)


def _send(receiver: Receiver, events: Sequence[Any]) -> str | None:
    """Send in a thread of its own, because a client has no time limit over all of its repetitions."""
    failed: list[str] = []

    def send() -> None:
        try:
            for event in events:
                receiver.send(event)
        except Exception as error:  # transports raise anything, and none of it may stop a load
            failed.append(_describe(error))

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(SECONDS)
    if sender.is_alive():
        return f"no answer came in {SECONDS:g} s"
    return failed[0] if failed else None


def _describe(error: Exception) -> str:
    """Describe an error without its text, which may quote the receiver's URL with a login."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"{type(error).__name__}, HTTP status {status}" if status else type(error).__name__


def _warn(load_id: int, why: str) -> None:
    log.warning("no lineage of load %s was sent: %s.", load_id, why.rstrip("."))
