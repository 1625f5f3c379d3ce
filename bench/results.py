"""The results of a benchmark in a file, and the figures computed from them."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.rounds import Run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Results:
    """The machine, and all runs in the order in which they were done."""

    machine: dict[str, str]
    runs: list[Run]

    def sizes(self) -> list[int]:
        """The measured numbers of records."""
        return sorted({run.records for run in self.runs})

    def good(self, contestant: str, records: int) -> list[Run]:
        """The successful runs of one contestant."""
        return [run for run in self.runs if (run.contestant, run.records, run.error) == (contestant, records, None)]

    def rates(self, contestant: str, records: int) -> list[float]:
        """Rows per second: of the whole process, or of the work alone for a limit."""
        return [run.records / (run.working_seconds or run.seconds) for run in self.good(contestant, records)]

    def rate(self, contestant: str, records: int) -> float | None:
        """The median of the rates."""
        rates = self.rates(contestant, records)
        return statistics.median(rates) if rates else None

    def ratio(self, contestant: str, other: str, records: int) -> float | None:
        """How many times as fast one is as the other."""
        one, two = self.rate(contestant, records), self.rate(other, records)
        return one / two if one and two else None

    def peak(self, contestant: str, records: int) -> float | None:
        """The median of the peaks of memory, in bytes."""
        peaks = [run.peak_bytes for run in self.good(contestant, records)]
        return statistics.median(peaks) if peaks else None

    def phases(self, records: int, contestant: str = "penstock") -> dict[str, float]:
        """The median length of each phase of a contestant of Penstock."""
        found = [run.phases for run in self.good(contestant, records) if run.phases]
        return {name: statistics.median(phases[name] for phases in found) for name in found[0]} if found else {}

    def copy_rate(self, records: int, contestant: str = "penstock") -> float | None:
        """Rows per second of Penstock's stage, once running: from the first task's COPY to the last task's end."""
        copying = self.phases(records, contestant).get("copy")
        return records / copying if copying else None


def save_results(path: Path, results: Results) -> None:
    """Write the results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(results), indent=1), encoding="utf-8")
    draft.replace(path)


def load_results(path: Path) -> Results:
    """Read what `save_results` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Results(document["machine"], [Run(**run) for run in document["runs"]])
