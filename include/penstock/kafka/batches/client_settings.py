"""Kafka settings by librdkafka's names, in the names and forms of kafka-python."""

from __future__ import annotations

import ssl
import tempfile
from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.errors import WrongUseError
from penstock.kafka.readers.java_settings import LOGIN, SECURITY

if TYPE_CHECKING:
    from collections.abc import Mapping

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
MECHANISMS = {*LOGIN, "GSSAPI"}
# Read together, below.
HANDLED = {
    "bootstrap.servers", "metadata.broker.list", "security.protocol", "sasl.mechanism", "sasl.mechanisms",
    "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
    "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.crl.location",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
}  # fmt: skip
# How much, how often and how fast; which consumer group; what is logged: not how to connect.
TUNING = (
    "acks", "allow.auto.", "api.version.", "auto.", "batch.", "broker.address.", "broker.version.", "check.crcs",
    "client.rack", "compression.", "consume.", "coordinator.", "debug", "default.topic.", "delivery.", "dr_",
    "enable.auto.", "enable.gapless.", "enable.idempotence", "enable.metrics.", "enable.partition.", "enable.random.",
    "fetch.", "group.", "heartbeat.", "isolation.level", "linger.", "log", "max.", "message.", "metadata.recovery.",
    "metadata.refresh.", "metadata.topic.", "offset.", "partition", "queue", "receive.", "request.", "retries",
    "retry.", "session.", "socket.", "statistics.", "sticky.", "topic.", "transaction",
)  # fmt: skip


class Hidden(str):
    """A password that no repr shows: kafka-python logs its settings when it debugs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def translate_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Translate the settings; one that has no translation and matters for connecting is refused."""
    known = HANDLED | CONNECTING.keys() | MILLISECONDS.keys()
    unknown = sorted(name for name in settings if name not in known and _matters(name))
    if unknown:
        raise _refuse(", ".join(unknown))
    servers = settings.get("bootstrap.servers") or settings.get("metadata.broker.list", "")
    translated: dict[str, Any] = {"bootstrap_servers": [server.strip() for server in servers.split(",")]}
    translated |= {theirs: settings[ours] for ours, theirs in CONNECTING.items() if ours in settings}
    translated |= {theirs: int(settings[ours]) for ours, theirs in MILLISECONDS.items() if ours in settings}
    protocol = settings.get("security.protocol", "plaintext").upper()
    translated["security_protocol"] = protocol
    if protocol.startswith("SASL"):
        translated |= _translate_login(settings)
    if protocol.endswith("SSL"):
        translated["ssl_context"] = _make_context(settings)
    return translated


def _matters(name: str) -> bool:
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
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors; none of them shows what a key holds
        raise WrongUseError(
            f"the certificates in the Kafka settings cannot be read: {error}.", next_step=advice.CORRECT_CERTIFICATES
        ) from error
    return context


def _load_certificate(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """Python takes certificates and keys as files only: what is given as text is in one for a moment, for us alone."""
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
            context.load_cert_chain(paths["ssl.certificate"], paths.get("ssl.key"), password or _refuse_to_ask)


def _refuse_to_ask() -> str:
    """Without this, OpenSSL would ask at the terminal."""
    raise ValueError("the key is encrypted, and ssl.key.password is not given")


def _refuse(what: str) -> WrongUseError:
    return WrongUseError(
        f"the second reader of holes cannot be handed {what}: its client, kafka-python, knows no such setting.",
        next_step=advice.OTHER_SETTINGS_FOR_HOLES,
    )
