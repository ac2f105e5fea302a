"""Ports of the loopback address that no other process gets by chance."""

import random
import socket
from contextlib import suppress

PORTS = range(
    20_000, 32_000
)  # below the ephemeral range of operating systems: port 0 and connections get none of these


def quiet_port(*also: int) -> int:
    """Return a free port that stays free until it is listened on; *also* are differences to further ones."""
    for port in random.sample(PORTS, 200):
        if all(_is_free(port + each) for each in (0, *also)):
            return port
    raise RuntimeError("found no free port")


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return True
    return False
