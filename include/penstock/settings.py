"""The settings, read from the environment at entry points and nowhere else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Mapping

DB, KAFKA, PIPELINES, SPARK_MASTER = "PENSTOCK_DB", "PENSTOCK_KAFKA", "PENSTOCK_PIPELINES", "PENSTOCK_SPARK_MASTER"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the services are. The fields that may hold a password stay out of its repr."""

    db: str = field(repr=False)
    kafka: Mapping[str, str] = field(repr=False)
    pipelines: Path
    spark_master: str


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings from an environment; everything that is missing is named at once."""
    missing = [name for name in (DB, KAFKA) if not environment.get(name)]
    if missing:
        raise WrongUseError(
            f"{' and '.join(missing)} not set.",
            next_step="set PENSTOCK_DB to a PostgreSQL URI and PENSTOCK_KAFKA to bootstrap servers or the path of a "
            "properties file; `penstock stack status --json` prints both of an embedded stack.",
        )
    return Settings(
        db=environment[DB],
        kafka=read_kafka(environment[KAFKA]),
        pipelines=Path(environment.get(PIPELINES, "include/pipelines")),
        spark_master=environment.get(SPARK_MASTER, "local[*]"),
    )


def read_kafka(value: str) -> dict[str, str]:
    """Read bootstrap servers, or the path of a properties file with the client's settings (librdkafka's names)."""
    if value.startswith("{"):  # the settings themselves, as JSON: so a Spark driver is handed them
        return {str(name): str(setting) for name, setting in json.loads(value).items()}
    path = Path(value)
    if not path.is_file():
        if "/" in value:
            raise WrongUseError(
                f"{KAFKA} looks like a path, and there is no file {value}.",
                next_step="give bootstrap servers such as localhost:9092, or a properties file that exists.",
            )
        return {"bootstrap.servers": value}
    return parse_properties(path.read_text(encoding="utf-8"), str(path))


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Parse `name=value` lines; blank lines and lines that begin with # are passed over."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise WrongUseError(f"{source}:{number}: not of the form name=value.", next_step="mend the line.")
        settings[name.strip()] = value.strip()
    if "bootstrap.servers" not in settings:
        raise WrongUseError(f"{source}: bootstrap.servers is missing.", next_step="add the line bootstrap.servers=…")
    return settings
