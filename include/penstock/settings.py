"""The settings, read from the environment at entry points and nowhere else."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Mapping

DB, KAFKA, PIPELINES, SPARK_MASTER = "PENSTOCK_DB", "PENSTOCK_KAFKA", "PENSTOCK_PIPELINES", "PENSTOCK_SPARK_MASTER"
KEPT, CONNECT_TOKEN = "sc://", "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # the token by the name that Spark reads
FOLDER = "transforms"  # beside the folder of the declarations
DB_CHECKER, TRANSFORMS = "PENSTOCK_DB_CHECKER", "PENSTOCK_TRANSFORMS"
RUST = "PENSTOCK_RUST"
LINEAGE, LINEAGE_TRANSPORT = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"), "OPENLINEAGE__TRANSPORT"
LINEAGE_NAMESPACE, LINEAGE_DISABLED = "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_DISABLED"
OTEL_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
OTEL = (
    *OTEL_ENDPOINTS, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_METRICS_EXPORTER",
    "OTEL_SDK_DISABLED",
)  # fmt: skip
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
PORTS = re.compile(r"[0-9]*(,[0-9]*)*")


@dataclass(frozen=True, slots=True)
class Settings:
    """The addresses of the services. Fields that may hold a password are left out of the repr."""

    db: str = field(repr=False)
    kafka: Mapping[str, str] = field(repr=False)
    pipelines: Path
    spark_master: str = field(repr=False)  # the address of a kept server may have its token
    db_checker: str | None = field(default=None, repr=False)
    transforms: Path | None = None  # the folder of transforms
    lineage: str | None = None  # the namespace of OpenLineage's jobs; None if no variable names a receiver
    rust: bool = True  # whether the record path in Rust takes the records, where it is installed

    @property
    def keeps_spark(self) -> bool:
        """Whether the master is a Spark Connect server that is kept running."""
        return self.spark_master.startswith(KEPT)

    def find_transforms(self) -> Path:
        """The folder of transforms; without one, that beside the folder of the declarations."""
        return self.transforms or self.pipelines.parent / FOLDER


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings from an environment. The error names all missing variables."""
    missing = [name for name in (DB, KAFKA) if not environment.get(name)]
    if missing:
        raise WrongUseError(
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set.",
            next_step="set PENSTOCK_DB to a PostgreSQL URI and PENSTOCK_KAFKA to bootstrap servers or the path of a "
            "properties file; `penstock stack status --json` prints both of an embedded stack.",
        )
    return Settings(
        db=read_db(environment[DB]),
        kafka=read_kafka(environment[KAFKA]),
        pipelines=Path(environment.get(PIPELINES, "include/pipelines")),
        spark_master=read_master(environment),
        db_checker=read_db(environment[DB_CHECKER], DB_CHECKER) if environment.get(DB_CHECKER) else None,
        transforms=Path(environment[TRANSFORMS]) if environment.get(TRANSFORMS) else None,
        lineage=read_lineage(environment),
        rust=read_switch(environment, RUST),
    )


def read_switch(environment: Mapping[str, str], name: str) -> bool:
    """Read a variable that is `on` or `off`; without it the switch is on."""
    value = environment.get(name) or "on"
    if value not in ("on", "off"):
        raise WrongUseError(f"{name} is neither on nor off.", next_step=f"set {name}=off, or remove it.")
    return value == "on"


def read_master(environment: Mapping[str, str]) -> str:
    """Read the Spark master. The token of a kept server may stand in Spark's own variable."""
    master, token = environment.get(SPARK_MASTER, "local[*]"), environment.get(CONNECT_TOKEN)
    if not master.startswith(KEPT) or not token or ";token=" in master:
        return master
    return f"{master if '/;' in master else master.rstrip('/') + '/'};token={quote(token, safe='')}"


def read_lineage(environment: Mapping[str, str]) -> str | None:
    """Read the namespace of OpenLineage's jobs; None if no variable names a receiver, or if OpenLineage is disabled.

    Without a receiver the client of OpenLineage would print its events. It reads the other variables itself.
    """
    named = [name for name in environment if name in LINEAGE or name.startswith(LINEAGE_TRANSPORT)]
    if not any(environment[name] for name in named) or environment.get(LINEAGE_DISABLED, "").lower() in ("true", "1"):
        return None
    return environment.get(LINEAGE_NAMESPACE) or "default"


@dataclass(frozen=True, slots=True)
class Exporter:
    """An exporter of OpenTelemetry. Its endpoint is None if the exporter itself reads it from the environment."""

    protocol: Literal["http", "grpc"] = "http"
    endpoint: str | None = None


