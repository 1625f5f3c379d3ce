"""The rows, quarantined records and holes of one attempt, counted by partition in one query."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.declaration.pipeline import Pipeline
from penstock.ledger import check_result
from penstock.model.checks import MOST_FAILED
from penstock.target.postgres.rows import hash_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from psycopg import sql

MOST_SAMPLES = 10
SUMS = tuple(field.name for field in fields(check_result.RowSums))

# Runs one statement with its values; the rows are mappings by column name.
Ask: TypeAlias = "Callable[[str, Mapping[str, object]], Sequence[Mapping[str, Any]]]"


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """One partition of one attempt.

    `rows` and `quarantined` count the staged table and the quarantine within the plan's ranges; rows and records
    outside the plan have counts of their own. `holes` is the readers' count, because a hole leaves no trace in a table;
    `filtered` is the account of a transform.
    """

    partition: int
    planned: int
    rows: int
    quarantined: int
    holes: int
    filtered: int
    unaccounted: int
    rows_outside: int
    quarantined_outside: int
    twice: int
    in_both: int
    keyed: bool
    chunks: int
    overlapping: int
    unread: int
    from_offset: int | None
    position: int | None
    samples: Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """All partitions of one attempt, and the sums over each partition's rows, which the same pass computes."""

    partitions: list[PartitionCounts]
    sums: dict[int, check_result.RowSums]


def count_attempt(ask: Ask, table: sql.Identifier, load_id: int, attempt: int) -> AttemptCounts:
    """Count the rows of an attempt. `ask` runs a statement on the caller's connection."""
    values: dict[str, object] = {"load_id": load_id, "attempt": attempt, "table": table.as_string(None)}
    [planned] = ask(check_result.compose_declaration(), values)
    row_hash = hash_row(Pipeline.read_kept(planned["declaration"]))
    rows = ask(check_result.compose_count(table, row_hash), values)
    # The ledger keeps no more failed partitions, so more samples would be queries for nothing.
    sampled = [row["partition"] for row in rows if _name_samples(row)][:MOST_FAILED]
    return AttemptCounts(
        [
            PartitionCounts(
                **{name: value for name, value in row.items() if name not in SUMS},
                samples=_sample(ask, table, values, row) if row["partition"] in sampled else {},
            )
            for row in rows
        ],
        {row["partition"]: check_result.RowSums(**{name: row[name] for name in SUMS}) for row in rows},
    )


def _name_samples(row: Mapping[str, Any]) -> list[str]:
    """Name the statements that find wrong offsets of a partition; none for a partition without faults."""
    wrong = {
        "sample_rows_outside": row["rows_outside"],
        "sample_quarantined_outside": row["quarantined_outside"],
        "sample_twice": row["twice"] or row["in_both"],
        "sample_unaccounted": row["unaccounted"],
    }
    return [name for name, count in wrong.items() if count]


def _sample(
    ask: Ask, table: sql.Identifier, values: Mapping[str, object], row: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Read up to MOST_SAMPLES of the wrong offsets of a partition."""
    chosen = {**values, "partition": row["partition"], "most": MOST_SAMPLES}
    return {
        name: [found["found"] for found in ask(check_result.compose_sample(name, table), chosen)]
        for name in _name_samples(row)
    }
