"""Ports on the loopback address."""

from __future__ import annotations

import secrets
import socket

from penstock.errors import PenstockError, WrongUseError

LOOPBACK = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections: a stopped stack finds its ports free again.
LOWEST, HIGHEST = 15000, 32000


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket() as probe:
        # As the servers do: a port whose last connections still fade out counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def is_served(port: int) -> bool:
    """Whether a server listens on this port now. It is not disturbed while it starts: nothing is taken, as above."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def choose(count: int) -> list[int]:
    """Choose free ports at random, so that stacks started side by side do not choose the same."""
    chosen: set[int] = set()
    for _ in range(10_000):
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port not in chosen and is_free(port):
            chosen.add(port)
        if len(chosen) == count:
            return list(chosen)
    raise PenstockError(f"no {count} free ports between {LOWEST} and {HIGHEST}.", next_step="free some, or name ports.")


def refuse_taken(port: int, whose: str, option: str = "") -> None:
    """Refuse a port on which somebody else listens."""
    if not is_free(port):
        raise WrongUseError(
            f"port {port} for {whose} is taken on {LOOPBACK}.",
            next_step=f"stop what listens there{f', or choose another port with {option}' if option else ''}.",
        )