def read_exporter(environment: Mapping[str, str]) -> Exporter | None:
    """Read which exporter of metrics the standard variables of OpenTelemetry configure; None if none.

    The exporter reads the other variables itself: headers, certificates, time limit, compression.
    """
    named = {name: environment.get(name, "") for name in OTEL}
    if not any(named[name] for name in OTEL_ENDPOINTS):
        return None
    if named["OTEL_SDK_DISABLED"].lower() == "true" or named["OTEL_METRICS_EXPORTER"] not in ("", "otlp"):
        return None
    protocol = named["OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"] or named["OTEL_EXPORTER_OTLP_PROTOCOL"]
    return Exporter("grpc" if protocol == "grpc" else "http")


def read_db(value: str, source: str = DB) -> str:
    """Read a PostgreSQL URI, or libpq's `name=value` pairs. Errors quote no part of it: it may be the password."""
    fault = _find_fault(value)
    if fault:
        raise WrongUseError(
            f"{source} {fault}.",
            next_step="write it as postgresql://user:password@host:5432/database. In the password, write each "
            "character that is neither a letter nor a digit as % and two hexadecimal digits: %40 for @, %2F for /, "
            "%25 for %.",
        )
    return value


def _find_fault(value: str) -> str | None:
    import psycopg  # not at the top: Airflow imports this module while it parses DAGs
    from psycopg.conninfo import conninfo_to_dict

    is_uri = SCHEME.match(value)
    if is_uri and not value.startswith(("postgresql://", "postgres://")):
        return "is a URI of another kind: it must begin with postgresql://"
    try:
        found = conninfo_to_dict(value)
    except psycopg.Error:  # its message quotes the value
        if is_uri:
            return "cannot be read as a URI: it has a blank, a % without two hexadecimal digits, or an unknown option"
        return "is neither a PostgreSQL URI nor pairs of name=value"
    # libpq reads parts of a password with @ or / as a host, a port or a database, and quotes them in its errors.
    address = value.partition("?")[0] if is_uri else ""
    if address.count("@") > 1 or "@" in address.partition("://")[2].partition("/")[2]:
        return "cannot be read as a URI: its user, password or database has an @ or / that is not escaped"
    if not PORTS.fullmatch(str(found.get("port") or "")):
        return "has a port that is not a number"
    return None


def read_kafka(value: str) -> dict[str, str]:
    """Read bootstrap servers, or the path of a properties file with the client's settings (librdkafka's names)."""
    if value.startswith("{"):  # the settings themselves, as JSON: a Spark driver gets them in this form
        return _require_servers(_parse_json(value), KAFKA)
    path = Path(value)
    if not path.is_file():
        if "/" in value:
            named = "" if "@" in value or "://" in value else f" {value}"
            raise WrongUseError(
                f"{KAFKA} looks like a path, and the file{named} does not exist.",
                next_step="give bootstrap servers such as localhost:9092, or a properties file that exists.",
            )
        if "@" in value:
            raise WrongUseError(
                f"{KAFKA} has an @: bootstrap servers have no user and no password.",
                next_step="give bootstrap servers such as localhost:9092; write a login into a properties file.",
            )
        return _require_servers({"bootstrap.servers": value}, KAFKA)
    try:
        return parse_properties(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise WrongUseError(f"{path}: not UTF-8.", next_step="save the file as UTF-8.") from None  # it quotes bytes


def _parse_json(value: str) -> dict[str, str]:
    try:
        found = json.loads(value)
    except json.JSONDecodeError as error:
        raise WrongUseError(
            f"{KAFKA} begins like JSON and is not valid: {error.msg} at character {error.pos + 1}.",
            next_step='give an object such as {"bootstrap.servers": "localhost:9092"}, or a properties file.',
        ) from None
    wrong = [name for name, setting in found.items() if isinstance(setting, dict | list) or setting is None]
    if wrong:
        raise WrongUseError(
            f"{KAFKA}: {', '.join(wrong)} must be text or a number.", next_step="write each setting as text."
        )
    return {name: str(setting) for name, setting in found.items()}


def _require_servers(settings: dict[str, str], source: str) -> dict[str, str]:
    if not any(server.strip() for server in settings.get("bootstrap.servers", "").split(",")):
        raise WrongUseError(
            f"{source} names no bootstrap.servers.",
            next_step="name at least one broker as host:port, such as localhost:9092.",
        )
    return settings


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Parse `name=value` lines; blank lines and lines that begin with # are skipped."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise WrongUseError(f"{source}:{number}: not a line of the form name=value.", next_step="correct the line.")
        settings[name.strip()] = value.strip()
    return _require_servers(settings, source)
