"""Executors get the record path in Rust with the job, and do without it where they cannot load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from declaring import write_declaration
from loading_process import LoadingProcess, query
from producing import Account

if TYPE_CHECKING:
    from pathlib import Path

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

# Python imports this module first in every process. In the processes of Spark's tasks it hides the installed package,
# as on an executor without it, and in one case also the library that came with the job.
SHIM = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "penstock_native":
            return None
        places = [place for place in sys.path if "site-packages" not in place]
        found = PathFinder.find_spec(name, places) if {shipped} else None
        if found is None:
            raise ModuleNotFoundError(name)
        return found

if any("pyspark" in word and ("daemon" in word or "worker" in word) for word in sys.orig_argv):
    sys.meta_path.insert(0, Hiding)
"""


@pytest.mark.parametrize(("shipped", "path"), [(True, "rust"), (False, "python")])
def test_executors_without_the_package_take_that_of_the_job_or_the_path_in_python(
    db: str,
    kafka: Broker,
    make_topic: MakeTopic,
    environment: dict[str, str],
    tmp_path: Path,
    shipped: bool,
    path: str,
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(100)
    write_declaration(tmp_path, account.topic)
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(SHIM.format(shipped=shipped))
    code, document, stderr = LoadingProcess(environment | {"PYTHONPATH": str(shim)}, "orders", "--verbose").finish()

    assert (code, document["rows"]) == (0, 100), stderr
    assert query(db, "select path from penstock.loads") == [(path,)]
