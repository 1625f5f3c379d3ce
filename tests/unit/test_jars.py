"""Jars are used only when they are the very ones that were pinned."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from penstock.errors import WrongUseError
from penstock_stack.jars import CHECKSUMS, find_jars, read_checksums, verify_jars

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checksums(tmp_path: Path) -> Path:
    (tmp_path / "jars" / "broker").mkdir(parents=True)
    (tmp_path / "jars" / "broker" / "one.jar").write_bytes(b"one")
    path = tmp_path / "jars.sha256"
    path.write_text(f"{hashlib.sha256(b'one').hexdigest()}  broker/one.jar\n", encoding="utf-8")
    return path


def test_pinned_jars_pass(tmp_path: Path, checksums: Path) -> None:
    assert verify_jars(tmp_path / "jars", checksums) == 1


def test_changed_jar_is_refused(tmp_path: Path, checksums: Path) -> None:
    (tmp_path / "jars" / "broker" / "one.jar").write_bytes(b"another")
    with pytest.raises(WrongUseError, match=r"broker/one\.jar has another checksum"):
        verify_jars(tmp_path / "jars", checksums)


def test_missing_jar_is_refused(tmp_path: Path, checksums: Path) -> None:
    (tmp_path / "jars" / "broker" / "one.jar").unlink()
    with pytest.raises(WrongUseError, match=r"broker/one\.jar is missing"):
        verify_jars(tmp_path / "jars", checksums)


def test_jar_that_is_not_pinned_is_refused(tmp_path: Path, checksums: Path) -> None:
    (tmp_path / "jars" / "broker" / "two.jar").write_bytes(b"two")
    with pytest.raises(WrongUseError, match=r"broker/two\.jar is not pinned"):
        verify_jars(tmp_path / "jars", checksums)


def test_missing_jars_name_the_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="make setup"):
        find_jars("broker", tmp_path)


def test_spark_gets_no_jar_that_it_brings_itself() -> None:
    handed = [name for name in read_checksums(CHECKSUMS) if name.startswith("spark/")]
    assert handed
    assert not [name for name in handed if any(word in name for word in ("hadoop", "scala-", "slf4j", "lz4", "snappy"))]
