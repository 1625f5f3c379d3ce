"""Settings: read once, complete or refused, and silent about secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import WrongUseError
from penstock.settings import read_kafka, read_settings


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(WrongUseError, match="PENSTOCK_DB and PENSTOCK_KAFKA not set"):
        read_settings({})


def test_a_properties_file_gives_the_clients_settings(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# cluster\nbootstrap.servers=a:1,b:2\n\nsasl.password = p=q\n")

    assert read_kafka(str(file)) == {"bootstrap.servers": "a:1,b:2", "sasl.password": "p=q"}


def test_a_path_to_no_file_is_not_taken_for_a_host() -> None:
    with pytest.raises(WrongUseError, match=r"there is no file conf/kafka\.properties"):
        read_kafka("conf/kafka.properties")


def test_the_repr_holds_no_secret() -> None:
    settings = read_settings({"PENSTOCK_DB": "postgresql://u:canary@h/d", "PENSTOCK_KAFKA": "localhost:9092"})

    assert "canary" not in repr(settings)
