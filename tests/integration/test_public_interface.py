"""The names that `penstock` exports."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import penstock
from declaring import write_declaration
from producing import Account

if TYPE_CHECKING:
    from pathlib import Path

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker


def test_every_exported_name_can_be_imported() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = penstock.nothing


def test_importing_penstock_imports_nothing_heavy() -> None:
    code = "import sys, penstock; print([m for m in ('pydantic', 'pyarrow', 'psycopg', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_functions_stay_functions_after_their_rooms_are_imported() -> None:
    code = (
        "import penstock.load.run, penstock.verify.run; from penstock import load, verify; "
        "print(callable(load), callable(verify))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"


def test_a_pipeline_is_loaded_and_verified_from_python(
    db: str, kafka: Broker, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(12)
    write_declaration(tmp_path, account.topic)
    for name, value in {"DB": db, "KAFKA": kafka.bootstrap, "PIPELINES": str(tmp_path)}.items():
        monkeypatch.setenv(f"PENSTOCK_{name}", value)

    loaded = penstock.load("orders")
    verified = penstock.verify("orders", actor="ann")

    assert loaded is not None
    assert (loaded.state, loaded.rows) == ("published", 12)
    assert verified is not None
    assert (verified.faults, verified.rows) == ((), 12)
    assert penstock.load("orders") is None
