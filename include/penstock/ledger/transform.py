"""The account of a transform in the ledger, in the caller's transaction; executors run some statements over ADBC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/transform")


@dataclass(frozen=True, slots=True)
class RefusedRows:
    """Rows of a chunk that the target refused: offset, with reason and detail."""

    task: int
    refused: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class AccountedChunk:
    """A chunk: the places that were decoded, the hashes of their lineage, and what the parts have written."""

    task: int
    partition: int
    from_offset: int
    until_offset: int
    places: bytes
    hashes: bytes
    written: Sequence[dict[str, Any]]

    @property
    def range(self) -> Range:
        """The offsets of the chunk."""
        return Range(self.partition, self.from_offset, self.until_offset)


def record_transform(connection: Connection, load_id: int, attempt: int, sha256: str) -> None:
    """Record the hash of the file that transforms the rows of an attempt."""
    _statements.execute(connection, "record_transform", load_id=load_id, attempt=attempt, sha256=sha256)


def read_refused(connection: Connection, load_id: int, attempt: int) -> list[RefusedRows]:
    """Read the rows of a transform that the target refused."""
    return _statements.fetch_all(connection, RefusedRows, "read_refused", load_id=load_id, attempt=attempt)


def read_accounts(connection: Connection, load_id: int, attempt: int, after: int, most: int) -> list[AccountedChunk]:
    """Read some chunks after a task."""
    return _statements.fetch_all(
        connection, AccountedChunk, "read_accounts", load_id=load_id, attempt=attempt, after=after, most=most
    )


def settle_accounts(connection: Connection, load_id: int, attempt: int, accounts: list[dict[str, Any]]) -> None:
    """Record the rows, refused and filtered records of chunks."""
    _statements.execute(connection, "settle_accounts", load_id=load_id, attempt=attempt, accounts=Jsonb(accounts))


def record_filtered(connection: Connection, load_id: int, attempt: int, pieces: list[dict[str, Any]]) -> None:
    """Record the offsets of filtered records."""
    _statements.execute(connection, "record_filtered", load_id=load_id, attempt=attempt, pieces=Jsonb(pieces))


def forget_accounts(connection: Connection, load_id: int) -> None:
    """Delete what the balance has used."""
    _statements.execute(connection, "forget_decoded", load_id=load_id)
    _statements.execute(connection, "forget_written", load_id=load_id)


def compose(name: str) -> str:
    """The text of a statement that executors run over ADBC."""
    return _statements.compose_text(name)
