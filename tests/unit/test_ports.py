"""Checks of ports."""

from __future__ import annotations

import socket
import threading

from penstock_stack import ports


def listen(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
    server.bind((ports.LOOPBACK, port))
    server.listen(1)
    return server


def test_the_check_for_a_server_does_not_take_its_port() -> None:
    (port,) = ports.choose(1)
    assert not ports.is_served(port)
    with listen(port):
        assert ports.is_served(port)
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            ports.is_served(port)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(10_000):
            listen(port).close()
    finally:
        stop.set()
        looking.join()
