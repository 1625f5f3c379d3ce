"""The page of a pipeline in Airflow: its tasks, the next step after a failure, its columns and checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.declaration.carried import carried_columns

if TYPE_CHECKING:
    from penstock.declaration.parts import Check, Column, Severity
    from penstock.declaration.pipeline import Pipeline

CONSEQUENCES: dict[Severity, str] = {
    "error": "holds the load",
    "warning": "warns, and the load is published",
    "info": "is recorded, and the load is published",
}
PAGE = """\
# {name}

{description}

Loads the Kafka topic `{topic}` into the table `{target}`, each record exactly once. It runs {schedule}. A run reads
the records since the last published load, at most {cap} offsets of each partition; the next run reads the rest.

| task | what it does |
|---|---|
| plan | queries Kafka for new offsets, and plans the ranges to load; without new offsets the other tasks are skipped |
| stage | Spark reads exactly these offsets into a table of this attempt, which no reader sees |
| validate | Great Expectations checks the same rows that will be published |
| publish | one transaction makes the rows visible and moves the positions: both happen, or nothing |

To load old records or to load records again, [trigger penstock_backfill](/dags/penstock_backfill): it loads ranges of
offsets or times. Airflow's own backfill, by date, is refused for this DAG: each of its runs would load what is new.

You can clear any task and run it again at any time: published data stays as it is, and the log says so. `publish`
updates the asset `penstock://{name}`, with the ranges in the event's extra.

## When a task is red

- **plan, "held"**: a load waits for a person. [Answer its request](/dags/penstock_settle) under Required Actions:
  approve publishes it as it is, discard discards it, and its offsets are loaded again. Or change the declaration: the
  next run then plans again.
- **plan, offsets are lost, or the topic is another one**: {on_loss} The last line of the log names the offsets, the
  time, and the next step: [accept the loss](/dags/penstock_accept_loss), or `penstock adopt` on the command line.
- **stage**: read the last line of its log. Each of its {tries} tries wrote a table of its own; clear it to try again.
- **validate, "held"**: the last line of its log names the check. The results are in `penstock.check_results`.
- **publish**: clear it. It looks first whether the load is published, and never publishes twice.

## Columns

Values are `{value}`, read by the {reader} reader with `{isolation}`.

| column | type | from | required |
|---|---|---|---|
{columns}

Every row also carries {carried}.

## Checks

Every load: each planned offset is a row, a quarantined record or a hole; no offset is there twice or outside the plan.

{checks}

{rules}{poison}

## Where to look

The view `penstock.loads`, or `penstock status` on the command line. The history of the checks:
`penstock quality {name}`. Quarantined records:
`select * from penstock.quarantined where pipeline = '{name}'`.
{alerts}
"""


def write_page(pipeline: Pipeline) -> str:
    """Write the page of a pipeline."""
    return PAGE.format(
        name=pipeline.name,
        description=pipeline.description or "",
        topic=pipeline.topic,
        target=pipeline.target,
        schedule=_explain_schedule(pipeline),
        cap=f"{pipeline.max_records_per_partition:,}",
        value=pipeline.value,
        reader=pipeline.reader,
        isolation=pipeline.isolation,
        columns="\n".join(map(_explain_column, pipeline.columns)),
        carried=", ".join(f"`{column.name}`" for column in carried_columns(pipeline.key, pipeline.tombstones)),
        checks="\n".join(map(_explain_check, pipeline.checks)) or "The declaration adds no checks of its own.",
        rules=_explain_rules(pipeline),
        poison=_explain_rejections(pipeline),
        on_loss=_explain_loss(pipeline),
        tries=pipeline.retries + 1,
        alerts=_describe_alerts(pipeline),
    )


def _explain_schedule(pipeline: Pipeline) -> str:
    schedule = f"on the schedule `{pipeline.times}`" if pipeline.times else "when triggered by hand"
    if pipeline.window:
        schedule = f"{schedule}, within {pipeline.window}"
    when = pipeline.load_when
    if when is None:
        return schedule
    many = f"{when.min_records:,} offsets wait" if when.min_records is not None else None
    old = f"a record waits for {when.max_wait}" if when.max_wait else None
    return f"{schedule}, and as soon as {' or '.join(filter(None, (many, old)))}"


def _explain_column(column: Column) -> str:
    path = column.model_dump(mode="json")["path"]
    return f"| `{column.name}` | `{column.type}` | `{_escape(path)}` | {'yes' if column.required else ''} |"


def _explain_check(check: Check) -> str:
    consequence = CONSEQUENCES[check.severity]
    arguments = ", ".join(f"{name} = {json.dumps(value, default=str)}" for name, value in check.arguments.items())
    suite = f" of the suite `{check.suite}`" if check.suite else ""
    return f"- `{check.expect}`{suite} ({arguments}): a failure {consequence}."


def _explain_rules(pipeline: Pipeline) -> str:
    """A row that fails one of these goes to the quarantine, before the checks run."""
    lines = []
    for rule in pipeline.rules:
        arguments = ", ".join(f"{name} = {json.dumps(value, default=str)}" for name, value in rule.arguments.items())
        lines.append(f"- rule `{rule.name}`: `{rule.where or f'{rule.expect} ({arguments})'}`")
    if pipeline.dedupe:
        within = f" within {pipeline.dedupe.within}" if pipeline.dedupe.within else " within the load"
        lines.append(f"- later copies by `{', '.join(pipeline.dedupe.by)}`{within}")
    if not lines:
        return ""
    return "\n".join(
        ["Before the checks, rows that fail a rule go to the quarantine, and the load continues:", "", *lines, "", ""]
    )


def _explain_rejections(pipeline: Pipeline) -> str:
    if pipeline.poison == "stop":
        return "A record that cannot become a row fails the load."
    limit = "" if pipeline.max_quarantined is None else f" More than {pipeline.max_quarantined} of them fail the load."
    return f"Records that cannot become rows go to the quarantine, whole and with a reason.{limit}"


def _explain_loss(pipeline: Pipeline) -> str:
    if pipeline.on_loss == "stop":
        return "Kafka no longer holds the next offsets, and only a person can accept their loss."
    return "lost offsets are recorded, and the pipeline continues after them; a truncated log stops it."


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _describe_alerts(pipeline: Pipeline) -> str:
    names = ", ".join(dict.fromkeys(f"`{route.to}`" for route in pipeline.alerts))
    return f"\nAlerts go to the targets of {names}." if names else ""
