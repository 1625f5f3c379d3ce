"""The server of kept Spark: how `penstock serve-spark`, the embedded stack and the compose file start it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError
from penstock.settings import CONNECT_TOKEN
from penstock.spark.submit import (
    CONF,
    LOCAL_CONF,
    find_spark_jars,
    find_spark_submit,
    make_spark_environment,
    tolerate_failures,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
SERVER_CONF = {
    # The job of a client that was killed is cancelled within 30 s. The server notices the client's death only when a
    # stream of answers ends, and a living client opens the next one. By Spark's defaults this takes up to 7 minutes.
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "10s",
    "spark.connect.execute.manager.detachedTimeout": "15s",
    "spark.connect.execute.manager.maintenanceInterval": "5s",
    # All loads share a session. It lasts as long as the server, so that its Python daemon does too.
    "spark.connect.session.manager.defaultSessionTimeout": "-1",
    # Workers that wait for a task, beyond which the one that waits longest ends.
    "spark.python.factory.idleWorkerMaxPoolSize": "16",
}


def make_server_command(host: str, port: int, master: str) -> list[str]:
    """Make the command of the server. It holds no secret: the server reads its token from its environment."""
    bound = {"spark.connect.grpc.binding.address": host, "spark.connect.grpc.binding.port": str(port)}
    conf = CONF | SERVER_CONF | bound | (LOCAL_CONF if master.startswith("local") else {})
    jars = _find_jars()
    return [
        str(find_spark_submit()),
        *("--class", MAIN, "--name", "penstock", "--master", tolerate_failures(master)),
        *(("--jars", jars) if jars else ()),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]


def _find_jars() -> str:
    """The jars of Spark's Kafka source, if they are there: `reader: spark` and `penstock verify` need them."""
    try:
        return ",".join(map(str, find_spark_jars()))
    except WrongUseError:
        return ""


def run_server(host: str, port: int, master: str, environment: Mapping[str, str]) -> None:
    """Become the server: its process replaces this one. A server without a token is refused, for it runs any code."""
    if not environment.get(CONNECT_TOKEN):
        raise WrongUseError(f"{CONNECT_TOKEN} is not set.", next_step=advice.SECURE_SERVER)
    command = make_server_command(host, port, master)
    os.execvpe(command[0], command, {**environment, **make_spark_environment(master)})  # noqa: S606 - it needs no shell
