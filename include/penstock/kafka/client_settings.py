"""Kafka settings by librdkafka's names, translated for the other clients: Java's and kafka-python.

A setting for tuning that has no translation is left out. A setting for connecting or for security that has none is an
error, because a client that ignores it connects in another way than the user declared.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS = {*LOGIN, "GSSAPI"}
# The prefixes of settings that concern security.
SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl", "enable.sasl")

# For Java's client
JAVA_SAME = ("bootstrap.servers", "client.id", "client.dns.lookup", "client.rack", "metadata.max.age.ms",
        "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password",
        "sasl.kerberos.service.name", "sasl.oauthbearer.scope")  # fmt: skip
JAVA_RENAMED = {"socket.timeout.ms": "request.timeout.ms", "metadata.broker.list": "bootstrap.servers"}
# Translated below, several of them together.
JAVA_TRANSLATED = {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
           "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
           "ssl.key.location", "ssl.key.pem", "ssl.endpoint.identification.algorithm"}  # fmt: skip

# For kafka-python
CONNECTING = {
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
MILLISECONDS = {
    "socket.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
# Translated below, several of them together.
TRANSLATED = {
    "bootstrap.servers", "metadata.broker.list", "security.protocol", "sasl.mechanism", "sasl.mechanisms",
    "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
    "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.crl.location",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
}  # fmt: skip
# The prefixes of settings that do not concern connecting: sizes, times, consumer groups, logging.
TUNING = (
    "acks", "allow.auto.", "api.version.", "auto.", "batch.", "broker.address.", "broker.version.", "check.crcs",
    "client.rack", "compression.", "consume.", "coordinator.", "debug", "default.topic.", "delivery.", "dr_",
    "enable.auto.", "enable.gapless.", "enable.idempotence", "enable.metrics.", "enable.partition.", "enable.random.",
    "fetch.", "group.", "heartbeat.", "isolation.level", "linger.", "log", "max.", "message.", "metadata.recovery.",
    "metadata.refresh.", "metadata.topic.", "offset.", "partition", "queue", "receive.", "request.", "retries",
    "retry.", "session.", "socket.", "statistics.", "sticky.", "topic.", "transaction",
)  # fmt: skip


class Hidden(str):
    """A password that its repr does not show: kafka-python logs its settings at the level DEBUG."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def translate_for_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate the settings for Java's client; a setting of security without a translation is an error."""
    unknown = [
        name for name in settings if name.startswith(SECURITY) and name not in JAVA_TRANSLATED and name not in JAVA_SAME
    ]  # fmt: skip
    if unknown:
        raise WrongUseError(
            f"`reader: spark` cannot pass {', '.join(sorted(unknown))} to the Java client: it has no such setting.",
            next_step=advice.USE_NATIVE_READER,
        )
    translated = {name: settings[name] for name in JAVA_SAME if name in settings}
    translated |= {theirs: settings[ours] for ours, theirs in JAVA_RENAMED.items() if ours in settings}
    if "security.protocol" in settings:
        translated["security.protocol"] = settings["security.protocol"].upper()
    return translated | _translate_java_login(settings) | _translate_java_ssl(settings)


