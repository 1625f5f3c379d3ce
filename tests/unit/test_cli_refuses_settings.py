"""An invalid setting ends the program with one sentence and exit code 2; the sentence holds no secret."""

from __future__ import annotations

import subprocess
import sys

import pytest

CANARY = "canary4711"
VALID = {"PENSTOCK_DB": f"postgresql://u:{CANARY}@127.0.0.1:1/d", "PENSTOCK_KAFKA": "127.0.0.1:1"}


@pytest.mark.parametrize(
    "invalid",
    [
        {"PENSTOCK_DB": f"postgresql://u:%PW{CANARY}@h/d"},
        {"PENSTOCK_DB": f"postgresql+psycopg://u:{CANARY}@h/d"},
        {"PENSTOCK_KAFKA": f'{{"sasl.password": "{CANARY}", '},
        {"PENSTOCK_DB": f"postgresql://u@127.0.0.1:1/d?sslmode={CANARY}"},
        {"PENSTOCK_DB": f"postgresql://u@127.0.0.1:1/d?channel_binding={CANARY}"},
        {"PENSTOCK_DB": f"postgresql://u@127.0.0.1:1/d?service={CANARY}"},
        {"PENSTOCK_KAFKA": f"user:{CANARY}@127.0.0.1:1"},
        {"PENSTOCK_KAFKA": f'{{"sasl.password": "{CANARY}"}}'},
    ],
)
def test_an_invalid_setting_ends_the_program_with_one_sentence(invalid: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "status"],
        env=VALID | invalid,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    (name,) = invalid
    assert done.stderr.startswith(name)
    assert done.stderr.count("\n") == 1
    assert CANARY not in done.stdout + done.stderr
