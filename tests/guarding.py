"""A guarded broker: its own listener allows all; the other listeners, over TLS, enforce the rights of users."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock_stack import ports
from penstock_stack.broker import Broker

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "secret of ann"


@dataclass(frozen=True, slots=True)
class Guarded:
    """The broker, and how its users connect: ann by her password, bob by his certificate."""

    broker: Broker
    ann: dict[str, str]
    bob: dict[str, str]

    def start(self) -> None:
        """Start the broker, and give ann her password."""
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        login = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        given = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("ann", login, PASSWORD.encode())])
        given["ann"].result(30)

    def allow(self, user: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Allow a user an operation."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        principal = {"ann": "User:ann", "bob": "User:CN=bob"}[user]
        for operation in operations:
            rule = (ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)
            for done in admin.create_acls([AclBinding(kind, name, *rule)]).values():
                done.result(30)


def guard(folder: Path) -> Guarded:
    """Make the broker; it is not started yet."""
    folder.mkdir(parents=True)
    authority = _Authority(folder / "ca.pem")
    authority.certify("127.0.0.1", folder / "broker.pem")
    authority.certify("bob", folder / "bob.pem")
    port, controller_port, by_password, by_certificate = ports.choose(4)
    own = f"PLAINTEXT://{ports.LOOPBACK}:{port}"
    guarded = f"SASL_SSL://{ports.LOOPBACK}:{by_password},SSL://{ports.LOOPBACK}:{by_certificate}"
    broker = Broker(
        folder / "guarded",
        port,
        controller_port,
        settings={
            "listeners": f"{own},CONTROLLER://{ports.LOOPBACK}:{controller_port},{guarded}",
            "advertised.listeners": f"{own},{guarded}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    return Guarded(
        broker,
        ann={
            "bootstrap.servers": f"{ports.LOOPBACK}:{by_password}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(folder / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": PASSWORD,
        },
        bob={
            "bootstrap.servers": f"{ports.LOOPBACK}:{by_certificate}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(folder / "ca.pem"),
            "ssl.certificate.location": str(folder / "bob.pem"),
            "ssl.key.location": str(folder / "bob.pem"),
        },
    )


class _Authority:
    """The authority that signs the certificates."""

    def __init__(self, path: Path) -> None:
        self.name = _name("the authority of the tests")
        self.key = ec.generate_private_key(ec.SECP256R1())
        made = self._make(self.name, self.key, x509.BasicConstraints(ca=True, path_length=None))
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def certify(self, who: str, path: Path) -> None:
        """Write a key and its certificate into one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.SubjectAlternativeName(
            [x509.IPAddress(ip_address(who)) if who[0].isdigit() else x509.DNSName(who)]
        )
        made = self._make(_name(who), key, named)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))

    def _make(self, who: x509.Name, key: ec.EllipticCurvePrivateKey, more: x509.ExtensionType) -> x509.Certificate:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder(self.name, who, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        return made.add_extension(more, critical=False).sign(self.key, hashes.SHA256())


def _name(who: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)])
