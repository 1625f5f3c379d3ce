"""Kafka settings by librdkafka's names, in the names and forms of the Java client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Mapping

SAME = ("bootstrap.servers", "client.id", "client.dns.lookup", "client.rack", "metadata.max.age.ms",
        "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password",
        "sasl.kerberos.service.name", "sasl.oauthbearer.scope")  # fmt: skip
RENAMED = {"socket.timeout.ms": "request.timeout.ms", "metadata.broker.list": "bootstrap.servers"}
LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Read together, below; the rest of these families must not be dropped without a word.
SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl", "enable.sasl")
HANDLED = {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
           "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
           "ssl.key.location", "ssl.key.pem", "ssl.endpoint.identification.algorithm"}  # fmt: skip


def translate_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate the settings; one of security that has no translation is refused, one of tuning is left out."""
    unknown = [
        name for name in settings if name.startswith(SECURITY) and name not in HANDLED and name not in SAME
    ]  # fmt: skip
    if unknown:
        raise WrongUseError(
            f"`reader: spark` cannot hand {', '.join(sorted(unknown))} to the Java client.",
            next_step=advice.USE_NATIVE_READER,
        )
    translated = {name: settings[name] for name in SAME if name in settings}
    translated |= {theirs: settings[ours] for ours, theirs in RENAMED.items() if ours in settings}
    if "security.protocol" in settings:
        translated["security.protocol"] = settings["security.protocol"].upper()
    return translated | _translate_login(settings) | _translate_ssl(settings)


def _translate_login(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms")
    if mechanism is None:
        return {}
    translated = {"sasl.mechanism": mechanism}
    if mechanism in LOGIN:
        name, password = (_quote(settings.get(f"sasl.{part}", "")) for part in ("username", "password"))
        translated["sasl.jaas.config"] = f"{LOGIN[mechanism]} required username={name} password={password};"
    return translated


def _translate_ssl(settings: Mapping[str, str]) -> dict[str, str]:
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
    """Certificates and keys travel by their text: an executor need not have the file."""
    if f"{stem}.pem" in settings:
        return settings[f"{stem}.pem"]
    path = settings.get(f"{stem}.location")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(
            f"{stem}.location is no PEM file that can be read.", next_step=advice.CORRECT_CERTIFICATES
        ) from error


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
