"""Validation: the checks of Great Expectations on the staged rows, and what they decide.

Importing this package does not import great_expectations, which takes seconds: only `validate_load` does, when it runs.
The expectations of Penstock's own are in `penstock.quality.expectations`, for whoever wants them in a suite.
"""

from __future__ import annotations

from penstock.quality.validating import Verdict, validate_load

__all__ = ["Verdict", "validate_load"]
