"""A TCP proxy on the loopback address that cuts connections when it is told to."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Proxy:
    """Forwards to one address.

    `cut()` resets the clients' side and leaves the server's side open; while `refusing`, new connections end at once.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.refusing = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listener.close()
        for client, server in self.pairs:
            client.close()
            server.close()

    def cut(self) -> None:
        """Reset every client's connection. The server hears nothing of it."""
        for client, _ in self.pairs:
            with contextlib.suppress(OSError):
                # Linger of zero: close() sends RST instead of FIN.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.refusing:
                    client.close()
                    continue
                server = socket.create_connection(self.target)
                self.pairs.append((client, server))
                threading.Thread(target=_forward, args=(client, server), daemon=True).start()
                threading.Thread(target=_forward, args=(server, client), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
