"""What the HA ports of fixed and of elected roles share: the listener, places for connections, and refused ones."""

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
from gantrymq.world import Clock, Listener
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.traffic import Departure, Departures

__all__ = ["MOST_SLAVES", "Refusals", "Served", "listen", "make_place"]

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


class Refusals:
    """Connections to the HA port that are not served: counted, and logged once for each host and reason."""

    def __init__(self, clock: Clock, departures: Departures) -> None:
        """*departures*: of this port, where they are noted too."""
        self._clock, self._departures = clock, departures
        self.count = 0  # since the start

    def has_place(self, connections: Sequence[Served], host: str, problem: str) -> bool:
        """Return whether one more connection, of *host*, may be served; see `make_place`."""
        if make_place(connections, MOST_SLAVES, problem):
            return True
        self.refuse(host, f"{len(connections)} slaves are connected")
        return False

    @staticmethod
    def http(host: str) -> None:
        """Log that a connection sent an HTTP request. It is not counted, because the peer is no slave."""
        log.info("a connection from %s to the HA port sent an HTTP request; it is closed", host)

    def not_secured(self, host: str, problem: str) -> None:
        """Refuse a connection without the TLS that this port asks for."""
        self.refuse(host, f"{problem}; is haTlsEnable true there?")

    def refuse(self, host: str, problem: str) -> None:
        """Count a connection, and log why it is not served."""
        if self.note(host, problem):
            log.warning("a connection of %s to the HA port is refused: %s", host, problem)

    def note(self, host: str, problem: str) -> bool:
        """Count a connection that was no slave's; return whether the one before from this host had another reason."""
        self.count += 1
        return self._departures.note(Departure(host, self._clock.now_ms(), problem, reported=False))


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
