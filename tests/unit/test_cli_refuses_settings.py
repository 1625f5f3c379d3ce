"""Settings that are wrong end the program itself: in one sentence, with exit code 2, and without a secret."""

from __future__ import annotations

import subprocess
import sys

import pytest

CANARY = "canary4711"
RIGHT = {"PENSTOCK_DB": f"postgresql://u:{CANARY}@127.0.0.1:1/d", "PENSTOCK_KAFKA": "127.0.0.1:1"}


@pytest.mark.parametrize(
    "wrong",
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
def test_wrong_settings_end_the_program_in_one_sentence(wrong: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "status"],
        env=RIGHT | wrong,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    (name,) = wrong
    assert done.stderr.startswith(name)
    assert done.stderr.count("\n") == 1
    assert CANARY not in done.stdout + done.stderr
