"""Settings of librdkafka, translated for Java's client and for kafka-python."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.errors import KafkaError, WrongUseError
from penstock.kafka.admin import connect
from penstock.kafka.batches.reader import SecondReader
from penstock.kafka.client_settings import translate_for_java, translate_for_kafka_python
from penstock.kafka.first_records import read_first_records
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.native import FORCED, TUNING, open_consumer
from penstock_stack import ports

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = {"bootstrap.servers": "one:9092, two:9092"}


@pytest.fixture(scope="module")
def certificate() -> tuple[str, str, str]:
    """A certificate that signs itself, its key, and its key once more under the password `secret`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "client")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return (
        signed.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(*form, serialization.NoEncryption()).decode(),
        key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")).decode(),
    )


def test_servers_and_times_are_translated_and_tuning_is_left_out() -> None:
    tuning = {name: str(value) for name, value in (TUNING | FORCED).items()}
    translated = translate_for_kafka_python(
        {
            **SERVERS,
            **tuning,
            "client.id": "ours",
            "socket.timeout.ms": "5000",
            "queued.min.messages": "1",
            "debug": "all",
        }
    )
    assert translated == {
        "bootstrap_servers": ["one:9092", "two:9092"],
        "client_id": "ours",
        "request_timeout_ms": 5000,
        "reconnect_backoff_max_ms": 1000,
        "security_protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_is_translated(mechanism: str, name: str) -> None:
    translated = translate_for_kafka_python(
        {
            **SERVERS,
            "security.protocol": "sasl_plaintext",
            name: mechanism,
            "sasl.username": "ann",
            "sasl.password": "pw",
        }
    )
    assert translated == {
        "bootstrap_servers": ["one:9092", "two:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": "pw",
    }


@pytest.mark.parametrize(
    "setting",
    [
        {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"},
        {"sasl.oauthbearer.token.endpoint.url": "https://login.example"},
        {"ssl.keystore.location": "/keys/client.p12"},
        {"ssl.cipher.suites": "AES"},
        {"plugin.library.paths": "monitoring"},
    ],
)
def test_a_setting_that_kafka_python_does_not_have_is_refused(setting: dict[str, str]) -> None:
    with pytest.raises(WrongUseError, match=next(iter(setting)).replace(".", r"\.")):
        translate_for_kafka_python({**SERVERS, **setting})


def test_certificates_come_from_files_or_as_text(certificate: tuple[str, str, str], tmp_path: Path) -> None:
    signed, key, _ = certificate
    for name, text in (("ca", signed), ("certificate", signed), ("key", key)):
        (tmp_path / name).write_text(text)
    for form, values in (
        ("location", {name: str(tmp_path / name) for name in ("ca", "certificate", "key")}),
        ("pem", {"ca": signed, "certificate": signed, "key": key}),
    ):
        settings = {f"ssl.{name}.{form}": value for name, value in values.items()}
        context = translate_for_kafka_python({**SERVERS, "security.protocol": "ssl", **settings})["ssl_context"]
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname
        assert len(context.get_ca_certs()) >= 1


def test_an_encrypted_key_never_asks_for_its_password_at_the_terminal(
    certificate: tuple[str, str, str],
) -> None:
    signed, _, locked = certificate
    settings = {**SERVERS, "security.protocol": "ssl", "ssl.certificate.pem": signed, "ssl.key.pem": locked}

    assert "ssl_context" in translate_for_kafka_python({**settings, "ssl.key.password": "secret"})
    with pytest.raises(WrongUseError, match=r"ssl\.key\.password is missing"):
        translate_for_kafka_python(settings)
    with pytest.raises(WrongUseError) as caught:
        translate_for_kafka_python({**settings, "ssl.key.password": "canary"})
    assert "canary" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "verified", "named"),
    [
        ({}, ssl.CERT_REQUIRED, True),
        ({"ssl.endpoint.identification.algorithm": "none"}, ssl.CERT_REQUIRED, False),
        ({"enable.ssl.certificate.verification": "false"}, ssl.CERT_NONE, False),
    ],
)
def test_the_settings_decide_what_is_verified(setting: dict[str, str], verified: ssl.VerifyMode, named: bool) -> None:
    context = translate_for_kafka_python({**SERVERS, "security.protocol": "ssl", **setting})["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (verified, named)


def test_a_file_that_does_not_exist_is_an_invalid_setting() -> None:
    with pytest.raises(WrongUseError, match="certificates"):
        translate_for_kafka_python({**SERVERS, "security.protocol": "ssl", "ssl.ca.location": "no/such/file"})


def test_no_password_is_in_a_log_or_an_error(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.kafka.batches.reader.ANSWER_SECONDS", 0.5)
    with socket.create_server((ports.LOOPBACK, 0)) as silent:  # takes connections, and never answers
        settings = {
            "bootstrap.servers": f"{ports.LOOPBACK}:{silent.getsockname()[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "canary",
        }
        with caplog.at_level(logging.DEBUG), pytest.raises(KafkaError) as caught:
            SecondReader(settings)

    assert "configuration" in caplog.text, "kafka-python logs its settings no more: then this says nothing"
    assert "canary" not in caplog.text
    assert "canary" not in str(caught.value) + repr(translate_for_kafka_python(settings))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kafka-io")]


def test_settings_are_translated_for_java_s_client(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("PEM")
    translated = translate_for_java(
        {
            "bootstrap.servers": "b:9092",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'qu"ote\\',
            "ssl.ca.location": str(authority),
            "queued.min.messages": "5",
        }
    )
    assert translated == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="qu\\"ote\\\\";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "PEM",
    }


def test_a_security_setting_that_java_s_client_does_not_have_is_refused() -> None:
    with pytest.raises(WrongUseError, match=r"ssl\.engine\.location"):
        translate_for_java({"bootstrap.servers": "b:9092", "ssl.engine.location": "x"})


def _read_natively(settings: dict[str, str]) -> object:
    return open_consumer(Source(settings, "orders", "read_committed"))


def _read_first(settings: dict[str, str]) -> object:
    return read_first_records(settings, "orders", {0: 0}, "read_committed")


@pytest.mark.parametrize("ask", [connect, _read_natively, _read_first, SecondReader])
@pytest.mark.parametrize(
    "refused",
    [
        {"socket.timeout.ms": "soon"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "NONE"},
        {"error_cb": "print"},
    ],
    ids=" ".join,
)
def test_settings_that_a_client_refuses_are_wrong_use(ask: Callable[[Any], object], refused: dict[str, str]) -> None:
    with pytest.raises(WrongUseError) as raised:
        ask({"bootstrap.servers": "127.0.0.1:1", **refused})
    assert raised.value.exit_code == 2
    assert "correct the settings" in raised.value.next_step or "other settings" in raised.value.next_step
