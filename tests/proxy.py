"""TCP proxies on the loopback address that make faults of networks on request."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from penstock_stack.broker import Broker

LOOPBACK = "127.0.0.1"
# The numbers of requests in Kafka's protocol.
PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9


class Proxy:
    """Forwards to one address.

    `cut()` resets the clients' side and leaves the server's side open; while `refusing`, new connections end at once;
    between `hush()` and `speak()` connections are half open: they stay, and nothing comes through; each reply comes
    later by `latency` seconds.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self.listener.getsockname()[1]
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.refusing = False
        self.latency = 0.0
        self.held = 0
        self._speaking = threading.Event()
        self._speaking.set()
        self._closed = threading.Event()
        self._cut: set[socket.socket] = set()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._speaking.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.listener.close()
        for client, server in self.pairs:
            client.close()
            server.close()

    def cut(self) -> None:
        """Reset every client's connection; the server does not notice."""
        for client, _ in self.pairs:
            self._cut.add(client)
            with contextlib.suppress(OSError):
                # Linger of zero: close() sends RST instead of FIN.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.shutdown(socket.SHUT_RDWR)

    def hush(self) -> None:
        """Forward no bytes from now on; `held` counts the waiting ones."""
        self.held = 0
        self._speaking.clear()

    def speak(self) -> None:
        """Forward the waiting bytes, and all later ones."""
        self._speaking.set()

    def heal(self) -> None:
        """End every fault."""
        self.refusing, self.latency = False, 0.0
        self.speak()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                try:
                    if self.refusing:
                        raise ConnectionRefusedError
                    server = socket.create_connection(self.target)
                except OSError:
                    client.close()
                    continue
                self.pairs.append((client, server))
                self._join(client, server)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        """Start the threads that forward bytes in both directions."""
        threading.Thread(target=self._carry, args=(client, server, _read_bytes(client)), daemon=True).start()
        threading.Thread(
            target=self._carry, args=(server, client, self._delay(_read_bytes(server))), daemon=True
        ).start()

    def _carry(self, source: socket.socket, sink: socket.socket, parts: Iterator[bytes]) -> None:
        with contextlib.suppress(OSError):
            for part in parts:
                if not self._speaking.is_set():
                    self.held += 1
                    self._speaking.wait()
                sink.sendall(part)
        if source not in self._cut:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)

    def _delay(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        for part in parts:
            self._closed.wait(self.latency)
            yield part


class KafkaProxy(Proxy):
    """A proxy that parses Kafka's requests, counts them, and loses single ones, or loses or delays their replies."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.lost: Counter[int] = Counter()
        self._requests_to_lose: Counter[int] = Counter()
        self._replies_to_lose: Counter[int] = Counter()
        self.seen: Counter[int] = Counter()
        self._late: dict[int, float] = {}

    def delay_replies(self, kind: int, seconds: float) -> None:
        """Delay every reply to a request of a kind by so many seconds, and all replies behind it."""
        self._late[kind] = seconds

    def lose_requests(self, kind: int, times: int) -> None:
        """Lose the next requests of a kind before they reach the broker."""
        self.lost[kind], self._requests_to_lose[kind] = 0, times

    def lose_replies(self, kind: int, times: int) -> None:
        """Forward the next requests of a kind to the broker, and lose its replies."""
        self.lost[kind], self._replies_to_lose[kind] = 0, times

    def heal(self) -> None:
        """End every fault."""
        self._requests_to_lose.clear()
        self._replies_to_lose.clear()
        self._late.clear()
        super().heal()

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        unanswered: set[bytes] = set()
        late: dict[bytes, float] = {}
        requests = self._pick_requests(_read_frames(client), unanswered, late)
        replies = self._hold((frame for frame in _read_frames(server) if frame[4:8] not in unanswered), late)
        threading.Thread(target=self._carry, args=(client, server, requests), daemon=True).start()
        threading.Thread(target=self._carry, args=(server, client, self._delay(replies)), daemon=True).start()

    def _hold(self, replies: Iterator[bytes], late: dict[bytes, float]) -> Iterator[bytes]:
        for frame in replies:
            self._closed.wait(late.pop(frame[4:8], 0))
            yield frame

    def _pick_requests(
        self, frames: Iterator[bytes], unanswered: set[bytes], late: dict[bytes, float]
    ) -> Iterator[bytes]:
        for frame in frames:
            kind, correlation = int.from_bytes(frame[4:6], "big"), frame[8:12]
            self.seen[kind] += 1
            if kind in self._late:
                late[correlation] = self._late[kind]
            if self._requests_to_lose[kind] > 0:
                self._requests_to_lose[kind] -= 1
                self.lost[kind] += 1
                continue
            if self._replies_to_lose[kind] > 0:
                self._replies_to_lose[kind] -= 1
                unanswered.add(correlation)  # before the request is sent, because the reply may be fast
                self.lost[kind] += 1
            yield frame


def put_behind(broker: Broker, proxy: Proxy) -> None:
    """Give a broker a second listener, which gives clients the address of the proxy as the address of the broker."""
    own = f"PLAINTEXT://{broker.bootstrap}"
    controller = f"CONTROLLER://{LOOPBACK}:{broker.controller_port}"
    broker.settings |= {
        "listeners": f"{own},{controller},PROXIED://{LOOPBACK}:{proxy.target[1]}",
        "advertised.listeners": f"{own},PROXIED://{proxy.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
    }


def _read_bytes(source: socket.socket) -> Iterator[bytes]:
    while data := source.recv(65536):
        yield data


def _read_frames(source: socket.socket) -> Iterator[bytes]:
    """Read Kafka's frames: four bytes with the length, then that number of bytes."""
    buffer = bytearray()
    for data in _read_bytes(source):
        buffer += data
        while len(buffer) >= 4 and len(buffer) >= (size := 4 + int.from_bytes(buffer[:4], "big")):
            yield bytes(buffer[:size])
            del buffer[:size]
