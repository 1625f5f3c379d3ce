"""The link from a task to its load on the page, and the operators of the steps, which have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator, ShortCircuitOperator
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class LoadLink(BaseOperatorLink):  # type: ignore[misc]
    """Leads to the load of a task on the tab of its pipeline. Airflow makes it in the task that has ended."""

    @property
    def name(self) -> str:
        """The text of the button."""
        return "Load"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ANN401 - the task itself, says Airflow
        """Make the link; empty if the run has no load."""
        load_id = find_load(operator)
        if load_id is None and operator.task_id == "plan":
            planned = ti_key.xcom_pull(task_ids="plan")
            load_id = planned if isinstance(planned, int) else None
        if load_id is None:
            return ""
        pipeline = ti_key.get_template_context()["params"].get("pipeline", ti_key.dag_id)
        site = str(ti_key.log_url).partition("/dags/")[0]
        return f"{site}/dags/{pipeline}/plugin/penstock-dag?load={load_id}"


def find_load(operator: object) -> int | None:
    """Find the load that a task was given, as its argument; None if it was given none."""
    given = str(getattr(operator, "load_id", None) or next(iter(getattr(operator, "op_args", ())), None))
    return int(given) if given.isdecimal() else None


class PlanOperator(ShortCircuitOperator):  # type: ignore[misc]
    """Runs the plan step."""

    operator_extra_links = (LoadLink(),)


class LoadOperator(PythonOperator):  # type: ignore[misc]
    """Runs a step of a load."""

    operator_extra_links = (LoadLink(),)
