"""The stage step as a task: spark-submit in client mode, with ids as arguments and secrets in its environment only."""

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
from penstock.airflow.task_errors import deciding_retries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import XComArg
    from airflow.sdk.definitions.context import Context

    from penstock.settings import Settings
    from penstock.spark.submit import Submission


class StageOperator(SparkSubmitOperator):  # type: ignore[misc]
    """Stages a load by a new attempt; a load that is staged already stays as it is."""

    # Whatever else Spark is told is made when the task runs: nothing of it is rendered and shown.
    template_fields = ("load_id",)

    def __init__(self, *, load_id: XComArg, **options: Any) -> None:  # noqa: ANN401
        # Cluster mode would run the driver where this task's environment, and so the secrets, do not reach.
        super().__init__(conn_id=SPARK, deploy_mode="client", **options)
        self.load_id = load_id
        self._master = ""

    def execute(self, context: Context) -> None:
        """Begin an attempt, and run its driver to the end."""
        from penstock.ledger.connection import concerning, open_ledger
        from penstock.ledger.load import read_load
        from penstock.ledger.work_lock import at_work
        from penstock.load.stage import begin_staging

        load_id = int(self.load_id)
        with deciding_retries(load=load_id), at_work(read_db(), load_id):
            attempt = begin_staging(read_db(), load_id)
            with open_ledger(read_db()) as connection:
                load = read_load(connection, load_id)
            if attempt is None:
                self.log.info("%s: load %s is %s already; it stays as it is.", load.pipeline, load_id, load.state)
                return
            self.log.info("%s: staging load %s, attempt %s.", load.pipeline, load_id, attempt)
            with concerning(load=load):
                self._submit(read_settings(load.declaration.kafka), load_id, attempt, load.declaration.reader, context)
        self.log.info("%s: load %s is staged.", load.pipeline, load_id)

    def on_kill(self) -> None:
        """End the driver too: spark-submit is only its parent, and would leave it to go on alone."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _submit(self, settings: Settings, load_id: int, attempt: int, reader: str, context: Context) -> None:
        from penstock.spark.submit import make_submission

        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            submission = make_submission(settings, load_id, attempt, reader, Path(folder))
            self._take(submission)
            with _environment(submission.env):
                self._run(context)

    def _take(self, submission: Submission) -> None:
        self.application = submission.application
        self.application_args = list(submission.application_args)
        self.name = "penstock"
        self.py_files = submission.py_files
        self.jars = submission.jars
        self.conf = dict(submission.conf)
        if submission.driver_java_options:
            self.conf["spark.driver.extraJavaOptions"] = submission.driver_java_options
        self._master = submission.master

    def _run(self, context: Context) -> None:
        """Run spark-submit; the driver's own words, and its exit code, say how it failed."""
        try:
            super().execute(context)
        except AirflowException:
            driver = self._hook._submit_sp if self._hook else None
            if driver is None or not driver.returncode:
                raise
            error = self._last_words.read(driver.returncode)
            # The provider's exception repeats the driver's log, which stands above it in the log of this task.
            raise error from error.__cause__

    def _get_hook(self) -> SparkSubmitHook:
        from penstock.spark.error_transport import LastWords

        hook = super()._get_hook()
        # The connection's master, which allows a task of a local master as many failures as one on a cluster.
        hook._connection["master"] = self._master
        self._last_words, process = LastWords(), hook._process_spark_submit_log
        hook._process_spark_submit_log = lambda lines: process(self._last_words.listen(lines))
        return hook


@contextmanager
def _environment(secrets: Mapping[str, str]) -> Iterator[None]:
    """Put secrets into this process's environment, for its child, and take them out again."""
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
