"""Times as people write them."""

from __future__ import annotations

from datetime import datetime

from penstock import advice
from penstock.errors import WrongUseError


def read_time(text: str, next_step: str = advice.WRITE_TIME) -> datetime:
    """Read an ISO time with a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUseError(f"{text[:100]!r} is not a time.", next_step=next_step) from error
    return require_zone(moment, next_step)


def require_zone(moment: datetime, next_step: str = advice.WRITE_TIME) -> datetime:
    """Refuse a time without a zone: it means another moment on another machine."""
    if moment.tzinfo is None:
        raise WrongUseError(f"the time {moment.isoformat()} has no time zone.", next_step=next_step)
    return moment
