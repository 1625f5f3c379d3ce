"""The tables, for the terminal and as Markdown: `python -m bench.report [results.json]` writes bench/SUMMARY.md."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table as RichTable

from bench.contestants import CONTESTANTS, PROJECT
from bench.results import Results, load_results
from bench.wanted import judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.contestants import Contestant

PHASES = {
    "start": "start of the process",
    "plan": "plan",
    "spark_start": "start of Spark",
    "copy": "read, decode, COPY",
    "key": "primary key",
    "validate": "end of Spark, checks",
    "publish": "publish",
    "end": "end of the process",
}


class Table(NamedTuple):
    """A table of texts; the first column is a name, the others are figures."""

    title: str
    head: Sequence[str]
    rows: list[list[str]]


def make_tables(results: Results) -> list[Table]:
    """All tables of a benchmark."""
    speeds = [make_speeds(results, CONTESTANTS, records) for records in results.sizes()]
    return [
        table for table in (*speeds, _make_phases(results), _make_wanted(results), make_errors(results)) if table.rows
    ]


def make_speeds(results: Results, contestants: Sequence[Contestant], records: int) -> Table:
    """The speed of each contestant at one size."""
    rows = [
        _make_speed(results, contestant, records)
        for contestant in contestants
        if results.good(contestant.name, records)
    ]
    head = ["", "rows/s", "least - most", "x Spark JDBC", "seconds", "CPU s: own", "PostgreSQL", "Kafka", "peak MB"]
    return Table(f"{records:,} records", head, rows)


def _make_speed(results: Results, contestant: Contestant, records: int) -> list[str]:
    runs, rates = results.good(contestant.name, records), results.rates(contestant.name, records)
    ratio = results.ratio(contestant.name, "spark_jdbc", records)
    cpu = [(run.cpu_seconds, run.postgres_cpu_seconds, run.kafka_cpu_seconds) for run in runs]
    return [
        contestant.title,
        f"{statistics.median(rates):,.0f}",
        f"{min(rates):,.0f} - {max(rates):,.0f}",
        f"{ratio:.2f}" if ratio else "",
        f"{statistics.median(run.seconds for run in runs):.1f}",
        *(f"{statistics.median(column):.1f}" for column in zip(*cpu, strict=True)),
        f"{statistics.median(run.peak_bytes for run in runs) / 2**20:,.0f}",
    ]


def _make_phases(results: Results) -> Table:
    sizes = [records for records in results.sizes() if results.phases(records)]
    rows = [
        [title, *(_format_phase(results.phases(records), name) for records in sizes)] for name, title in PHASES.items()
    ]
    rows.append(
        [
            "of it the publish transaction",
            *(f"{results.phases(size)['publish_transaction'] * 1000:.1f} ms" for size in sizes),
        ]
    )
    return Table("Penstock's phases", ["", *(f"{records:,} records" for records in sizes)], rows if sizes else [])


def _format_phase(phases: dict[str, float], name: str) -> str:
    whole = sum(phases[each] for each in PHASES)
    return f"{phases[name]:.2f} s, {phases[name] / whole:.0%}"


def _make_wanted(results: Results) -> Table:
    rows = [[one.what, one.wanted, one.found, "met" if one.met else "not met"] for one in judge(results)]
    return Table("Wanted", ["", "wanted", "found", ""], rows)


def make_errors(results: Results) -> Table:
    """The failed runs, whose figures are not used."""
    rows = [[f"{run.contestant}, {run.records:,}, round {run.round}", run.error] for run in results.runs if run.error]
    return Table("Runs that came out wrong and count for nothing", ["", "error"], rows)


def print_report(results: Results) -> None:
    """Print all tables for a person."""
    print_tables(make_tables(results))


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables to a terminal, or as wide as they need to be to a file."""
    plain = Console()
    console = plain if plain.is_terminal else Console(width=140)
    for table in tables:
        shown = RichTable(title=table.title, title_justify="left")
        for index, name in enumerate(table.head):
            shown.add_column(name, justify="right" if index else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def render_markdown(results: Results) -> str:
    """The tables as Markdown, with the machine and the versions."""
    return "\n".join(_render(results))


def _render(results: Results) -> Iterator[str]:
    yield "# The figures of the benchmark"
    yield ""
    yield "Made by `make bench` and `python -m bench.report`; [method](../docs/explanation/speed.md)."
    yield from render_parts(results, make_tables(results))


def render_parts(results: Results, tables: Sequence[Table]) -> Iterator[str]:
    """The machine, the versions and the tables, as lines of Markdown."""
    yield ""
    yield from (f"- {name}: {value}" for name, value in results.machine.items())
    for table in tables:
        yield f"\n## {table.title}\n"
        yield f"| {' | '.join(table.head)} |"
        yield f"|---|{'---:|' * (len(table.head) - 1)}"
        yield from (f"| {' | '.join(row)} |" for row in table.rows)
    yield ""


def main(arguments: Sequence[str]) -> int:
    """Render a results file, by default the newest."""
    saved = sorted((PROJECT / "bench" / "results").glob("*.json"))
    if not arguments and not saved:
        sys.stderr.write("no results. Next: make bench.\n")
        return 2
    results = load_results(Path(arguments[0]) if arguments else saved[-1])
    (PROJECT / "bench" / "SUMMARY.md").write_text(render_markdown(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