def _translate_java_login(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms")
    if mechanism is None:
        return {}
    translated = {"sasl.mechanism": mechanism}
    if mechanism in LOGIN:
        name, password = (_quote(settings.get(f"sasl.{part}", "")) for part in ("username", "password"))
        translated["sasl.jaas.config"] = f"{LOGIN[mechanism]} required username={name} password={password};"
    return translated


def _translate_java_ssl(settings: Mapping[str, str]) -> dict[str, str]:
    translated: dict[str, str] = {}
    authority = _read_pem(settings, "ssl.ca")
    if authority:
        translated |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    chain, key = _read_pem(settings, "ssl.certificate"), _read_pem(settings, "ssl.key")
    if chain and key:
        translated |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }
    elif "ssl.keystore.location" in settings:
        translated["ssl.keystore.type"] = "PKCS12"
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        translated["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return translated


def _read_pem(settings: Mapping[str, str], stem: str) -> str | None:
    """Read a certificate or a key. Its text is passed on, because an executor may not have the file."""
    if f"{stem}.pem" in settings:
        return settings[f"{stem}.pem"]
    path = settings.get(f"{stem}.location")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(
            f"{stem}.location does not name a PEM file that can be read.", next_step=advice.CORRECT_CERTIFICATES
        ) from error


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def translate_for_kafka_python(settings: Mapping[str, str]) -> dict[str, Any]:
    """Translate the settings for kafka-python; a setting for connecting without a translation is an error."""
    known = TRANSLATED | CONNECTING.keys() | MILLISECONDS.keys()
    unknown = sorted(name for name in settings if name not in known and _concerns_connecting(name))
    if unknown:
        raise _refuse(", ".join(unknown))
    servers = settings.get("bootstrap.servers") or settings.get("metadata.broker.list", "")
    translated: dict[str, Any] = {"bootstrap_servers": [server.strip() for server in servers.split(",")]}
    translated |= {theirs: settings[ours] for ours, theirs in CONNECTING.items() if ours in settings}
    translated |= {theirs: _read_number(settings, ours) for ours, theirs in MILLISECONDS.items() if ours in settings}
    protocol = settings.get("security.protocol", "plaintext").upper()
    translated["security_protocol"] = protocol
    if protocol.startswith("SASL"):
        translated |= _translate_login(settings)
    if protocol.endswith("SSL"):
        translated["ssl_context"] = _make_context(settings)
    return translated


def _read_number(settings: Mapping[str, str], name: str) -> int:
    try:
        return int(settings[name])
    except ValueError:
        raise WrongUseError(f"{name} is not a whole number.", next_step=advice.CORRECT_KAFKA_SETTINGS) from None


def _concerns_connecting(name: str) -> bool:
    return name.startswith(SECURITY) or not name.startswith(TUNING)


def _translate_login(settings: Mapping[str, str]) -> dict[str, Any]:
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise _refuse(f"sasl.mechanism={mechanism}")
    translated: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism in LOGIN:
        translated["sasl_plain_username"] = settings.get("sasl.username", "")
        translated["sasl_plain_password"] = Hidden(settings.get("sasl.password", ""))
    return translated


def _make_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if settings.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        if settings.keys() & {"ssl.ca.location", "ssl.ca.pem"}:
            context.load_verify_locations(settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem"))
        if "ssl.crl.location" in settings:
            context.load_verify_locations(settings["ssl.crl.location"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        _load_certificate(context, settings)
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors; none of them shows the content of a key
        raise WrongUseError(
            f"the certificates in the Kafka settings cannot be read: {error}.", next_step=advice.CORRECT_CERTIFICATES
        ) from error
    return context


def _load_certificate(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """Load certificate and key. Python reads files only, so texts are written to a private file for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        paths = dict[str, str]()
        for stem in ("ssl.certificate", "ssl.key"):
            path = settings.get(f"{stem}.location")
            if f"{stem}.pem" in settings:
                path = f"{folder}/{stem}.pem"
                with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - the folder is of mode 0700
                    file.write(settings[f"{stem}.pem"])
            if path is not None:
                paths[stem] = path
        if "ssl.certificate" in paths:
            password = settings.get("ssl.key.password")
            context.load_cert_chain(paths["ssl.certificate"], paths.get("ssl.key"), password or _raise_missing_password)


def _raise_missing_password() -> str:
    """Raise an error. Without this function OpenSSL would ask for the password at the terminal."""
    raise ValueError("the key is encrypted, and ssl.key.password is missing")


def _refuse(what: str) -> WrongUseError:
    return WrongUseError(
        f"the second reader of holes cannot use {what}: its client, kafka-python, has no such setting.",
        next_step=advice.OTHER_SETTINGS_FOR_HOLES,
    )
