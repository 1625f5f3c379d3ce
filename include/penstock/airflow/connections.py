"""Airflow's connections as settings of Penstock. Tasks read them; DAG files do not read them while they are parsed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from penstock.errors import WrongUseError
from penstock.settings import read_db as read_uri

if TYPE_CHECKING:
    from penstock.settings import Settings

DB, DB_CHECKER = "penstock_db", "penstock_db_checker"
SPARK = "spark_default"


def read_settings(kafka: str) -> Settings:
    """Read the settings of the stage step, as the command line reads them from the environment."""
    from penstock.airflow.declarations import find_folder
    from penstock.settings import RUST, TRANSFORMS, Settings, read_switch

    return Settings(
        db=read_db(),
        kafka=read_kafka(kafka),
        pipelines=find_folder(),
        spark_master=read_spark_master(),
        transforms=Path(os.environ[TRANSFORMS]) if os.environ.get(TRANSFORMS) else None,
        rust=read_switch(os.environ, RUST),
    )


def read_db() -> str:
    """Read the URI of the database that holds the ledger and the targets."""
    return _make_uri(_read(DB, "postgres"), DB)


def read_db_checker() -> str | None:
    """Read the URI of the same database for the checks; None if the checks have no login of their own."""
    try:
        return _make_uri(Connection.get(DB_CHECKER), DB_CHECKER)
    except AirflowNotFoundException:
        return None


def _make_uri(found: Connection, connection_id: str) -> str:
    user = quote(found.login or "", safe="")
    password = f":{quote(found.password, safe='')}" if found.password else ""
    port = f":{found.port}" if found.port else ""
    options = urlencode({name: str(value) for name, value in found.extra_dejson.items()}, quote_via=quote)
    address = f"{user}{password}{'@' if user else ''}{found.host or ''}{port}/{found.schema or ''}"
    uri = f"postgresql://{address}{'?' if options else ''}{options}"
    return read_uri(uri, f"the Airflow connection {connection_id}")


def read_kafka(connection_id: str) -> dict[str, str]:
    """Read the settings of the Kafka client from a connection of Airflow's Kafka provider."""
    settings = {name: str(value) for name, value in _read(connection_id, "kafka").extra_dejson.items()}
    if not settings.get("bootstrap.servers"):
        raise WrongUseError(
            f"the Airflow connection {connection_id} names no bootstrap.servers.",
            next_step='put {"bootstrap.servers": "host:port"} into its extra.',
        )
    return settings


def read_kafka_of(load_id: int) -> dict[str, str]:
    """Read the settings of the Kafka client that the declaration of a load names."""
    from penstock.ledger.connection import open_ledger
    from penstock.ledger.load import read_load

    with open_ledger(read_db()) as connection:
        return read_kafka(read_load(connection, load_id).declaration.kafka)


def read_spark_master() -> str:
    """Read the Spark master. It is read first, because without the connection the provider submits to `yarn`."""
    found = _read(SPARK, "spark")
    if found.conn_type == "spark_connect" and found.host:
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        return str(SparkConnectHook(SPARK).get_connection_url())
    master = found.host or ""
    if found.conn_type != "spark" or (found.port and "://" not in master):
        # If the connection is given as a URI, Airflow makes the scheme of the master the connection's type.
        master = f"{found.conn_type}://{master}"
    master = f"{master}:{found.port}" if found.port else str(master)
    if not master.startswith(("local", "spark://")):
        raise WrongUseError(
            f"the Airflow connection {SPARK} names the master {master or '(none)'}.",
            next_step="enter local[*] or spark://host:7077 as its host, because the driver runs beside the task; or "
            "choose the type spark_connect, for a server that is kept running.",
        )
    return master


def read_alert_urls(connection_id: str) -> list[str]:
    """Read the apprise URLs of a connection; they hold tokens."""
    from penstock.alerts.delivery import read_alert_targets

    found = _read(connection_id, "generic")
    return read_alert_targets(found.password, found.host, found.extra_dejson)


def _read(connection_id: str, kind: str) -> Connection:
    try:
        return Connection.get(connection_id)
    except AirflowNotFoundException as error:
        raise WrongUseError(
            f"there is no Airflow connection {connection_id}.",
            next_step=f"create it (type {kind}) under Admin, Connections, or as AIRFLOW_CONN_{connection_id.upper()}.",
        ) from error
