"""The step of the DAG penstock_sample."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.airflow.connections import read_db, read_kafka
from penstock.airflow.declarations import read_valid
from penstock.airflow.failures import deciding_retries
from penstock.airflow.metrics import export_metrics
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = logging.getLogger(__name__)


def sample() -> None:
    """Sample all pipelines. One without a topic, or whose cluster does not answer, is logged and stops no other."""
    from penstock.status.sampler import sample_pipelines

    with deciding_retries():
        pipelines = read_valid()
        find_kafka = _read_connections({pipeline.kafka for pipeline in pipelines})
        sampled = sample_pipelines(read_db(), find_kafka, pipelines)
    export_metrics(read_db())
    for name, what in sampled.errors.items():
        log.warning("%s was not sampled: %s", name, what)
    log.info("sampled: %d of %d pipelines", sampled.pipelines - len(sampled.errors), sampled.pipelines)


def _read_connections(names: Iterable[str]) -> Callable[[str], Mapping[str, str]]:
    """Read the connections by this thread: only it may speak with Airflow. A wrong one stops its own pipelines only."""
    found: dict[str, Mapping[str, str] | PenstockError] = {}
    for name in sorted(names):
        try:
            found[name] = read_kafka(name)
        except PenstockError as error:
            found[name] = error

    def find(name: str) -> Mapping[str, str]:
        settings = found[name]
        if isinstance(settings, PenstockError):
            raise settings
        return settings

    return find
