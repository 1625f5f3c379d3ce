"""The results of checks: what the ledger keeps of them, and the one figure of each that people compare."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from penstock.model.load import CheckResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# A topic may have a thousand partitions. A check of more partitions than LISTED keeps one result of the whole load and
# at most MOST_FAILED results of partitions that failed. A result takes 185 bytes, so ten checks of an hourly load keep
# 3 kB, or 28 MB in 400 days; with a result for each of eight partitions the built-in checks would take 80 MB more.
LISTED, MOST_FAILED = 4, 100
MOST_PLACES = 5
# The names of the figures that count what is wrong, or that are compared: the first that an expectation observed
# counts. Names in one row are added.
FIGURES = (
    ("outside",),
    ("twice", "quarantined_too"),
    ("overlapping", "unread"),
    ("unaccounted",),
    ("failed",),
    ("late",),
    ("near_copies", "far_copies", "copies_elsewhere"),
    ("keys_moved",),
    ("missing",),
    ("gaps",),
    ("ahead", "behind", "disordered"),
    ("age_seconds",),
    ("different",),
    ("observed_value",),
    ("unexpected_count",),
)

# The figure of an expectation that observes rows, as those of others do, but compares them.
COMPARED = {"expect_volume_as_usual": ("rows",)}


def find_figure(result: CheckResult) -> float | None:
    """Find the main figure among those observed; None if the expectation observed no number."""
    for names in (COMPARED.get(result.expectation, ()), *FIGURES):
        found: list[float] = [result.observed[name] for name in names if _is_number(result.observed.get(name))]
        if found:
            return sum(found)
    return None


def describe_figures(observed: Mapping[str, Any]) -> str:
    """Describe in one line the figures that an expectation observed, and the first places."""
    figures = {name: value for name, value in qualify(observed).items() if name != "places"}
    places = [f"{place['partition']}:{place['offset']}" for place in observed.get("places", ())[:MOST_PLACES]]
    figures |= {"at partition:offset": " ".join(places)} if places else {}
    return ", ".join(f"{name} {value}" for name, value in figures.items()) or "not met"


def qualify(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Say "at least" of the failed rows of a rule, if the search for them has ended early."""
    if observed.get("at_least") is not True:  # of other expectations it is a figure
        return dict(observed)
    figures = {name: value for name, value in observed.items() if name != "at_least"}
    return figures | {"failed": f"at least {figures['failed']}"}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def condense(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Condense the results of each check, so that the ledger does not grow with the number of partitions."""
    return [kept for _, group in groupby(results, key=_check) for kept in _condense_check(list(group))]


def _check(result: CheckResult) -> tuple[object, ...]:
    return result.kind, result.expectation, result.column, result.suite, result.check_id


def _condense_check(results: list[CheckResult]) -> Iterator[CheckResult]:
    whole = [result for result in results if result.partition is None]
    partitions = [result for result in results if result.partition is not None]
    if len(partitions) <= LISTED:
        yield from results
        return
    failed = [result for result in partitions if not result.success]
    yield from whole or [_sum_up(partitions, len(failed))]
    yield from failed[:MOST_FAILED]


def _sum_up(partitions: Sequence[CheckResult], failed: int) -> CheckResult:
    first = partitions[0]
    figures = [figure for figure in map(find_figure, partitions) if figure is not None]
    observed: dict[str, Any] = {"judged": len(partitions), "partitions": failed}
    if figures:
        observed["observed_value"] = sum(figures)
    return CheckResult(
        first.kind,
        first.expectation,
        None,
        first.column,
        first.severity,
        failed == 0,
        observed,
        first.suite,
        first.check_id,
    )
