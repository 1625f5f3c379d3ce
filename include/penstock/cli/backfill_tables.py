"""Documents and tables of `penstock backfill`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.backfill.plan import describe_draft
from penstock.cli import output
from penstock.cli.tables import describe_range

if TYPE_CHECKING:
    from penstock.backfill.plan import Draft
    from penstock.backfill.run import Progress


def describe_progress(backfill_id: int, progress: Progress) -> dict[str, Any]:
    """What `backfill --json` prints at its end."""
    return {
        "backfill": backfill_id,
        "state": "done" if progress.loads == progress.loads_done else "stopped",
        "loads": progress.loads,
        "loads_done": progress.loads_done,
        "offsets": progress.offsets,
        "offsets_done": progress.offsets_done,
        "rows": progress.rows,
    }


def show_draft(draft: Draft, *, as_json: bool) -> None:
    """What a dry run prints."""
    if as_json:
        output.print_json(_describe_draft(draft))
        return
    for line in describe_draft(draft):
        output.result.print(line, markup=False)


def _describe_draft(draft: Draft) -> dict[str, Any]:
    return {
        "backfill": None,
        "state": "preview" if draft.loads else "empty",
        "pipeline": draft.pipeline,
        "offsets": draft.offsets,
        "seconds": draft.seconds,
        "ranges": [describe_range(range_) for range_ in draft.choice.ranges],
        "loads": [[describe_range(range_) for range_ in ranges] for ranges in draft.loads],
        "replaced": [{"load": held.load, **describe_range(held.range)} for held in draft.choice.replaced],
        "planned": [
            {"load": held.load, "backfill": held.backfill, **describe_range(held.range)}
            for held in draft.choice.planned
        ],
        "gone": [describe_range(range_) for range_ in draft.choice.gone],
    }
