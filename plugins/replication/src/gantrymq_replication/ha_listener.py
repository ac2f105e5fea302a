"""What the HA ports of fixed and of elected roles share: the listener, and places for connections."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gantrymq.errors import ConfigError
from gantrymq.interfaces import Broker
from gantrymq.model.hosts import format_address, parse_address
from gantrymq.world import Listener
from gantrymq_replication.settings import HaSettings

__all__ = ["MOST_SLAVES", "Served", "listen", "make_place"]

log = logging.getLogger("gantrymq.replication")

MOST_SLAVES: Final = 64


class Served(Protocol):
    """A connection to the HA port."""

    @property
    def host(self) -> str:
        """Where it comes from."""

    @property
    def silent(self) -> bool:
        """Whether it has not reported, and goes on: it may be no slave."""

    def abort(self, problem: str) -> None:
        """Close it; *problem* is logged."""


async def listen(
    broker: Broker, rules: HaSettings, accepting: Callable[[], asyncio.BaseProtocol], *, optional: bool = False
) -> Listener | None:
    """Open the HA port, and register its address if that has changed.

    Return None, with a warning, if another process has the port and it is *optional*.

    Raises:
        ConfigError: the port cannot be opened.
    """
    registration, settings = broker.registration, broker.settings
    host, port = settings.text("bindAddress"), rules.listen_port
    own_host, own_port = parse_address(registration.address)
    if not port and settings.number("listenPort"):
        port = own_port + 1
    try:
        listener = await broker.world.network.listen(host, port, accepting)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        problem = (
            f"the HA port {port} on {host} is taken by another process; choose another with haListenPort"
            if taken
            else f"cannot listen for slaves on {host} port {port}: {error.strerror or error}; see haListenPort"
        )
        if not (optional and taken):
            raise ConfigError(problem) from error
        log.warning("%s; this broker has no slaves", problem)
        return None
    address = format_address(rules.host or own_host, listener.address[1])
    if address != registration.ha_address:
        registration.change(ha_address=address)
    return listener


def make_place(connections: Sequence[Served], most: int, problem: str) -> bool:
    """Return whether one more connection may be served, instead of one that has not reported if there are *most*.

    That one is closed because of *problem*. It is the oldest one of the host with the most of them, so that strangers
    take no places of slaves.
    """
    if len(connections) < most:
        return True
    silent = Counter[str]()
    for each in connections:
        silent[each.host] += each.silent
    chosen = max(connections, key=lambda each: silent[each.host] * each.silent)
    if chosen.silent:
        chosen.abort(problem)
        return True
    return False
