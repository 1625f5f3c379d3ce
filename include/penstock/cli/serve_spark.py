"""`penstock serve-spark`: a Spark Connect server that loads share."""

# Typer reads the annotations when the program runs, so they are not postponed here.
import os
from typing import Annotated

import typer

from penstock.cli import output


def serve_spark(
    *,
    host: Annotated[str, typer.Option(help="The address on which the server listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on which the server listens.")] = 15002,
    master: Annotated[
        str, typer.Option(help="Where its tasks run: local[*], or the master of a cluster such as spark://host:7077.")
    ] = "local[*]",
) -> None:
    """Run a Spark server that many loads share, until it is stopped."""
    from penstock.spark.server import run_server

    with output.exit_on_error(as_json=False):
        run_server(host, port, master, os.environ)
