"""Airflow's connections become settings of Penstock, or an error that names the connection to create."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict


def read(folder: Path, **connections: str) -> dict[str, Any]:
    """Read connections that the environment gives, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    given = {f"AIRFLOW_CONN_{name.upper()}": value for name, value in connections.items()}
    report = folder / "report.json"
    argv = [sys.executable, str(Path(__file__).with_name("describe_connections.py")), str(report)]
    environment = kept | given | {"AIRFLOW_HOME": str(folder)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(report.read_text(encoding="utf-8")))


def test_connections_become_settings_with_any_characters_in_a_password(tmp_path: Path) -> None:
    db = {
        "conn_type": "postgres",
        "host": "db.example",
        "port": 6543,
        "login": "loader",
        "password": "p@ss/word:% ?#",
        "schema": "shop",
        "extra": {"sslmode": "require"},
    }
    found = read(
        tmp_path,
        penstock_db=json.dumps(db),
        kafka_default=json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "k:9092", "linger.ms": 5}}),
        spark_default="spark://master:7077",
        alerts=json.dumps({"conn_type": "generic", "password": "json://one/\njson://two/"}),
    )
    assert conninfo_to_dict(found["db"]) == {
        "host": "db.example",
        "port": "6543",
        "user": "loader",
        "password": "p@ss/word:% ?#",
        "dbname": "shop",
        "sslmode": "require",
    }
    assert found["kafka"] == {"bootstrap.servers": "k:9092", "linger.ms": "5"}
    assert found["spark"] == "spark://master:7077"
    assert found["alerts"] == ["json://one/", "json://two/"]


def test_a_connection_of_spark_connect_is_the_address_of_a_kept_server(tmp_path: Path) -> None:
    server = {"conn_type": "spark_connect", "host": "server", "port": 15002, "password": "a;b=c"}
    assert read(tmp_path, spark_default=json.dumps(server))["spark"] == "sc://server:15002/;token=a%3Bb%3Dc"
    behind = server | {"extra": {"use_ssl": True}, "login": "me"}
    address = "sc://server:15002/;user_id=me;token=a%3Bb%3Dc;use_ssl=True"
    assert read(tmp_path, spark_default=json.dumps(behind))["spark"] == address
    nowhere = read(tmp_path, spark_default=json.dumps({"conn_type": "spark_connect"}))["spark"]
    assert "names the master spark_connect://" in nowhere


def test_a_missing_connection_is_named_and_spark_never_falls_back_to_yarn(tmp_path: Path) -> None:
    found = read(tmp_path)
    for name, connection in {"db": "penstock_db", "kafka": "kafka_default", "spark": "spark_default"}.items():
        assert found[name].startswith(f"there is no Airflow connection {connection}.")
        assert f"AIRFLOW_CONN_{connection.upper()}" in found[name]


def test_an_error_of_an_invalid_connection_names_the_value_to_enter(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        kafka_default=json.dumps({"conn_type": "kafka"}),
        spark_default=json.dumps({"conn_type": "spark", "host": "yarn"}),
    )
    assert "names no bootstrap.servers" in found["kafka"]
    assert "names the master yarn" in found["spark"]


def test_a_connection_with_unknown_options_is_refused_without_a_quote_of_it(tmp_path: Path) -> None:
    db = {"conn_type": "postgres", "host": "db", "login": "u", "password": "canary", "extra": {"canary_option": "x"}}

    found = read(tmp_path, penstock_db=json.dumps(db))

    assert found["db"].startswith("the Airflow connection penstock_db cannot be read as a URI")
    assert "canary" not in found["db"]
