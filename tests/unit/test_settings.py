"""Settings: read once, complete or refused, and silent about secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import WrongUseError
from penstock.settings import RUST, read_kafka, read_settings, read_switch


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(WrongUseError, match="PENSTOCK_DB and PENSTOCK_KAFKA are not set"):
        read_settings({})


def test_a_properties_file_gives_the_clients_settings(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# cluster\nbootstrap.servers=a:1,b:2\n\nsasl.password = p=q\n")

    assert read_kafka(str(file)) == {"bootstrap.servers": "a:1,b:2", "sasl.password": "p=q"}


def test_a_path_to_no_file_is_not_taken_for_a_host() -> None:
    with pytest.raises(WrongUseError, match=r"the file conf/kafka\.properties does not exist"):
        read_kafka("conf/kafka.properties")


def test_the_repr_holds_no_secret() -> None:
    settings = read_settings({"PENSTOCK_DB": "postgresql://u:canary@h/d", "PENSTOCK_KAFKA": "localhost:9092"})

    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:%PWcanary@h/d",
        "postgresql://u:can ary@h/d",
        "postgresql+psycopg://u:canary@h/d",
        "mysql://u:canary@h/d",
        "postgresql://u:p@canary@h/d",
        "postgresql://u:canary/x@h/d",
        "postgresql://u:12/canary@h/d",
        "postgresql://u:p@h:canary/d",
        "postgresql://u:p@h/d?password=can ary",
        "host=h password=can ary",
        "canary",
    ],
)
def test_a_database_uri_that_is_wrong_is_refused_without_quoting_it(uri: str) -> None:
    with pytest.raises(WrongUseError, match="PENSTOCK_DB") as refused:
        read_settings({"PENSTOCK_DB": uri, "PENSTOCK_KAFKA": "localhost:9092"})

    assert "canary" not in str(refused.value)
    assert "ary" not in str(refused.value).replace("ordinary", "")
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:p%40ss@h:5432/d",
        "postgres://u@h,other:5433/d?sslmode=require",
        "postgresql:///d?host=/run/postgresql",
        "postgresql://u:p@[::1]:5432/d",
        "host=h dbname=d user=u password='a b'",
        "service=loads",
    ],
)
def test_every_form_of_address_that_libpq_knows_is_taken(uri: str) -> None:
    assert read_settings({"PENSTOCK_DB": uri, "PENSTOCK_KAFKA": "localhost:9092"}).db == uri


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('{"bootstrap.servers": "h:9092"', "begins like JSON and is not"),
        ('{"sasl.password": "canary"}', "names no bootstrap.servers"),
        ('{"bootstrap.servers": " , "}', "names no bootstrap.servers"),
        ('{"bootstrap.servers": ["h:9092"], "sasl.password": "canary"}', "must be text"),
        (" , ", "names no bootstrap.servers"),
        ("kafka://u:canary@h:9092", "looks like a path"),
    ],
)
def test_kafka_settings_without_servers_are_refused_in_words(value: str, told: str) -> None:
    with pytest.raises(WrongUseError, match=told) as refused:
        read_kafka(value)

    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("", True), ("on", True), ("off", False)])
def test_the_path_in_rust_is_on_unless_it_is_turned_off(value: str | None, *, expected: bool) -> None:
    assert read_switch({} if value is None else {RUST: value}, RUST) is expected


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(WrongUseError, match="PENSTOCK_RUST is neither on nor off"):
        read_switch({RUST: "no"}, RUST)
