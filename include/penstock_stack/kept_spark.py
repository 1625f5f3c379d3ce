"""A Spark server that loads share, in a folder of its own, on the loopback address."""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING

from penstock.settings import CONNECT_TOKEN, KEPT
from penstock_stack import ports, processes

if TYPE_CHECKING:
    from pathlib import Path


class KeptSpark(processes.RecordedProcess):
    """`penstock serve-spark`: its token and its log are in `folder`."""

    name = "Spark"
    option = "--spark-port"

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        self.port = port
        self.log = self.folder / "spark.log"

    def __repr__(self) -> str:
        return f"KeptSpark({str(self.folder)!r}, {self.port})"

    @property
    def token(self) -> str:
        """The token, without which the server refuses a client. It is made once; only its owner may read the file."""
        path = self.folder / "token"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".draft")
            draft.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
            draft.replace(path)
        return path.read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        """The address, with the token."""
        return f"{KEPT}{ports.LOOPBACK}:{self.port}/;token={self.token}"

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        if self.is_running():
            return
        self.stop()
        ports.refuse_taken(self.port, self.name, self.option)
        argv = [sys.executable, "-m", "penstock.cli.main", "serve-spark", "--port", str(self.port)]
        environment = {CONNECT_TOKEN: self.token}
        process = processes.start(argv, log=self.log, folder=self.folder.parent, extra=environment)
        processes.write_record(self._record, process)
        processes.await_start(process, self.is_running, 120, self.name, self.log)

    def stop(self, grace: float = 10.0) -> None:
        """Stop it by SIGTERM; kill it after the grace period."""
        super().stop(grace)

    def is_running(self) -> bool:
        """Whether it runs and listens."""
        return bool(self.pids()) and ports.is_served(self.port)
