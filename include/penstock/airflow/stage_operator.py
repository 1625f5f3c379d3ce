"""The stage step as a task: spark-submit in client mode, or a kept Spark server.

The arguments of spark-submit are ids; only its environment holds secrets.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from penstock.airflow.connections import SPARK, read_db, read_settings
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.load_link import LoadLink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import XComArg
    from airflow.sdk.definitions.context import Context

    from penstock.model.load import Load
    from penstock.settings import Settings
    from penstock.spark.submit import Submission


class StageOperator(SparkSubmitOperator):  # type: ignore[misc]
    """Stages a load by a new attempt; a load that is already staged stays as it is."""

    # The other arguments of Spark are made when the task runs, so that Airflow renders and shows none of them.
    template_fields = ("load_id",)
    operator_extra_links = (LoadLink(),)

    def __init__(self, *, load_id: XComArg, **options: Any) -> None:  # noqa: ANN401
        # In cluster mode the driver would not get this task's environment, and so not the secrets.
        super().__init__(
            conn_id=SPARK,
            deploy_mode="client",
            # The conf is in argv, and the transport of OpenLineage may have an API key. Spark would report no topic and
            # no table of Penstock anyway: the publish step reports them.
            openlineage_inject_parent_job_info=False,
            openlineage_inject_transport_info=False,
            **options,
        )
        self.load_id = load_id
        self._master = ""

    def execute(self, context: Context) -> None:
        """Begin an attempt, and run its driver to its end."""
        from penstock.ledger.connection import concerning, open_ledger
        from penstock.ledger.load import read_load
        from penstock.ledger.work_lock import working_on
        from penstock.load.stage import begin_staging
        from penstock.spark.submit import refuse_transform

        load_id = int(self.load_id)
        with deciding_retries(load=load_id), working_on(read_db(), load_id):
            with open_ledger(read_db()) as connection:
                load = read_load(connection, load_id)
            settings = read_settings(load.declaration.kafka)
            refuse_transform(settings, load.declaration)
            attempt = begin_staging(read_db(), load_id)
            if attempt is None:
                self.log.info("%s: load %s is already %s; it stays as it is.", load.pipeline, load_id, load.state)
                return
            self.log.info("%s: staging load %s, attempt %s.", load.pipeline, load_id, attempt)
            with concerning(load=load):
                self._stage(settings, load, attempt, context)
        self.log.info("%s: load %s is staged.", load.pipeline, load_id)
        send_notices()

    def on_kill(self) -> None:
        """Kill the driver too: spark-submit is its parent, and would leave it running."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _stage(self, settings: Settings, load: Load, attempt: int, context: Context) -> None:
        if settings.keeps_spark:
            from penstock.spark.submit import stage_by_server

            stage_by_server(settings, load.load_id, attempt)
        else:
            self._submit(settings, load, attempt, context)

    def _submit(self, settings: Settings, load: Load, attempt: int, context: Context) -> None:
        from penstock.spark.submit import make_submission

        declared = load.declaration
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            submission = make_submission(
                settings, load.load_id, attempt, declared.reader, Path(folder), load.ranges, declared.transform
            )
            self._apply(submission)
            with _environment(submission.env):
                self._run(context)

    def _apply(self, submission: Submission) -> None:
        self.application = submission.application
        self.application_args = list(submission.application_args)
        self.name = "penstock"
        self.py_files = submission.py_files
        self.jars = submission.jars
        self.conf = {**submission.conf, "spark.driver.extraJavaOptions": submission.driver_java_options}
        self._master = submission.master

    def _run(self, context: Context) -> None:
        """Run spark-submit; a failure is described by the driver's last lines and its exit code."""
        try:
            super().execute(context)
        except AirflowException:
            driver = self._hook._submit_sp if self._hook else None
            if driver is None or not driver.returncode:
                raise
            error = self._output.find_error(driver.returncode)
            # The provider's exception repeats the driver's log, which the log of this task already holds.
            raise error from error.__cause__

    def _get_hook(self) -> SparkSubmitHook:
        from penstock.spark.error_transport import DriverOutput

        hook = super()._get_hook()
        # The connection's master, changed so that a local master retries a Spark task as often as a cluster does.
        hook._connection["master"] = self._master
        self._output, process = DriverOutput(), hook._process_spark_submit_log
        hook._process_spark_submit_log = lambda lines: process(self._output.read_lines(lines))
        return hook


@contextmanager
def _environment(secrets: Mapping[str, str]) -> Iterator[None]:
    """Set secrets in the environment of this process for its child, and restore the environment at the end."""
    before = {name: os.environ.get(name) for name in secrets}
    os.environ.update(secrets)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
