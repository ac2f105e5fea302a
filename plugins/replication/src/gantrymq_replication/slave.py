"""The slave's side: makes the broker a replica, finds its master and copies its log.

It connects again at once after a lost connection, then with growing pauses. RocketMQ's slave waits 5 s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError, GantryError, StoreError
from gantrymq.plugin.interfaces import Broker, RawLog
from gantrymq.plugin.model import Role, parse_address
from gantrymq.plugin.world import wait_set
from gantrymq_replication.damage import DurableMark
from gantrymq_replication.protocol import Refused
from gantrymq_replication.settings import SLAVE, HaSettings
from gantrymq_replication.streams import HaStreams

if TYPE_CHECKING:
    from gantrymq_replication.copying import Copying

log = logging.getLogger("gantrymq.replication")

_FIRST_PAUSE_S: Final = 0.1  # between two attempts to connect; doubled up to the longest
_LONGEST_PAUSE_S: Final = 0.5  # so that a restarted SYNC_MASTER has its slaves soon
_LASTING_S: Final = 2.0  # a connection of that duration is no failed attempt
_REFUSED_PAUSE_S: Final = 15.0  # the longest one after logs that do not fit, or while this store takes no more
_NOTHING_SENT: Final = (
    "before it sent anything: is this the address of its HA port? That is haListenPort, by default listenPort + 1; the "
    "master's log has the reason"
)
_NO_LISTENER: Final = (
    "nothing listens there; a master serves slaves at haListenPort, by default listenPort + 1, a slave none"
)
_TOLD_S: Final = 3.0  # for the first answer of a name server
_ASK_S: Final = 2.0  # between two questions for the master's address, while name servers do not know it


class SlaveService:
    """Copies the log of a master with ``brokerRole=SLAVE``; without it, does nothing."""

    name = "replication"
    stops_last = True  # as the master's service, which starts after it
    roles = frozenset(Role)

    def __init__(self) -> None:
        self.master_address = ""  # of its HA port; empty until it is known
        self._problem = "it is no slave"
        self._task: asyncio.Task[None] | None = None
        self._copying: Copying | None = None
        self.before_copy: Callable[[], Awaitable[object]] | None = None  # awaited when a connection's master is heard
        self._heard = ""  # address from which a master has sent something
        self._received_before = 0  # by connections that have ended
        self._read_before_ms = 0
        self._asked_in_vain = -1  # `Copying.asked_in_vain` of the last one
        self._quiet = False  # the last one ended for a reason that may come again at once

    @property
    def copying(self) -> Copying | None:
        """The present connection to the master."""
        return self._copying

    @property
    def hears_master(self) -> bool:
        """Whether the master has sent something on the present connection; the system of a frozen one accepts it."""
        return self._copying is not None and self._copying.heard

    @property
    def received_bytes(self) -> int:
        """Bytes received from masters since the start."""
        return self._received_before + (self._copying.traffic.total if self._copying is not None else 0)

    @property
    def read_at_ms(self) -> int:
        """Wall time when a master was last heard; 0 for never."""
        return (self._copying.read_at_ms if self._copying is not None else 0) or self._read_before_ms

    @property
    def problem(self) -> str:
        """Why the log is not copied; empty while it is."""
        return "" if self.following else self._problem

    @property
    def following(self) -> bool:
        """Whether the log is being copied."""
        return self._copying is not None and self._copying.following

    @property
    def followed(self) -> str | None:
        """The broker address of the master whose log is being copied; empty without name servers, None without one."""
        return self._master.address if self.following and not self._other_master() else None

    async def start(self, broker: Broker) -> None:
        """Become a replica and begin to copy.

        Raises:
            ConfigError: the settings contradict each other, or the store has no raw log.
        """
        rules, raw_log = HaSettings.of(broker.settings), broker.store_capabilities.raw_log
        if rules.role != SLAVE or rules.elected:
            return
        if raw_log is None:
            raise ConfigError("brokerRole=SLAVE: this store cannot be a copy; select store=mmap")
        self._broker, self._raw_log, self._rules = broker, raw_log, rules
        self._streams, self._mark = HaStreams(broker.world, broker.settings), DurableMark(broker)
        if rules.master_address == broker.registration.address:
            raise ConfigError(
                f"haMasterAddress={rules.master_address} is the address of this broker itself; set the HA address of "
                "its master"
            )
        self._durable = None if broker.clean_start else self._mark.read()
        self._told = asyncio.Event()
        self.master_address = rules.master_address
        self._problem = "it has not connected to its master yet"
        await broker.role.change(Role.REPLICA, 1)
        broker.role.keep_from(lambda: raw_log.log_range().max_offset)  # its own retention decides
        broker.registration.change(broker_id=rules.broker_id)
        from gantrymq_replication.master_broker import MasterBroker  # a master needs neither this nor `copying`

        self._master = MasterBroker(broker)
        self._cancel = broker.registration.on_master_told(self._learn)
        self._task = asyncio.ensure_future(self._follow(raw_log))

    async def stop(self) -> None:
        """End the connection."""
        if self._task is not None:
            if self.following:
                await self._master.stops(self._master.address, self._broker.registration.broker_id)
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = self._copying = None
            self._cancel()
            await self._master.close()

    def _learn(self, master: str, ha_address: str) -> None:
        """Follow this master from now on: not even one more record of the one before is confirmed."""
        if self._master.learn(master, ha_address):
            log.info("the master %s serves its log at %s", master, ha_address)
            if not self._rules.master_address:
                self.master_address = ha_address
            if self._copying is not None and (problem := self._other_master()):
                self._copying.abort(problem)
            self._told.set()

    def _other_master(self) -> str:
        """Return why the present connection is not one to the master that name servers report; empty if it may be."""
        copying = self._copying
        if copying is None:
            return ""
        if not self._rules.master_address:
            return "" if copying.address == self.master_address else f"the master is at {self.master_address} now"
        return self._master.problem(copying.address, copying.peer_address)

    async def _follow(self, raw_log: RawLog) -> None:
        pause, told, clock = _FIRST_PAUSE_S, "", self._broker.world.clock
        await self._name_servers_answer()
        while True:
            if not self.master_address:
                await self._ask()
                told = self._tell(told) if not self.master_address else told
                continue
            longest, began, address = _LONGEST_PAUSE_S, clock.monotonic(), self.master_address
            try:
                await self._copy(raw_log, address)
            except Refused as error:
                self._problem, longest = f"master {address}: {error}", _REFUSED_PAUSE_S
            except StoreError as error:
                self._problem, longest = f"this slave's store takes no more: {error}", _REFUSED_PAUSE_S
            except ConnectionRefusedError:
                self._problem = f"master {address}: {_NO_LISTENER}"
            except (OSError, GantryError) as error:
                self._problem = f"master {address}: {error}"
            except Exception as error:
                self._problem = f"master {address}: {type(error).__name__}: {error}"
                log.exception("the copy of the log failed")
            if self.following and clock.monotonic() - began >= _LASTING_S:
                pause, told = _FIRST_PAUSE_S, ""
            self._quiet = longest == _REFUSED_PAUSE_S
            self._received_before, self._read_before_ms = self.received_bytes, self.read_at_ms
            self._copying = None
            told = self._tell(told)
            await self._wait(pause)
            pause = min(longest, 2 * pause)

    def _tell(self, told: str) -> str:
        """Log the problem unless it is *told*, the one logged last. Return it."""
        if self._problem != told:
            log.warning("this copy does not follow: %s", self._problem)
        return self._problem

    async def _ask(self) -> None:
        """Register again, because the answer has the master's address if the master is registered by then."""
        registration = self._broker.registration
        self._problem = (
            f"no name server knows a master of {registration.broker_name} in cluster {registration.cluster}; set "
            "haMasterAddress, or start the master"
        )
        await self._wait(_ASK_S)
        if not self.master_address:
            self._broker.registration.changed()

    async def _name_servers_answer(self) -> None:
        """Wait until a name server has had time to report the master, so that haMasterAddress can be compared."""
        registration, clock = self._broker.registration, self._broker.world.clock
        until = clock.monotonic() + _TOLD_S
        while registration.states() and None not in registration.states().values() and clock.monotonic() < until:
            await clock.sleep(0.01)

    async def _copy(self, raw_log: RawLog, address: str) -> None:
        from gantrymq_replication.copying import Copying

        await self._mark.begin(raw_log.log_range().max_offset)
        link = await self._streams.connect(*parse_address(address))
        self._copying = copying = Copying(
            *(self._broker, raw_log, self._rules, self._mark, self._durable, link, address),
            heard=self._hear,
            after=self._asked_in_vain,
            tell_after_s=_LASTING_S if self._quiet else 0.0,
        )
        try:
            if problem := self._other_master():
                raise Refused(problem)
            await self._master.check_files()
            await copying.run()
        except ConnectionError as error:
            if copying.heard or address == self._heard:
                raise
            raise ConnectionError(f"{error} {_NOTHING_SENT}") from error
        finally:
            link.abort()
            self._heard = address if copying.heard else self._heard
            self._asked_in_vain = copying.asked_in_vain
            if copying.following:
                self._durable = None

    async def _hear(self) -> None:
        if self.before_copy is not None:
            await self.before_copy()

    async def _wait(self, seconds: float) -> None:
        """Wait, or until another address of the master is known."""
        self._told.clear()
        await wait_set(self._broker.world.clock, self._told, seconds)
