"""Validation: the checks of Great Expectations on the staged rows, and what they decide.

Importing this package does not import great_expectations, which takes seconds: only `validate_load` does, when it runs.
The expectations of Penstock's own are in `penstock.quality.expectations`, for whoever wants them in a suite.
"""

from __future__ import annotations

import importlib
import threading

from penstock.quality.validating import Verdict, validate_load

__all__ = ["Verdict", "import_ahead", "validate_load"]


def import_ahead() -> threading.Thread:
    """Import Great Expectations in the background, for a process that waits for something else before it validates."""
    thread = threading.Thread(target=importlib.import_module, args=("penstock.quality.suite",), daemon=True)
    thread.start()
    return thread
