"""Receivers of alerts, lineage and metrics: HTTP, mail, a server that never answers, a port without a listener."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any, Self

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

if TYPE_CHECKING:
    from email.message import EmailMessage


@dataclass(frozen=True)
class Request:
    """A request that an endpoint got."""

    path: str
    headers: dict[str, str]
    body: bytes


class Endpoint:
    """An HTTP server on the loopback address that stores the requests it gets."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.wait = 0.0
        self.status = 200
        self.asked, self.stopped = threading.Event(), threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.set()
                endpoint.stopped.wait(endpoint.wait)
                endpoint.take(Request(self.path, dict(self.headers), body))
                self.send_response(endpoint.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def take(self, request: Request) -> None:
        """Store a request."""
        self.requests.append(request)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Receiver(Endpoint):
    """A webhook that stores the JSON documents it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"json://{self.address}/hook/s3cr3t-token"

    def take(self, request: Request) -> None:
        self.messages.append(json.loads(request.body))


class GrpcCollector:
    """A server of OTLP over gRPC on the loopback address that stores the exports it gets."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.server = grpc.server(ThreadPoolExecutor(1))
        collector = self

        class Service(metrics_service_pb2_grpc.MetricsServiceServicer):  # type: ignore[misc]
            def Export(self, request: Any, _: object) -> ExportMetricsServiceResponse:  # noqa: N802
                collector.requests.append(request)
                return ExportMetricsServiceResponse()

        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Service(), self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(None).wait()


class Mailbox:
    """A mail server (SMTP, RFC 5321) on the loopback address that stores the mails it gets."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        mailbox = self

        class Session(StreamRequestHandler):
            def handle(self) -> None:
                self.answer("220 mailbox ESMTP")
                while line := self.rfile.readline():
                    command = line.split()[0].upper() if line.split() else b""
                    if command == b"DATA":
                        self.answer("354 end with a line that holds a dot")
                        mailbox.mails.append(self.read_mail())
                    self.answer("221 bye" if command == b"QUIT" else "250 mailbox")
                    if command == b"QUIT":
                        return

            def read_mail(self) -> EmailMessage:
                lines = iter(self.rfile.readline, b".\r\n")
                text = b"".join(line.removeprefix(b".") if line.startswith(b"..") else line for line in lines)
                return message_from_bytes(text, policy=policy.default)

            def answer(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        self.server = ThreadingTCPServer(("127.0.0.1", 0), Session)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        port = self.server.server_address[1]
        return f"mailto://127.0.0.1:{port}/?from=penstock@example.org&to=oncall@example.org&mode=insecure&format=text"

    @property
    def texts(self) -> list[str]:
        """The text of each mail."""
        parts = [mail.get_body(("plain", "html")) for mail in self.mails]
        return [part.get_content() for part in parts if part is not None]

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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
