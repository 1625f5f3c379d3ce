"""Receivers of alerts: a webhook that listens, a server that never answers, a port without a listener."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Receiver:
    """A webhook on the loopback address that stores the JSON documents it gets."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.wait = 0.0
        self.stopped = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.stopped.wait(receiver.wait)
                receiver.messages.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.server.server_address[1]}/hook/s3cr3t-token"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Silence:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.server.getsockname()[1]}/?cto=600&rto=600"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()


def refused_port() -> int:
    """A port without a listener."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])
