"""The request to settle a held load, as a person reads it in Airflow: its checks, with counts and places, no values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import name_ranges
from penstock.model.checks import qualify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.load import CheckResult, Load

# A topic may have thousands of partitions, and each may have failed a check.
MOST_CHECKS = 20

BODY = """\
No row of load {load} is published, and {blocked}

| | |
|---|---|
| pipeline | `{pipeline}`, into `{target}` |
| ranges | {ranges} |
| records | {rows} rows, {quarantined} quarantined, {holes} holes{filtered} |

**Failed checks**

| check | severity | where | counts | places |
|---|---|---|---|---|
{checks}

- **Approve** publishes the rows as they are.
- **Discard** publishes nothing. {after_discard}.

The rows are in `{staged}`. The ledger keeps your name and your reason. On the command line use
`penstock approve {load} --why "…"` or `penstock discard {load} --why "…"`; this request then ends.
"""


def write_subject(load: Load) -> str:
    """One line: the load, and the decision that it waits for."""
    return f"Load {load.load_id} of {load.pipeline} is held: publish it as it is, or discard it?"


def write_body(load: Load, failed: Sequence[CheckResult], count: int, staged: str) -> str:
    """The request as Markdown. `failed` holds the first failed checks, `count` is the number of all."""
    rows = [_write_check(result) for result in failed]
    if count > len(failed):
        rows.append(f"| and {count - len(failed):,} more: `penstock.check_results` | | | | |")
    live, after_discard = load.kind == "live", advice.after_discard(load.kind)
    return BODY.format(
        load=load.load_id,
        pipeline=load.pipeline,
        target=load.declaration.target,
        ranges=name_ranges(load.ranges),
        rows=_count(load.rows),
        quarantined=_count(load.quarantined),
        holes=_count(load.holes),
        filtered=f", {_count(load.filtered)} filtered" if load.declaration.transform else "",
        checks="\n".join(rows),
        staged=staged,
        blocked="its pipeline loads nothing more until it is settled." if live else "its pipeline continues.",
        after_discard=after_discard[0].upper() + after_discard[1:],
    )


def _write_check(result: CheckResult) -> str:
    where = [f"column {result.column}"] if result.column else []
    where += [f"partition {result.partition}"] if result.partition is not None else []
    figures = qualify(result.observed)
    counts = [f"{name} {_write(value)}" for name, value in figures.items() if not isinstance(value, list)]
    places = [
        name_ranges([_write_place(place, result.partition) for place in value], between=", ")
        for value in result.observed.values()
        if isinstance(value, list) and value
    ]
    suite = f" of the suite {result.suite}" if result.suite else ""
    cells = (
        f"`{result.expectation}`{suite}",
        result.severity,
        ", ".join(where) or "all rows",
        ", ".join(counts),
        "; ".join(places),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _write_place(place: Any, partition: int | None) -> str:  # noqa: ANN401 - an element of a JSON array
    """A named place, an offset of the result's partition, a chunk of it, or partition and offset."""
    if isinstance(place, dict):
        other = f", other: partition {place['other'][0]} offset {place['other'][1]}" if "other" in place else ""
        return f"partition {place['partition']} offset {place['offset']} ({place['kind']}{other})"
    if not isinstance(place, list) or len(place) != 2:
        return f"offset {_write(place)}"
    return f"partition {place[0]} offset {place[1]}" if partition is None else f"offsets [{place[0]}, {place[1]})"


def _write(value: Any) -> str:  # noqa: ANN401 - a value of a JSON document
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value)


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
