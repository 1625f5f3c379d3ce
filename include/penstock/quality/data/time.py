"""The timestamps of records: against the time of the load, and against each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.declaration.durations import parse_duration
from penstock.quality.data.base import DataExpectation, RecordExpectation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.quality.data.base import Finding
    from penstock.quality.data.batch import DataBatch


class ExpectRecordTimeNear(RecordExpectation):
    """The timestamp of each record is near the time of the load: at most `max_ahead` later, `max_behind` earlier.

    With `max_disorder`, a timestamp is also at most that much earlier than the latest timestamp before it in its
    partition. A topic with `message.timestamp.type=LogAppendTime` has the broker's times, which hardly ever fall; with
    `CreateTime` they are the producers' clocks. `at` is the time of the load; without it, the moment of the query.
    """

    max_ahead: str | None = None
    max_behind: str | None = None
    max_disorder: str | None = None
    at: str | None = None

    kinds: ClassVar = {
        "ahead": ("worst_ahead_seconds", None),
        "behind": ("worst_behind_seconds", None),
        "disordered": ("worst_disorder_seconds", None),
    }
    sentence: ClassVar[str] = "Timestamps of records must be near the time of the load."

    def find(self, batch: DataBatch) -> str:
        """Compare each timestamp with the load's, and with the latest one before it."""
        at = "current_timestamp" if self.at is None else batch.moment(self.at)
        latest = (
            "max(_timestamp) over (partition by _partition order by _offset"
            " rows between unbounded preceding and 1 preceding)"
        )
        before = f", {latest} as reached" if self.max_disorder else ""
        timed = (
            f"timed as (select _partition, _offset, _timestamp{before} from {batch.table} where _timestamp is not null)"
        )
        faults = [
            _select(kind, batch.seconds(later, earlier), limit)
            for kind, later, earlier, limit in (
                ("ahead", "_timestamp", at, self.max_ahead),
                ("behind", at, "_timestamp", self.max_behind),
                ("disordered", "reached", "_timestamp", self.max_disorder),
            )
            if limit is not None
        ]
        return f"{timed}, found as ({' union all '.join(faults)})"


def _select(kind: str, seconds: str, limit: str) -> str:
    allowed = f"{parse_duration(limit).total_seconds():.0f}"
    return (
        f"select _partition, _offset, '{kind}' as kind, {seconds} as size, cast(null as int) as other_partition,"
        f" cast(null as bigint) as other_offset from timed where {seconds} > {allowed}"
    )


class ExpectFresh(DataExpectation):
    """The newest record of the batch is at most `within` old, at the time `at`; without it, at this moment.

    A batch without timestamps has no age, and passes.
    """

    within: str
    at: str | None = None

    sentence: ClassVar[str] = "The newest record must be at most $within old."

    def write_query(self, batch: DataBatch) -> str:
        """Find the newest record."""
        return f"select max(_timestamp) as newest from {batch.table}"

    def judge(self, found: Sequence[Finding]) -> dict[str, Any]:
        """Compare its age with the limit."""
        [row] = found
        if row["newest"] is None:
            return {"success": True, "result": {"observed_value": "no timestamps", "details": {"observed": {}}}}
        newest: datetime = row["newest"]
        now = datetime.now(UTC) if self.at is None else datetime.fromisoformat(self.at)
        # Spark gives a timestamp without its zone, in the zone of this process.
        age = now - newest.astimezone(UTC)
        observed = {
            "newest": newest.astimezone(UTC).isoformat(),
            "age_seconds": round(max(age, timedelta(0)).total_seconds()),
        }
        fresh = age <= parse_duration(self.within)
        return {"success": fresh, "result": {"observed_value": str(age), "details": {"observed": observed}}}
