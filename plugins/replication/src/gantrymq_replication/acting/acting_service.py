"""The service ``acting_master``: heartbeats, the members of the group, and the role of a slave that may act.

    master   takes over the progress of its slaves while it was away (`takeover`), then serves
    slave    each syncBrokerMemberGroupPeriod, and when a name server reports a change (905), asks the members and acts,
             or stops acting (`policy`); it also stops when it is connected to its master, and when 906 announces a
             returning master, so that its answers to 43, 45 and 60 are final

Without ``enableSlaveActingMaster=true`` it does nothing.

A slave may also have acted for a master whose process was paused: frozen, on a suspended machine, or with a blocked
event loop (`PauseWatch`). Its timer is due every `_STEP_S`, so that of all timers that expired meanwhile it is one of
the first to be called, before services deliver due messages. Monotonic time stops while a machine is suspended, wall
time does not; so a step of the wall clock counts as well.

Source: apache/rocketmq broker/.../BrokerController.java (startServiceWithoutCondition, sendHeartbeat,
syncBrokerMemberGroup), broker/.../processor/AdminBrokerProcessor.java (exchangeBrokerHaInfo, notifyMinBrokerIdChange).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError, GantryError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Action, Role, format_address, parse_address
from gantrymq.plugin.network import inner_client
from gantrymq.plugin.remoting import Command, Connection, RequestCode, in_operation, response_to, serves
from gantrymq.plugin.world import Clock, Timer, wait_set
from gantrymq_replication.settings import SLAVE, HaSettings
from gantrymq_replication.slave import SlaveService

if TYPE_CHECKING:  # imported where they are used: most brokers belong to no group with acting masters
    from gantrymq_replication.acting.escape_bridge import Escape, NoEscape
    from gantrymq_replication.acting.group import ExchangeHaInfo, PeerSettings
    from gantrymq_replication.acting.policy import ActingPolicy

log = logging.getLogger("gantrymq.replication")

_TAKE_OVER_S: Final = 10.0  # for a master that returns without a start
_STEP_S: Final = 0.1


class ActingService:
    """Decides the role of a slave while its master is missing."""

    name = "acting_master"
    stops_last = True  # as the slave's service, which starts before it
    roles = frozenset(Role)

    _outlet: Escape | NoEscape  # set at the start

    def __init__(self, slave: SlaveService) -> None:
        self._slave = slave
        self._policy: ActingPolicy | None = None
        self._task: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._told = asyncio.Event()
        self._announced: Connection | None = None  # over which a master announced its return last
        self._stood_still_s = 0.0  # since the last handover
        self._pause_watch: PauseWatch | None = None
        self._copies_from = 0.0  # monotonic seconds, see `may_copy_tables`
        self._peers: PeerSettings | None = None
        self._asking: asyncio.Task[None] | None = None

    @property
    def enabled(self) -> bool:
        """Whether this broker belongs to a group with acting masters."""
        return self._policy is not None

    @property
    def alive(self) -> int:
        """Number of registered brokers of the group, this one included."""
        return 1 if self._policy is None else max(1, self._policy.alive)

    @property
    def problem(self) -> str:
        """Why messages of this acting master wait; empty if they do not."""
        return self._outlet.problem if self._acting else ""

    @property
    def settings_problem(self) -> str:
        """Settings that this slave needs, and that name servers or its master lack; empty if none is known."""
        return "" if self._peers is None else self._peers.problem

    def may_copy_tables(self) -> bool:
        """Return whether the master's tables are the newest: not before it is registered again, and took over."""
        if self._policy is None:
            return True
        return self._policy.master_registered and self._clock.monotonic() >= self._copies_from

    @property
    def _acting(self) -> bool:
        return self._policy is not None and self._broker.role.current is Role.ACTING_MASTER

    async def start(self, broker: Broker) -> None:
        """Take over from slaves, on a master; then watch the group.

        Raises:
            ConfigError: there are no name servers, or the store cannot be a copy.
        """
        rules, settings = HaSettings.of(broker.settings), broker.settings
        if not rules.acting:
            return
        if not broker.registration.states():
            raise ConfigError(
                "enableSlaveActingMaster=true: brokers of a group find each other by name servers; set namesrvAddr"
            )
        if broker.store_capabilities.raw_log is None:
            raise ConfigError("enableSlaveActingMaster=true: this store cannot be copied; select store=mmap")
        from gantrymq_replication.acting.escape_bridge import Escape, NoEscape
        from gantrymq_replication.acting.group import Group, PeerSettings
        from gantrymq_replication.acting.policy import ActingPolicy
        from gantrymq_replication.acting.takeover import take_over

        self._broker, self._clock, self._period_s = broker, broker.world.clock, rules.group_period_s
        self._client = inner_client(broker.world, settings)
        self._group = Group(broker, self._client, rules.heartbeat_timeout_ms)
        self._policy = ActingPolicy(rules.broker_id, self._clock.monotonic())
        name = broker.registration.broker_name
        self._outlet = Escape(broker, self._client, name, rules.broker_id) if rules.escape else NoEscape()
        broker.role.store_elsewhere(self._outlet)
        broker.registration.change(heartbeat_timeout_ms=rules.heartbeat_timeout_ms)
        if rules.role == SLAVE:
            self._slave.before_copy = self._heard
            self._peers = PeerSettings(broker, self._client, lambda: self._slave.followed)
            self._asking = asyncio.ensure_future(self._peers.run())
        elif not rules.skip_pre_online:
            await take_over(broker, self._group, self._client, self._own(rules))
            await broker.role.change(Role.MASTER, broker.role.epoch)
            self._pause_watch = PauseWatch(self._clock, rules.heartbeat_timeout_ms / 2000, self._stood_still)
            self._pause_watch.start()
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """End the watch."""
        if self._pause_watch is not None:
            self._pause_watch.stop()
            self._pause_watch = None
        if self._task is not None:
            tasks = list(filter(None, (self._task, self._asking)))
            for each in tasks:
                each.cancel()
            await asyncio.wait(tasks)
            self._task = self._asking = self._peers = None
            self._broker.role.store_elsewhere(None)
            await self._client.close()

    def _own(self, rules: HaSettings) -> ExchangeHaInfo:
        """Return the header that a returning master sends its slaves. The HA port opens later."""
        registration = self._broker.registration
        host, port = parse_address(registration.address)
        ha_address = format_address(rules.host or host, rules.listen_port or port + 1)
        return self._info(ha_address)

    def _info(self, ha_address: str) -> ExchangeHaInfo:
        """Return the header with the addresses of a master, of which *ha_address* is one."""
        from gantrymq_replication.acting.group import ExchangeHaInfo

        return ExchangeHaInfo(
            master_ha_address=ha_address,
            master_flush_offset=self._broker.store.state().max_log_offset,
            master_address=self._broker.registration.address,
        )

    # --- the group ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._told.clear()
            try:
                if self._stood_still_s:
                    await self._return_again()
                await self._group.heartbeat()
                await self._look()
            except GantryError as error:
                log.warning("the group of this broker is not known, or its role not changed: %s", error)
            except Exception:
                log.exception("the watch of the group failed")
            await wait_set(self._clock, self._told, self._period_s)

    async def _look(self) -> None:
        """Ask who is there, and act or stop acting."""
        assert self._policy is not None
        before = self._policy.master_registered
        self._policy.members_are(await self._group.members())
        if self._broker.role.current is Role.MASTER:
            return
        if self._policy.master_registered and not before:
            self._broker.registration.changed()  # the answers have the master's addresses
        self._broker.role.serve_consumers(serve=self._policy.serves_consumers)
        async with self._changing:
            if self._policy.acts(connected=self._slave.hears_master, now=self._clock.monotonic()):
                if not self._acting:
                    log.warning("%s; this slave, the smallest id, acts for it", self._policy.missing)
                    self._outlet.forget()
                    await self._broker.role.change(Role.ACTING_MASTER, self._broker.role.epoch)
            else:
                await self._stop_acting(self._policy.not_acting)

    async def _heard(self) -> None:
        """Stop acting. A master that was not restarted asks for the progress later; its tables are old until then."""
        if self._acting:
            self._copies_from = self._clock.monotonic() + _TAKE_OVER_S
        await self._step_down("its master is heard again")

    def _stood_still(self, seconds: float) -> None:
        """Hold up the services of this master: a slave may have acted for it."""
        self._stood_still_s = seconds
        if self._broker.role.current is Role.MASTER:
            self._broker.role.refuse_plugins("this master stood still, and asks its slaves what they delivered")
        self._told.set()

    async def _return_again(self) -> None:
        """Take over the progress of slaves while this master was paused."""
        log.warning(
            "this process stood still for %.1f s, and slaves may have acted for it; their progress is taken over",
            self._stood_still_s,
        )
        from gantrymq_replication.acting.takeover import take_over

        self._stood_still_s, role = 0.0, self._broker.role
        try:
            await role.change(Role.REPLICA, role.epoch)
            own = self._own(HaSettings.of(self._broker.settings))
            await take_over(self._broker, self._group, self._client, own, _TAKE_OVER_S)
        except Exception:
            log.exception("the progress of the slaves is not taken over, so what they delivered may come again")
        role.refuse_plugins("")
        await role.change(Role.MASTER, role.epoch)
        self._broker.registration.changed()  # name servers may have removed it

    async def _step_down(self, reason: str) -> None:
        """Stop acting because the master is there."""
        async with self._changing:
            await self._stop_acting(reason)

    async def _stop_acting(self, reason: str) -> None:
        if self._acting:
            log.info("this slave does not act for its master any more: %s", reason)
            await self._broker.role.change(Role.REPLICA, self._broker.role.epoch)

    def _gone(self, connection: Connection, master: str) -> None:
        """Act again soon: the master *master* that announced its return ended before it was registered."""
        if self._policy is not None and connection is self._announced and self._policy.return_failed():
            log.warning("the master %s announced its return, and is gone again before it was registered", master)
            self._told.set()

    # --- requests -----------------------------------------------------------------------------------------------------

    @serves(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, access=in_operation)
    def changed(self, asked: Command, connection: Connection) -> Command:
        """Handle 905: ask for the members of the group now. The content of the request is not trusted."""
        from gantrymq_replication.acting.group import MinBrokerIdChange

        MinBrokerIdChange.from_ext(asked.ext)
        self._told.set()
        return response_to(asked)

    @serves(RequestCode.EXCHANGE_BROKER_HA_INFO, action=Action.UPDATE)
    async def exchange(self, asked: Command, connection: Connection) -> Command:
        """Handle 906: a master announces its return, or a slave asks for the addresses of this master."""
        from gantrymq_replication.acting.group import ExchangeHaInfo

        told = ExchangeHaInfo.from_ext(asked.ext)
        if self._policy is None:
            return response_to(asked)
        if self._broker.role.current is Role.MASTER:
            own = ExchangeHaInfo() if told.master_ha_address else self._info(self._broker.registration.ha_address)
            return response_to(asked, 0, None, own.to_ext())
        if told.master_ha_address:
            master = told.master_address or connection.address
            self._policy.master_returns(self._clock.monotonic())
            await self._step_down(f"its master {master} returns")
            if connection is not self._announced:
                self._announced = connection
                connection.on_close(lambda gone: self._gone(gone, master))
        return response_to(asked, 0, None, ExchangeHaInfo().to_ext())


class PauseWatch:
    """Calls back after a pause of the process."""

    def __init__(self, clock: Clock, longest_s: float, noticed: Callable[[float], object]) -> None:
        """*noticed* is called in the first turn of the event loop, with the seconds, if they exceed *longest_s*."""
        self._clock, self._longest_s, self._noticed = clock, longest_s, noticed
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._began = self._clock.monotonic(), self._clock.now_ms()
        self._timer = self._clock.call_later(_STEP_S, self._step)

    def stop(self) -> None:
        """End the watch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self) -> None:
        monotonic, now_ms = self._began
        self.start()
        took_s = max(self._began[0] - monotonic, (self._began[1] - now_ms) / 1000)
        if took_s > self._longest_s:
            self._noticed(took_s)
