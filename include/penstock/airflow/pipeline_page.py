"""The page of a pipeline in Airflow: what it does, and what to do when it is red."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.declaration.carried import carried_columns

if TYPE_CHECKING:
    from penstock.declaration.parts import Check, Column
    from penstock.declaration.pipeline import Pipeline

PAGE = """\
# {name}

{description}

Loads the Kafka topic `{topic}` into the table `{target}`, each record exactly once. It runs {schedule}. A run reads
what came since the last published load, at most {cap} offsets from each partition; what is left waits for the next run.

| task | what it does |
|---|---|
| plan | asks Kafka what is new, and writes down which offsets to load; if there is nothing, the rest is skipped |
| stage | Spark reads just these offsets into a table of this attempt, which nobody else sees |
| validate | Great Expectations checks the very rows that will be published |
| publish | one transaction makes the rows visible and moves the offsets: all of it happens, or nothing |

Any task may be cleared and run again at any time: what is published stays as it is, and the log says so. After
`publish` the asset `penstock://{name}` is updated, with the ranges in the event's extra.

## When it is red

- **plan, "held"**: a load waits for a person. [Settle it](/dags/penstock_settle): approve publishes it as it is,
  discard gives it up, and its offsets are loaded again. Or change the declaration: the next run then plans anew.
- **plan, offsets are lost, or it is another topic**: {on_loss} The task's last line says which offsets, since when, and
  what to do: [accept the loss](/dags/penstock_accept_loss), or `penstock adopt` on the command line.
- **stage**: look at its last line. Each of its {tries} tries wrote a table of its own; clear it to try once more.
- **validate, "held"**: its last line names the check. What the checks found is in `penstock.check_results`.
- **publish**: clear it. It looks first and never publishes twice.

## Columns

Values are `{value}`, read by the {reader} reader with `{isolation}`.

| column | type | from | required |
|---|---|---|---|
{columns}

Every row also carries {carried}.

## Checks

Always: every planned offset is a row, a quarantined record or a hole; none comes twice; none is outside the plan.

{checks}

{poison}

## Where to look

The view `penstock.loads`, or `penstock status` on the command line. Quarantined records:
`select * from penstock.quarantined where pipeline = '{name}'`.
{alerts}
"""


def explain(pipeline: Pipeline) -> str:
    """Write the page of a pipeline."""
    return PAGE.format(
        name=pipeline.name,
        description=pipeline.description or "",
        topic=pipeline.topic,
        target=pipeline.target,
        schedule=f"on the schedule `{pipeline.schedule}`" if pipeline.schedule else "when triggered by hand",
        cap=f"{pipeline.max_records_per_partition:,}",
        value=pipeline.value,
        reader=pipeline.reader,
        isolation=pipeline.isolation,
        columns="\n".join(map(_explain_column, pipeline.columns)),
        carried=", ".join(f"`{column.name}`" for column in carried_columns(pipeline.key)),
        checks="\n".join(map(_explain_check, pipeline.checks)) or "The declaration adds none of its own.",
        poison=_explain_rejections(pipeline),
        on_loss=_explain_loss(pipeline),
        tries=pipeline.retries + 1,
        alerts=f"\nAlerts go to the targets of the connection `{pipeline.alerts}`." if pipeline.alerts else "",
    )


def _explain_column(column: Column) -> str:
    path = column.model_dump(mode="json")["path"]
    return f"| `{column.name}` | `{column.type}` | `{_escape(path)}` | {'yes' if column.required else ''} |"


def _explain_check(check: Check) -> str:
    consequence = "holds the load" if check.severity == "error" else "warns, and the load is published"
    arguments = ", ".join(f"{name} = {json.dumps(value, default=str)}" for name, value in check.arguments.items())
    return f"- `{check.expect}` ({arguments}): a failure {consequence}."


def _explain_rejections(pipeline: Pipeline) -> str:
    if pipeline.poison == "stop":
        return "A record that cannot become a row fails the load."
    limit = "" if pipeline.max_quarantined is None else f" More than {pipeline.max_quarantined} of them fail the load."
    return f"Records that cannot become rows go to the quarantine, whole and with a reason.{limit}"


def _explain_loss(pipeline: Pipeline) -> str:
    if pipeline.on_loss == "stop":
        return "Kafka no longer holds what comes next, and nothing is given up without a person."
    return "records that Kafka no longer has are recorded as lost, and passed over; a log that was cut is not."


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
