"""The HA port of a broker, in fixed and in elected roles: the listener, its connections, and those that are refused.

The port of a broker with elected roles is open in every role, because its address is registered; only a master serves
slaves.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from gantrymq.errors import ConfigError, GantryError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import format_address, is_loopback, parse_address
from gantrymq.plugin.world import Clock, Listener
from gantrymq_replication.link import Link, first_ended
from gantrymq_replication.sending import Frames, LogSending, SentLog
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.streams import HaStreams, Silence
from gantrymq_replication.traffic import Departure, Departures, Traffic

log = logging.getLogger("gantrymq.replication")

MOST_SLAVES: Final = 64
_FIRST_REPORT_S: Final = 10.0  # a RocketMQ slave reports 5 s after it has connected
_UNREPORTED: Final = f"it reported nothing within {_FIRST_REPORT_S:g} s, or until newer connections needed its place"


class ServedSlave:
    """A connection of a slave to the HA port, until it is lost. Subclasses read reports; the log is sent here."""

    def __init__(self, sent: SentLog, link: Link, frames: Frames) -> None:
        self.address = link.address("peername")
        self.host = self.address.rpartition(":")[0]
        self.traffic = Traffic()
        self.problem = ""  # why it ends; empty while it is open, and if the slave has closed it
        self._sent, self._link, self._now = sent, link, sent.clock.monotonic
        self._sending = LogSending(sent, link, frames, self._wrote)

    @property
    @abstractmethod
    def begun(self) -> bool:
        """Whether the slave has reported."""

    @property
    def silent(self) -> bool:
        """Whether it has not reported, and is open: it may be no slave."""
        return not self.begun and not self.problem

    @property
    def is_http(self) -> bool:
        """Whether the peer sent an HTTP request."""
        return self._link.is_http

    def appended(self, end: int) -> None:
        """Send the log up to *end*."""
        self._sending.appended(end)

    def abort(self, problem: str) -> None:
        """Close the connection; *problem* is logged."""
        self.problem = self.problem or problem
        self._link.abort()

    async def run(self, identify: Callable[[Link], Awaitable[None]]) -> None:
        """Serve the slave after *identify*, which may refuse it; returns when the connection is lost."""
        clock, silence_s = self._sent.clock, self._sent.rules.silence_s
        self._silence = Silence(clock, silence_s, self._unheard)
        first_report = clock.call_later(_FIRST_REPORT_S, self._unreported)
        try:
            await identify(self._link)
            await first_ended(self._serve(), self._sending.run())
        except (OSError, GantryError) as error:
            self.problem = self.problem or str(error)
            self._failed(error)
        except Exception as error:
            self.problem = self.problem or f"{type(error).__name__}: {error}"
            log.exception("the connection of slave %s failed", self.address)
        finally:
            self._silence.cancel()
            first_report.cancel()
            self._link.abort()

    @abstractmethod
    async def _serve(self) -> None:
        """Handle reports until the connection is lost. May raise OSError and `Refused`."""

    def _failed(self, error: Exception) -> None:
        """Handle the error that has ended the connection."""

    def _wrote(self, size: int, now: float) -> None:
        self.traffic.add(size, now)

    def _unheard(self) -> None:
        self.abort("it reported nothing for haHousekeepingInterval")

    def _unreported(self) -> None:
        if self.silent:
            self.abort(_UNREPORTED)


_Slave = TypeVar("_Slave", bound=ServedSlave)


class Refusals:
    """Connections to the HA port that are not served: counted, and logged once for each host and reason."""

    def __init__(self, clock: Clock, departures: Departures) -> None:
        """*departures*: of this port, where they are recorded too."""
        self._clock, self._departures = clock, departures
        self.count = 0  # since the start

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


class HaPort(Generic[_Slave]):
    """Accepts connections of slaves while this broker is a master."""

    def __init__(
        self,
        broker: Broker,
        rules: HaSettings,
        streams: HaStreams,
        departures: Departures,
        *,
        make: Callable[[Link], _Slave],
        serves: Callable[[], bool],
        ended: Callable[[_Slave], object],
    ) -> None:
        """Prepare a port; `open` opens it.

        Args:
            departures: where refused connections are recorded.
            make: returns the object that serves a new connection.
            serves: whether this broker is a master; otherwise connections are closed at once.
            ended: called after the end of a connection, which is not in `connections` any more.
        """
        self._broker, self._rules, self._streams = broker, rules, streams
        self._make, self._serves, self._ended = make, serves, ended
        self.refusals = Refusals(broker.world.clock, departures)
        self._listener: Listener | None = None
        self._warned = False  # that access control does not apply
        self._connections: dict[asyncio.Task[None], _Slave] = {}
        self._sent_bytes = 0  # to slaves that are gone

    @property
    def connections(self) -> list[_Slave]:
        """All connections, also those that have not reported."""
        return [*self._connections.values()]

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._listener is not None

    @property
    def sent_bytes(self) -> int:
        """Bytes of the log sent to slaves since the start."""
        return self._sent_bytes + sum(each.traffic.total for each in self._connections.values())

    async def open(self, *, optional: bool = False) -> None:
        """Listen, and register the address if that has changed.

        If another process has the port and it is *optional*, log a warning instead.

        Raises:
            ConfigError: the port cannot be opened.
        """
        registration, settings = self._broker.registration, self._broker.settings
        host, port = settings.text("bindAddress"), self._rules.listen_port
        own_host, own_port = parse_address(registration.address)
        if not port and settings.number("listenPort"):
            port = own_port + 1
        accepting = self._streams.accepting(self._accept, self.refusals.not_secured, self.refusals.http)
        try:
            listener = await self._broker.world.network.listen(host, port, accepting)
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
            return
        address = format_address(self._rules.host or own_host, listener.address[1])
        if address != registration.ha_address:
            registration.change(ha_address=address)
        self._listener = listener
        if self._broker.access.authorizer is not None and not self._streams.identifies and not is_loopback(host):
            self._warn_of_log(listener.address[1], host)

    def _warn_of_log(self, port: int, host: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "access control does not apply to the HA port %d on %s: everyone who can reach it gets the whole log; "
                "set haSecretPath on this broker and its slaves, or haTlsEnable with client certificates, or close the "
                "port in a firewall",
                *(port, host),
            )

    async def close(self) -> None:
        """Accept no more connections; the present ones stay."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.close()

    def abort_all(self, reason: str) -> None:
        """Close all connections, without waiting for their end."""
        for each in self.connections:
            each.abort(reason)

    async def end_all(self, reason: str) -> None:
        """Close all connections, and wait for their end."""
        self.abort_all(reason)
        if tasks := [*self._connections]:
            await asyncio.wait(tasks)

    async def _accept(self, link: Link) -> None:
        host = link.address("peername").rpartition(":")[0]
        if not self.is_open or not self._serves() or not self._has_place(host):
            link.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        connection = self._connections[task] = self._make(link)
        cancel = self._broker.messages.on_appended(connection.appended)
        try:
            await connection.run(self._streams.identify)
        finally:
            cancel()
            del self._connections[task]
            self._sent_bytes += connection.traffic.total
            self._ended(connection)

    def _has_place(self, host: str) -> bool:
        """Return whether one more connection, of *host*, may be served.

        If there are `MOST_SLAVES`, it takes the place of one that has not reported: the oldest one of the host with the
        most of them, so that strangers take no places of slaves.
        """
        connections = self.connections
        if len(connections) < MOST_SLAVES:
            return True
        silent = Counter[str]()
        for each in connections:
            silent[each.host] += each.silent
        chosen = max(connections, key=lambda each: silent[each.host] * each.silent)
        if chosen.silent:
            chosen.abort(_UNREPORTED)
            return True
        self.refusals.refuse(host, f"{len(connections)} slaves are connected")
        return False
