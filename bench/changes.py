"""Penstock with some of its constants changed, to measure the gain of each: `python -m bench.changes run …`."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

CHANGES = "BENCH_CHANGES"


def name_changes(changes: dict[str, Any]) -> str:
    """The environment variable for these changes; a change is named `module:constant`."""
    return f"{CHANGES}={json.dumps(changes)}"


def apply_changes() -> None:
    """Make the changes that the environment names; of a dictionary, only the named entries change."""
    for place, value in json.loads(os.environ.get(CHANGES, "{}")).items():
        module_name, _, constant = place.partition(":")
        module = import_module(module_name)
        known = getattr(module, constant)
        setattr(module, constant, {**known, **value} if isinstance(known, dict) else value)


if __name__ == "__main__":
    from penstock.cli.main import main

    apply_changes()
    main()
