"""Why a record cannot become a row, and the record itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from penstock.model.records import Batch, Headers

# Every reason has a line in docs/reference/poison.md.
Reason = Literal[
    "bad_json",
    "bad_timestamp",
    "bad_utf8",
    "duplicate",
    "missing_required",
    "nul_byte",
    "null_value",
    "out_of_range",
    "refused_by_database",
    "rule",
    "too_large",
    "too_long",
    "wrong_type",
]


class Rejection(Exception):  # noqa: N818 - not an error of Penstock: the record goes to the quarantine
    """A value that its column cannot hold. The detail describes the mistake and quotes nothing of the value."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason: Reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that could not become a row: the whole record, and the reason."""

    partition: int
    offset: int
    reason: Reason
    detail: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


def reject_record(batch: Batch, index: int, rejection: Rejection) -> RejectedRecord:
    """Make the rejected record of one record of a batch."""
    return RejectedRecord(
        partition=batch.partition,
        offset=int(batch.offsets[index]),
        reason=rejection.reason,
        detail=rejection.detail,
        key=batch.keys[index],
        value=batch.values[index],
        headers=batch.headers(index),
        timestamp=int(batch.timestamps[index]),
    )
