"""The phases of one load by Penstock, from the times in its ledger and from the database's log of statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# A line of the log as the embedded stack has it written: %m [%p] %a, then how long the statement took.
LINE = re.compile(
    r"^(?P<day>\d{4}-\d\d-\d\d) (?P<clock>[\d:.]+) UTC \[(?P<pid>\d+)\].*? LOG:  duration: (?P<ms>[\d.]+) ms"
    r"  (?:statement|parse|bind|execute)[^:]*: (?P<text>.*)$"
)
TIMES = """
    select extract(epoch from l.planned_at), extract(epoch from l.staging_at),
           (select extract(epoch from max(t.staged_at)) from penstock.stage_task t where t.load_id = l.load_id),
           extract(epoch from l.validated_at), extract(epoch from l.published_at)
    from penstock.load l where l.state = 'published'
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that PostgreSQL has ended: when it began and ended, in seconds since 1970."""

    pid: int
    began: float
    ended: float
    text: str


def read_log(log: Path, start: int) -> list[Statement]:
    """The statements that the log names from a place on."""
    with log.open("rb") as content:
        content.seek(start)
        lines = content.read().decode(errors="replace").splitlines()
    found = filter(None, map(LINE.match, lines))
    return [_read_line(line) for line in found]


def _read_line(line: re.Match[str]) -> Statement:
    moment = datetime.strptime(f"{line['day']} {line['clock']}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    ended = moment.timestamp()
    return Statement(int(line["pid"]), ended - float(line["ms"]) / 1000, ended, line["text"].strip().lower())


def read_phases(db: str, started_at: float, seconds: float, statements: Sequence[Statement]) -> dict[str, float]:
    """How long each phase took, in seconds; together they are the run. `publish` is within `publishing`."""
    with psycopg.connect(db) as connection:
        row = connection.execute(TIMES).fetchone()
    assert row is not None
    planned, staging, copied, validated, published = map(float, row)
    first_copy = min(statement.began for statement in statements if statement.text.startswith("copy "))
    keyed = max(statement.ended for statement in statements if _builds_key(statement.text))
    begun, committed = find_publish(statements)
    return {
        "start": planned - started_at,
        "plan": staging - planned,
        "spark_start": first_copy - staging,
        "copy": copied - first_copy,
        "key": keyed - copied,
        "validate": validated - keyed,
        "publish": committed - validated,
        "end": started_at + seconds - committed,
        "publish_transaction": committed - min(begun, published),
    }


def _builds_key(text: str) -> bool:
    return "add primary key" in text or text.startswith(("create index", "analyze"))


def find_publish(statements: Sequence[Statement]) -> tuple[float, float]:
    """When the publish transaction began, and when its COMMIT had been answered."""
    attach = next(statement for statement in statements if "attach partition" in statement.text)
    own = [statement for statement in statements if statement.pid == attach.pid]
    place = own.index(attach)
    begun = next(statement for statement in own[place::-1] if statement.text == "begin")
    committed = next(statement for statement in own[place:] if statement.text == "commit")
    return begun.began, committed.ended
