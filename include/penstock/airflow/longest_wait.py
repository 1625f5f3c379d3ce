"""The order of the daily tasks: the pipeline that waited longest goes first.

A few tasks of `penstock_audit` and `penstock_maintenance` run at the same time, and the others wait. The scheduler asks
for the weight of each task when it makes a run, and starts those with the highest weight first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from airflow.task.priority_strategy import PriorityWeightStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.models.taskinstance import TaskInstance


class LongestWaitFirst(PriorityWeightStrategy):  # type: ignore[misc]
    """Weighs a task by the time since its last success. A task that never succeeded goes first."""

    def get_weight(self, ti: TaskInstance) -> int:
        """Weigh a task; the first of n tasks with a success has the weight n."""
        weights = weigh_tasks(ti.dag_id, ti.run_id)
        return weights.get(ti.task_id, len(weights) + 1)


# The scheduler asks twice for each of up to a thousand tasks of a run.
@lru_cache(maxsize=4)
def weigh_tasks(dag_id: str, run_id: str) -> Mapping[str, int]:  # noqa: ARG001 - a new run is weighed again
    """Weigh the tasks of a DAG that have succeeded before: 1 for the newest success."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    newest = func.max(TaskInstance.end_date)
    succeeded = (
        select(TaskInstance.task_id)
        .where(TaskInstance.dag_id == dag_id, TaskInstance.state == "success")
        .group_by(TaskInstance.task_id)
        .order_by(newest.desc())
    )
    # A session of its own: the thread's own session belongs to the scheduler, which is in the middle of its work.
    with create_session(scoped=False) as session:
        return {task_id: weight for weight, task_id in enumerate(session.scalars(succeeded), start=1)}
