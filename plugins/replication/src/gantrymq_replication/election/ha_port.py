"""The HA port of a broker with elected roles: who connects to it, and which connections have a place.

The port is open in every role, because its address is registered; only a master serves slaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gantrymq.interfaces import Broker
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.world import Listener
from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.election.serving import UNREPORTED, Elected, SlaveServing
from gantrymq_replication.ha_listener import Refusals, listen
from gantrymq_replication.link import Link
from gantrymq_replication.sending import SentLog
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.streams import HaStreams
from gantrymq_replication.traffic import Departures

__all__ = ["HaPort"]

log = logging.getLogger("gantrymq.replication")


class HaPort:
    """Accepts connections of slaves."""

    def __init__(
        self,
        broker: Broker,
        rules: HaSettings,
        streams: HaStreams,
        own: ElectedLog,
        elected: Elected,
        serves: Callable[[], bool],
    ) -> None:
        """*serves*: whether this broker is a master; otherwise connections are closed at once."""
        self._broker, self._rules, self._streams, self._log = broker, rules, streams, own
        self._elected, self._serves = elected, serves
        busy_poll = BusyPoll(broker.world, broker.settings.number("busyPollMicros") / 1_000_000)
        flushed = broker.store.flushed if own.durable else None
        self._sent = SentLog(own.raw, broker.world.clock, rules, busy_poll, flushed)
        self._listener: Listener | None = None
        self._connections: dict[asyncio.Task[None], SlaveServing] = {}
        self.refusals = Refusals(broker.world.clock, Departures())
        self._sent_bytes = 0  # to slaves that are gone

    @property
    def slaves(self) -> list[SlaveServing]:
        """All connections, also those that have not reported."""
        return [*self._connections.values()]

    @property
    def sent_bytes(self) -> int:
        """Bytes of the log sent to slaves since the start."""
        return self._sent_bytes + sum(each.traffic.total for each in self._connections.values())

    def appended(self, end: int) -> None:
        """Send the log up to *end*."""
        for each in self._connections.values():
            each.appended(end)

    def confirmed(self) -> None:
        """Tell slaves the new confirm offset."""
        for each in self._connections.values():
            each.confirmed()

    async def open(self) -> None:
        """Listen, and register the address.

        Raises:
            ConfigError: the port is taken.
        """
        accepting = self._streams.accepting(self._accept, self.refusals.not_secured, self.refusals.http)
        self._listener = await listen(self._broker, self._rules, accepting)

    async def close(self) -> None:
        """Accept no more connections; the present ones stay."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.close()

    async def end_all(self, reason: str) -> None:
        """Close all connections."""
        for each in self._connections.values():
            each.abort(reason)
        if tasks := [*self._connections]:
            await asyncio.wait(tasks)

    def end_older(self, serving: SlaveServing) -> None:
        """Close other connections of the same slave."""
        for each in self._same(serving):
            each.abort("it has connected again")

    def _same(self, serving: SlaveServing) -> list[SlaveServing]:
        own = serving.side.slave
        return [
            each
            for each in self._connections.values()
            if own is not None
            and each is not serving
            and each.slave is not None
            and each.slave.broker_id == own.broker_id
        ]

    # --- connections --------------------------------------------------------------------------------------------------

    async def _accept(self, link: Link) -> None:
        host = link.address("peername").rpartition(":")[0]
        served = self._listener is not None and self._serves()
        if not served or not self.refusals.has_place(self.slaves, host, UNREPORTED):
            link.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        serving = self._connections[task] = SlaveServing(self._elected, self._log, self._sent, link)
        try:
            await serving.run(self._streams)
        finally:
            del self._connections[task]
            self._sent_bytes += serving.traffic.total
            self._ended(serving)

    def _ended(self, serving: SlaveServing) -> None:
        reason = serving.problem or "it closed the connection"
        if serving.slave is not None:
            level = logging.WARNING if serving.problem and self._serves() else logging.INFO
            log.log(level, "slave %s, broker id %d, is gone: %s", serving.address, serving.slave.broker_id, reason)
            if not self._same(serving):
                self._elected.gone(serving.slave)
        elif serving.is_http:
            self.refusals.http(serving.host)
        elif self._serves() and self.refusals.note(serving.host, reason):
            log.warning("slave %s is gone: %s", serving.address, reason)
