"""Ports on the loopback address."""

from __future__ import annotations

import secrets
import socket

from penstock.errors import PenstockError, WrongUseError

LOOPBACK = "127.0.0.1"
# This range is below the range from which systems take the ports of outgoing connections, so that a stopped stack finds
# its ports free at its next start.
LOWEST, HIGHEST = 15000, 32000


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket() as probe:
        # The servers set the same option: a port whose last connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def is_served(port: int) -> bool:
    """Whether a server listens on this port now. Unlike is_free it does not bind, so it disturbs no starting server."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def choose(count: int) -> list[int]:
    """Choose free ports at random, so that stacks that start at the same time choose different ones."""
    chosen: set[int] = set()
    for _ in range(10_000):
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port not in chosen and is_free(port):
            chosen.add(port)
        if len(chosen) == count:
            return list(chosen)
    raise PenstockError(
        f"there are no {count} free ports between {LOWEST} and {HIGHEST}.", next_step="free some, or pass ports."
    )


def refuse_taken(port: int, whose: str, option: str = "") -> None:
    """Refuse a port on which another process listens."""
    if not is_free(port):
        raise WrongUseError(
            f"port {port} for {whose} is taken on {LOOPBACK}.",
            next_step=f"stop the process that uses it{f', or choose another port with {option}' if option else ''}.",
        )
