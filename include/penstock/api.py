"""Loading and verifying from Python, with the settings of the environment, as the command line does."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load
    from penstock.settings import Settings
    from penstock.verify.run import Verified

log = logging.getLogger("penstock")


def load(pipeline: str | Pipeline) -> Load | None:
    """Load the new records of a pipeline's topic; the published load, or None if the topic has no new records.

    A pipeline is a `Pipeline`, or a name that is looked up in the folder PENSTOCK_PIPELINES. A PenstockError has the
    exit code of `penstock run`.
    """
    from penstock.load.run import name_run, run_load

    settings = _read_settings()
    return run_load(settings, _find(settings, pipeline), name_run(), log.info, sys.stderr)


def verify(pipeline: str | Pipeline, *, actor: str, share: float = 1.0) -> Verified | None:
    """Prove that the target holds the published rows; `share` is the part of the log that is read again.

    The result has no `faults` if everything is right; None if the pipeline has loaded nothing yet. The ledger stores
    `actor` with the verification.
    """
    from penstock.spark.submit import submit_reread
    from penstock.verify.run import verify_pipeline

    settings = _read_settings()
    return verify_pipeline(
        settings,
        _find(settings, pipeline),
        actor,
        share,
        lambda settings, verification: submit_reread(settings, verification, sys.stderr),
    )


def _read_settings() -> Settings:
    from penstock.settings import read_settings

    return read_settings(os.environ)


def _find(settings: Settings, pipeline: str | Pipeline) -> Pipeline:
    from penstock.declaration.pipeline import read_named

    return read_named(settings.pipelines, pipeline) if isinstance(pipeline, str) else pipeline
