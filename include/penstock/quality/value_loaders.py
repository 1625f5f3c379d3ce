"""The values that the checks read: each value of PostgreSQL becomes a value of Python, so that none crashes a check.

PostgreSQL holds moments, times, intervals and documents that Python's types cannot hold. psycopg raises an error for
them, and Great Expectations would report the error as a crash of every check of the column.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg.types import datetime as readers
from psycopg.types.string import TextLoader

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext, Buffer, Loader


class DistantMoment(datetime):
    """A moment before the year 1 or after the year 9999, or an infinity.

    It is less or greater than every moment of Python, and equal to itself only: a moment at the end of Python's range
    would be equal to a value of a set. Where Great Expectations makes a text of it (the least and the greatest value of
    a column), the text is the end of Python's range, because its reader of texts knows no other.
    """

    place: tuple[float, str]

    @classmethod
    def read(cls, text: str, zone: tzinfo | None) -> Self:
        """Read a moment as PostgreSQL writes it: `infinity`, `20000-01-01 00:00:00`, `0044-03-15 BC`."""
        year = float(text) if text.endswith("infinity") else float(text.partition("-")[0])
        if text.endswith("BC"):
            year = -year
        moment = cls(9999, 12, 31, 23, 59, 59, 999_999, zone) if year > 0 else cls(1, 1, 1, tzinfo=zone)
        moment.place = (year, text)
        return moment

    def _compare(self, other: object) -> int:
        """Compare with any moment: -1, 0 or 1."""
        if not isinstance(other, DistantMoment):
            return 1 if self.place[0] > 0 else -1
        return (self.place > other.place) - (self.place < other.place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, date) and self._compare(other) == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.place)

    def __lt__(self, other: date) -> bool:
        return self._compare(other) < 0

    def __le__(self, other: date) -> bool:
        return self._compare(other) <= 0

    def __gt__(self, other: date) -> bool:
        return self._compare(other) > 0

    def __ge__(self, other: date) -> bool:
        return self._compare(other) >= 0

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        return DistantMoment.read, (self.place[1], self.tzinfo)


def _moments(base: type[Loader], zone: tzinfo | None) -> type[Loader]:
    """Extend a loader of psycopg: a moment beyond Python's range becomes a DistantMoment."""

    def load(self: Any, data: Buffer) -> Any:  # noqa: ANN401 - psycopg has a loader for each type
        try:
            return base.load(self, data)
        except psycopg.Error:  # for its message psycopg looks at the connection, which may be closed
            return DistantMoment.read(bytes(data).decode(), zone)

    return type(f"Every{base.__name__}", (base,), {"load": load})


def _or_text(base: type[Loader]) -> type[Loader]:
    """Extend a loader of psycopg: a value that Python cannot hold, such as the time 24:00, stays a text."""

    def load(self: Any, data: Buffer) -> Any:  # noqa: ANN401 - psycopg has a loader for each type
        try:
            return base.load(self, data)
        except psycopg.Error:
            return bytes(data).decode()

    return type(f"Every{base.__name__}", (base,), {"load": load})


LOADERS: dict[str, type[Loader]] = {
    "date": _moments(readers.DateLoader, None),
    "timestamp": _moments(readers.TimestampLoader, None),
    "timestamptz": _moments(readers.TimestamptzLoader, UTC),
    "time": _or_text(readers.TimeLoader),
    "timetz": _or_text(readers.TimetzLoader),
    "interval": _or_text(readers.IntervalLoader),
    # Python reads no whole number of more than 4,300 digits from JSON, and no check compares parts of a document.
    "json": TextLoader,
    "jsonb": TextLoader,
}


def read_every_value(context: AdaptContext) -> None:
    """Make a connection read every value of PostgreSQL."""
    for name, loader in LOADERS.items():
        context.adapters.register_loader(name, loader)
