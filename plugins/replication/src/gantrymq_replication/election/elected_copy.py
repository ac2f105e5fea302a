"""The copy of the log of the master that was elected last: where that master is, and one connection after the other.

A broker that has no tables of a master yet follows as a learner first: a new master without topics would create them
with other queues, or refuse messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.interfaces import Broker
from gantrymq.world.clock import wait_set
from gantrymq_replication.copying import first_ended
from gantrymq_replication.election.auto_switch import SlaveHandshake
from gantrymq_replication.election.elected_log import ElectedLog, TooOld
from gantrymq_replication.election.following import Following
from gantrymq_replication.election.machine import Follow
from gantrymq_replication.master_broker import MasterBroker
from gantrymq_replication.settings import ETCD, ElectionSettings, HaSettings
from gantrymq_replication.streams import HaStreams

__all__ = ["ElectedCopy"]

log = logging.getLogger("gantrymq.replication")

PAUSE_S: Final = 0.2  # between two attempts to copy
SOON: Final = 25  # such attempts with the same problem; then REFUSED_S between two
REFUSED_S: Final = 5.0  # the same after logs that do not fit
TOO_OLD_S: Final = 30.0  # the same after the master has deleted what follows this log
ASK_S: Final = 0.5  # between two questions for the master's HA address
TABLES_S: Final = 0.1  # between two looks whether the tables are copied


class ElectedCopy:
    """Follows one master at a time, from `begin` to `end`."""

    def __init__(
        self,
        broker: Broker,
        own: ElectedLog,
        ha: HaSettings,
        rules: ElectionSettings,
        streams: HaStreams,
        lacks_tables: Callable[[], bool],
        electable: Callable[[], bool],
        news: Callable[[], None],
    ) -> None:
        """*lacks_tables*: whether this broker has no tables of a master yet; *electable*: whether it may be the master;
        *news*: called when the logs are equal, or more is confirmed."""
        self._broker, self._clock, self._log, self._ha, self._rules = broker, broker.world.clock, own, ha, rules
        self._streams, self._lacks_tables, self._electable, self._news = streams, lacks_tables, electable, news
        self.problem = ""  # why this broker does not follow its master
        self.ha_address = ""  # of the master
        self._master, self._reported = MasterBroker(broker), asyncio.Event()
        self._followed_address = ""  # broker address of the master that is followed
        self._task: asyncio.Task[None] | None = None
        self._following: Following | None = None
        self._received = 0  # bytes from earlier masters
        self._read_before_ms = 0

    @property
    def connection(self) -> Following | None:
        """The connection to the master that is followed; None without one."""
        return self._following

    @property
    def followed(self) -> str | None:
        """The broker address of the master whose log is being copied; None if none is."""
        return self._followed_address if self._following is not None and self._following.following else None

    @property
    def received_bytes(self) -> int:
        """Bytes of the log received from masters since the start."""
        return self._received + (0 if self._following is None else self._following.traffic.total)

    @property
    def read_at_ms(self) -> int:
        """Wall time when a master was last heard; 0 for never."""
        return (0 if self._following is None else self._following.read_at_ms) or self._read_before_ms

    def learn(self, master: str, ha_address: str) -> None:
        """Record the addresses of the master of this broker name that a name server reports."""
        self._master.learn(master, ha_address)
        self._reported.set()

    def begin(self, master: Follow, own_id: int) -> None:
        """Copy the log of *master*, as broker id *own_id*, until `end`."""
        self._followed_address = master.address
        self._task = asyncio.ensure_future(self._copy_always(master, own_id))

    async def end(self) -> None:
        """Copy no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def stops(self, master: str, own_id: int) -> None:
        """Inform the master at the broker address *master* that this broker stops."""
        await self._master.stops(master, own_id)

    async def close(self) -> None:
        """Close the connections to broker ports; call it after `end`."""
        await self._master.close()

    async def _copy_always(self, master: Follow, own_id: int) -> None:
        told, tries = "", 0
        while True:
            pause, address = PAUSE_S if tries < SOON else REFUSED_S, master.ha_address
            try:
                self.ha_address = address = address or await self._address(master)
                await self._copy(master, own_id, address)
            except Exception as error:
                if isinstance(error, (GantryError, OSError, ValueError)):
                    self.problem = f"master {address}: {error}"
                else:
                    self.problem = f"master {address}: {type(error).__name__}: {error}"
                    if self.problem != told:
                        log.exception("the copy of the log failed")
                if isinstance(error, GantryError):
                    pause = TOO_OLD_S if isinstance(error, TooOld) else REFUSED_S
            else:
                continue  # it joins the set now
            tries += 1
            if self.problem != told:
                told, tries = self.problem, 0
                log.warning("this copy does not follow: %s", told)
            await self._clock.sleep(pause)

    async def _copy(self, master: Follow, own_id: int, address: str) -> None:
        waits = not self._rules.learner and self._lacks_tables()
        learner = self._rules.learner or waits
        hello = SlaveHandshake(own_id, self._ha.from_last_file, learner, tells_tables=not learner)
        asked, last_message = self._master, partial(self._master.message_at, master.address)
        ours = self._rules.engine == ETCD or await asked.is_ours(master.address)
        self._following = Following(
            *(self._broker, self._log, self._ha, hello, master.epoch if ours else 0, self._followed, last_message),
            first_offset=partial(asked.first_offset, master.address),
            may_lead=ours and self._electable(),
        )
        parts = [self._following.run(self._streams, address)]
        if waits:
            parts.append(self._tables_copied())
        try:
            await first_ended(*parts)
        finally:
            self._received, self._read_before_ms = self.received_bytes, self.read_at_ms
            self._following = None

    def _followed(self) -> None:
        self.problem = ""
        self._news()

    async def _tables_copied(self) -> None:
        """Return when this broker has the tables of its master. Until then it follows as a learner."""
        while self._lacks_tables():
            await self._clock.sleep(TABLES_S)

    async def _address(self, master: Follow) -> str:
        """Return the HA address of *master*, as soon as a name server reports it."""
        while self._master.address != master.address or not self._master.ha_address:
            self.problem = (
                f"no name server tells the HA address of the master {master.address}"
                if master.address
                else f"the engine does not tell the address of broker id {master.master}, which is the master"
            )
            self._reported.clear()
            self._broker.registration.changed()
            await wait_set(self._clock, self._reported, ASK_S)
        return self._master.ha_address
