"""A broker whose master an engine elects, from its start to its stop; the service ``election`` makes it.

    start   a replica without a master -> HA port -> the election begins
    role    the election decides; `become_master`, `follow` and `stand_down` carry it out
    stop    accept nothing -> the in-sync set has all -> resign -> end the connections of slaves

Connections of slaves end last, because a slave without one leaves the set.

Source: apache/rocketmq broker/.../controller/ReplicasManager.java, store/.../ha/autoswitch/AutoSwitchHAService.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gantrymq.errors import ConfigError, GantryError, RequestRefused, ServiceNotAvailable
from gantrymq.plugin.interfaces import Broker, BrokerCluster
from gantrymq.plugin.model import Role
from gantrymq.plugin.remoting import Command
from gantrymq.plugin.world import Clock, Lock
from gantrymq_replication.election.auto_switch import SlaveHandshake
from gantrymq_replication.election.broker_id import IdentityFiles, lock_identity
from gantrymq_replication.election.controller import ControllerEngine
from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.election.engine import Engine, EngineRefused, Progress, listed
from gantrymq_replication.election.engines import make_engine
from gantrymq_replication.election.etcd_access import etcd_access
from gantrymq_replication.election.etcd_client import EtcdClient
from gantrymq_replication.election.following import ElectedCopy
from gantrymq_replication.election.machine import Follow, Machine
from gantrymq_replication.election.runner import Election, Mastered, RunnerSettings
from gantrymq_replication.election.serving import ElectedPort, SlaveServing
from gantrymq_replication.election.statistics import Away
from gantrymq_replication.election.sync_set import ANY_TABLES
from gantrymq_replication.election.table_copies import TableCopies
from gantrymq_replication.gate import ElectedGate
from gantrymq_replication.settings import ETCD, FIRST_S, ElectionSettings, HaSettings
from gantrymq_replication.streams import HaStreams

log = logging.getLogger("gantrymq.replication")

_LAST_S: Final = 2.0  # for the in-sync set to get the rest of the log, at the stop
_LOOK_S: Final = 0.01  # between two looks whether all is confirmed
_NAMED_S: Final = 0.3  # grace period for the next master to register before this broker leaves the route
_CONFIRM_S: Final = 2.0  # for the engine to confirm the id, at the start
_KEEP_S: Final = 1.0  # between two updates of the kept confirm offset
_UNKNOWN_S: Final = 10.0  # between two questions for an id that no broker has
_MOST_UNKNOWN: Final = 64
_NOT_YET: Final = "the election has not begun"
_NO_ID: Final = "this broker is not registered before the engine confirms that it has an id in its set"


class ElectedBroker:
    """Takes part in the election, and carries out its decisions.

    `runner.Host`, `gate.Confirming`, `serving.Elected`, `table_copies.TablesLeader`.
    """

    # Set at the start.
    broker: BrokerCluster
    clock: Clock
    rules: ElectionSettings
    log: ElectedLog
    copy: ElectedCopy
    port: ElectedPort
    engine: Engine

    def __init__(
        self,
        gate: ElectedGate,
        copies: TableCopies,
        on_follow: Callable[[], object] = lambda: None,
        has_tables: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create it for one start of a broker.

        Args:
            gate: opened at the start.
            copies: of topics and groups.
            on_follow: called when another master is followed.
            has_tables: whether tables of a master were copied since the start.
        """
        self.election: Election | None = None  # before the start and after the stop
        self.away = Away()  # while this broker is the master
        self.copies, self._on_follow, self._has_tables = copies, on_follow, has_tables
        self._gate = gate
        self._keeping: asyncio.Task[None] | None = None
        self.leads = False  # this broker is the master, or about to be
        self.is_serving = False  # as the master of the epoch `_epoch`
        self._followed_ids = frozenset[int]()  # of the last master that was another broker
        self._epoch = 0  # the last one that this broker was the master of, since the start
        self._waits_until = 0.0  # for slaves to follow the new epoch; clients try again meanwhile
        self._stopping = self._leaving = False
        self._registers = False  # with the name servers
        self._granted_id = 0  # of the identity file; 0 without one
        self._ids = set[int]()  # of brokers of the set, as the engine said
        self._unknown: dict[int, float] = {}  # other ids, and when the engine is asked for them again
        self._cancel: list[Callable[[], object]] = []
        self._identity_lock: Lock | None = None

    @property
    def enabled(self) -> bool:
        """Whether it is started and not stopped."""
        return self.election is not None

    @property
    def machine(self) -> Machine | None:
        """The state of the election; None before this broker has an id."""
        return None if self.election is None else self.election.machine

    @property
    def why_apart(self) -> str:
        """Why this broker neither serves as the master nor follows one; empty if it does."""
        if self.election is not None and self.election.problem:
            return self.election.problem
        if self.copy.problem or self.machine is None:
            return self.copy.problem
        if self.copy.followed is not None:
            return ""
        if self.machine.master is not None and not self.machine.own:
            return f"it has not connected to the master yet, broker id {self.machine.master}"
        return self.machine.problem(self.now)

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self.clock.monotonic()

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Become a replica, open the HA port and take part.

        Raises:
            ConfigError: the settings contradict each other, the port is taken, or the store cannot be copied.
            StoreDamaged: the list of epochs or the identity cannot be read.
        """
        raw = broker.store_capabilities.raw_log
        if raw is None:
            raise ConfigError("enableControllerMode=true: this store cannot be copied; select store=mmap")
        if broker.settings.text("store") == "memory":
            raise ConfigError(
                "enableControllerMode=true with store=memory: this broker could be elected after it has lost its log; "
                "select store=mmap"
            )
        self.broker, self.clock = broker, broker.world.clock
        self._ha, self.rules = HaSettings.of(broker.settings), ElectionSettings.of(broker.settings, broker.root)
        self._streams, etcd = HaStreams(broker.world, broker.settings), None
        if self.rules.engine == ETCD:
            access = etcd_access(broker.settings, broker.world.files, self.rules.endpoints)
            etcd = EtcdClient(self.clock, access)
        strict = self.rules.all_in_sync
        self.log = ElectedLog(broker, raw, self.rules.epochs, keeps_confirmed=strict)
        self.copy = ElectedCopy(
            *(broker, self.log, self._ha, self.rules, self._streams),
            *(self._lacks_tables, self._electable, self._copy_news),
        )
        for folder in {self.rules.epochs.parent, self.rules.identity.parent}:
            broker.world.files.make_dirs(folder)
        self._identity_lock = lock_identity(broker.world.files, self.rules.identity, broker.root)
        names = IdentityFiles(
            *(broker.world.files, self.rules.identity, broker.registration.cluster, broker.registration.broker_name)
        )
        granted = names.granted()
        self._show()
        await broker.role.change(Role.REPLICA, 0)  # before anything is hidden that a service has read
        await self.log.hide_unconfirmed()
        broker.role.keep_from(lambda: raw.log_range().max_offset)  # its own retention decides
        broker.role.start_services_after(self._all_shown)
        broker.role.guard(self._refusal)
        self._granted_id = 0 if granted is None else granted.broker_id
        broker.registration.change(held=_NO_ID)
        self._gate.open(self, self._ha.slave_timeout_s)
        self.port = ElectedPort(broker, self._ha, self._streams, self.log, self)
        await self.port.open()
        self.engine = make_engine(broker, self.rules, etcd, durable=self.log.durable)
        unelectable = "this broker is a learner (asyncLearner=true)" if self.rules.learner else self.log.problem
        if self.log.problem:
            log.warning("%s", self.log.problem)
        rules = RunnerSettings(self.rules.set_rules, self.rules.fencing)
        self.election = Election(broker.world, self.engine, self, rules, unelectable)
        self.counts = self.election.counts
        self._cancel = [broker.registration.on_master_told(self.copy.learn)]
        if not self.log.durable:  # otherwise a message counts when it is on the disk
            self._cancel.append(broker.messages.on_appended(self._appended))
        self._keeping = asyncio.ensure_future(self._keep_always())
        self.election.start()

    async def leave(self) -> None:
        """Hand over while name servers name this broker: a route without a master fails sends of RocketMQ's clients."""
        if self.election is None or not self.is_serving:
            return
        self._leaving = True
        try:
            await self.election.hand_over(leaves=True)
        except GantryError as error:
            log.info("this master ends without a successor: %s", error)
            return
        until = self.clock.monotonic() + _LAST_S
        while self.is_serving and self.clock.monotonic() < until:
            await self.clock.sleep(0.01)
        await self.clock.sleep(_NAMED_S)
        self._register(self.election.own_id)

    async def stop(self) -> None:
        """Hand over to another member of the in-sync set, and end all connections."""
        if self.election is None:
            return
        self._stopping = True
        await self._set_has_all()
        self._note_confirmed()
        await self.election.stop(resign=True)
        await self._tell_master()
        self.leads = self.is_serving = False
        self._gate.release()
        self.copies.look()
        await self.copy.end()
        await self.port.close()
        await self.port.end_all("this broker stops")
        for cancel in self._cancel:
            cancel()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        await self.copy.close()
        await self._keep()
        if self._identity_lock is not None:
            self._identity_lock.release()
        self.election = None

    async def _tell_master(self) -> None:
        """Inform the master that this broker stops, so that it does not count as lost."""
        machine, election = self.machine, self.election
        if machine is None or election is None or machine.master is None or machine.own:
            return
        if machine.standing.address:
            await self.copy.stops(machine.standing.address, election.own_id)

    async def _set_has_all(self) -> None:
        until = self.clock.monotonic() + _LAST_S
        while self.is_serving and self.confirmed < self.log.end and self.clock.monotonic() < until:
            await self.clock.sleep(0.01)

    # --- the log ------------------------------------------------------------------------------------------------------

    def progress(self) -> Progress:
        """Return how far the log is."""
        machine, log = self.machine, self.log
        electable = self.rules.learner or machine is None or not machine.unelectable
        return Progress(log.epochs.last_epoch, log.surely, self.confirmed, electable, log.whole)

    def log_end(self) -> int:
        """Return the end of the log."""
        return self.log.end

    @property
    def confirmed(self) -> int:
        """The log offset up to which every member of the in-sync set has the log, as far as this broker knows."""
        machine = self.machine
        if machine is not None and machine.set is not None and machine.is_master:
            return max(self.log.confirmed, machine.set.confirmed)
        return self.log.confirmed

    def stored(self, log_offset: int) -> None:
        """Count this broker's own copy up to *log_offset*."""
        machine = self.machine
        if machine is not None and machine.set is not None:
            before = machine.set.confirmed
            machine.appended(max(log_offset, 0))
            if machine.set.confirmed > before:
                self.moved()

    def _appended(self, end: int) -> None:
        if (machine := self.machine) is not None:
            machine.appended(end)

    def unconfirmed(self, log_offset: int) -> str:
        """Return why a message that ends at *log_offset* is not acknowledged now."""
        machine = self.machine
        if machine is None or not machine.is_master:
            return "this broker is not the master any more"
        now = self.clock.monotonic()
        if machine.may_acknowledge(log_offset, now):
            return ""
        return machine.problem(now) or "the in-sync set does not have it"

    def _refusal(self) -> GantryError | None:
        """Return why a message is not accepted now, as the clock says."""
        machine, now = self.machine, self.clock.monotonic()
        if machine is not None and not self._stopping and machine.may_accept(now):
            return None
        if self._stopping or machine is None:
            problem = "this broker stops" if self._stopping else self.election.problem if self.election else _NOT_YET
            return ServiceNotAvailable(f"service not available now: {problem}")
        problem = machine.problem(now)
        if not machine.is_master and self.election is not None and self.election.problem:
            problem = self.election.problem
        if machine.leased(now) and not machine.held and now >= self._waits_until:
            return RequestRefused(1, problem)
        return ServiceNotAvailable(f"service not available now: {problem}")

    def _show(self) -> None:
        """Make the confirmed part of the log visible to consumers."""
        confirmed = self.confirmed
        if confirmed != self.log.raw.visibility_limit:
            self.log.confirm(confirmed)  # kept after this broker loses mastership
            self.log.raw.limit_visibility(confirmed)

    def moved(self) -> None:
        """Answer senders of confirmed messages, and send slaves the confirm offset."""
        self._show()
        self._gate.look()
        self.copies.look()
        self.port.confirmed()

    def _note_confirmed(self) -> None:
        self.log.confirm(self.confirmed)

    async def _keep_always(self) -> None:
        while True:
            await self.clock.sleep(_KEEP_S)
            try:
                self._look_at_id()
                await self._keep()
            except Exception:
                log.exception("the state of the election is not kept")

    async def _keep(self) -> None:
        self._note_confirmed()
        try:
            await self.log.keep_confirmed()
        except (GantryError, OSError) as error:
            log.warning("the confirm offset is not kept: %s", error)

    def _register(self, broker_id: int) -> None:
        self._registers = True
        self.broker.registration.change(broker_id=broker_id, held="")

    async def settle_id(self) -> None:
        """Wait until the engine has confirmed the id, refused it or not answered, `_CONFIRM_S` at most, and register.

        So a broker is registered when its start ends. Its other services must have started, because it may be elected.
        """
        until = self.now + _CONFIRM_S
        while (election := self.election) is not None and self.now < until:
            if election.own_id or election.refused or election.unreachable:
                break
            await self.clock.sleep(_LOOK_S)
        self._look_at_id()

    def _look_at_id(self) -> None:
        """Register this broker as soon as it has an id; until then its registration shows the reason.

        The engine must confirm a granted id first: this broker may be a copy of a living one, whose place in the route
        it would take. While the engine cannot be reached, the id counts, so that reads go on.
        """
        election = self.election
        if election is None or self.leads:
            return
        granted = self._granted_id if election.unreachable and not election.refused else 0
        if own_id := election.own_id or granted:
            if not self._registers:
                self._register(own_id)
        elif election.problem:
            self._registers = False
            self.broker.registration.change(held=f"{_NO_ID}: {election.problem}")

    # --- roles --------------------------------------------------------------------------------------------------------

    async def become_master(self, epoch: int) -> Mastered:
        """Begin *epoch* at the end of the log."""
        self.is_serving = False
        await self.copy.end()
        await self.port.end_all(f"epoch {epoch} begins")
        await self.log.begin(epoch)
        machine = self.machine
        if machine is not None and self.election is not None and machine.standing.members == {self.election.own_id}:
            self.log.confirm(self.log.surely)  # no other replica needs to confirm this
            self._show()
        self.copies.begin()
        self.log.whole = True  # records that it lacks are not part of the log any more
        confirmed, self.leads = self.log.confirmed, True
        await self.broker.role.change(Role.MASTER, epoch)
        self._register(0)
        self._epoch, self.is_serving = epoch, True
        self.copy.problem = ""
        if machine is not None and self.election is not None:
            others = (machine.standing.members | self._followed_ids) - {self.election.own_id}
            self.away.begin(others, self.broker.world.clock.now_ms())
        self._waits_until = self.now + FIRST_S
        return Mastered(confirmed, self.log.surely)

    async def _all_shown(self) -> None:
        """Wait until the log that a new master began with is visible: its services read their progress there."""
        end = self.log.end
        while self.confirmed < end:
            await self.clock.sleep(_LOOK_S)

    async def follow(self, master: Follow) -> None:
        """Copy the log of *master*."""
        await self._stand_down(f"broker id {master.master} is the master of epoch {master.epoch}", master.epoch)
        self._followed_ids = frozenset({master.master})
        self._on_follow()
        if not self._leaving:  # else it would enter the set, and the master wait for it
            self.copy.begin(master, self.election.own_id if self.election is not None else 0)

    async def stand_down(self, reason: str) -> None:
        """Serve reads only."""
        await self._stand_down(reason, self.broker.role.epoch)

    async def _stand_down(self, reason: str, epoch: int) -> None:
        self._note_confirmed()
        self.leads = self.is_serving = False
        self._gate.release()
        self.copies.look()
        await self.copy.end()
        await self.port.end_all(reason)
        await self.broker.role.change(Role.REPLICA, max(epoch, self.broker.role.epoch))
        if self.election is not None and self.election.own_id and not self._leaving:
            self._register(self.election.own_id)

    def fence(self, reason: str) -> None:
        """Do nothing: the lease is checked for each message, and senders are answered within slaveTimeout."""

    def unfence(self) -> None:
        """Do nothing, as for `fence`."""

    # --- slave --------------------------------------------------------------------------------------------------------

    def _lacks_tables(self) -> bool:
        return not (self._epoch or self._has_tables())

    def _electable(self) -> bool:
        return self.machine is not None and not self.machine.unelectable

    def _copy_news(self) -> None:
        """Update visibility after the master confirmed more, or the logs matched."""
        machine, whole = self.machine, self.log.whole and self.log.end >= self.log.needed
        if machine is not None and machine.unelectable and whole and not self.rules.learner:
            machine.unelectable = ""
        self._show()

    # --- master -------------------------------------------------------------------------------------------------------

    def slave_problem(self, slave: SlaveHandshake) -> str:
        """Return why *slave* is not served; empty if it is."""
        machine = self.machine
        if not self.is_serving or machine is None or machine.epoch != self._epoch or not machine.is_master:
            return "this broker is not the master"
        if slave.broker_id < 1:
            return f"it says that it is broker id {slave.broker_id}, and ids in a set begin with 1"
        if self.election is not None and slave.broker_id == self.election.own_id:
            return f"broker id {slave.broker_id} is this master's own: both have the same identity file"
        return ""

    async def unknown(self, broker_id: int) -> str:
        """Return why *broker_id* is not known as the id of a broker of the set.

        The engine is asked once for an id that it has, and for another one at most every `_UNKNOWN_S`. While it does
        not answer, slaves are served.
        """
        machine, engine = self.machine, self.engine
        if machine is None or broker_id in self._ids | machine.standing.members:
            return ""
        if self.now >= self._unknown.get(broker_id, 0.0):
            try:
                known = await engine.has(broker_id)
            except GantryError:
                return ""
            if known:
                self._ids.add(broker_id)
                return ""
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[broker_id] = self.now + _UNKNOWN_S
        return f"no broker of this set has the id {broker_id}"

    def connected(self, serving: SlaveServing, slave: SlaveHandshake, acked: int) -> None:
        """Count a slave, instead of an older connection of the same one."""
        self.port.end_older(serving)
        election, machine = self.election, self.machine
        if election is not None and machine is not None:
            tables = self.copies.copied.get(slave.broker_id, -1) if slave.tells_tables else ANY_TABLES
            self.tables_saved(self.copies.number)
            self.away.came(slave.broker_id)
            election.do(machine.connected(slave.broker_id, acked, slave.learner, self.now, tables))

    def surpassed(self, slave: SlaveHandshake) -> None:
        """Hand over to a slave that has confirmed more than this master has."""
        if self.election is not None:
            self.election.give_way(slave.broker_id)

    def reported(self, slave: SlaveHandshake, acked: int) -> None:
        """Record a report."""
        election, machine = self.election, self.machine
        if election is not None and machine is not None:
            election.do(machine.reported(slave.broker_id, acked, self.clock.monotonic()))

    def gone(self, slave: SlaveHandshake) -> None:
        """Handle the end of the last connection of a slave."""
        election, machine = self.election, self.machine
        if election is not None and machine is not None:
            self.away.gone(slave.broker_id, self.clock.now_ms())
            election.do(machine.gone(slave.broker_id, self.clock.monotonic()))

    def stops(self, broker_id: int) -> None:
        """Note that another broker of the set stops, so that it does not count as lost."""
        machine = self.machine
        members = machine.standing.members if machine is not None else frozenset[int]()
        if broker_id in members | self._followed_ids | self._ids | self.away.since_ms.keys():
            self.away.stops(broker_id)

    async def forget(self, broker_id: int) -> None:
        """Forget a slave that is gone for good, at the engine too, so that no status reports it as lost.

        Raises:
            EngineError: this broker is not the master; *broker_id* is alive, in the in-sync set, or the id of no broker
                of the set; or the engine refuses or does not answer.
        """
        machine, engine = self.machine, self.engine
        if machine is None or machine.set is None or not machine.is_master:
            raise EngineRefused("this broker is not the master")
        if broker_id in machine.set.counted:
            raise EngineRefused(
                f"broker id {broker_id} is in the in-sync set {listed(machine.set.members)}, which needs it: it leaves "
                f"the set when it is stopped and {self.rules.least_copies} others are in sync (minInSyncReplicas)"
            )
        if broker_id in machine.set.followers:
            raise EngineRefused(f"broker id {broker_id} is connected to this master: stop it first")
        if await engine.has(broker_id):
            await engine.forget(broker_id)
        elif broker_id not in self.away.since_ms:
            raise EngineRefused(f"no broker of this set has the id {broker_id}")
        self.away.forget(broker_id)
        self._ids.discard(broker_id)
        log.info("broker id %d is forgotten", broker_id)

    @property
    def tables_everywhere(self) -> int:
        """The newest save of topics and groups that the in-sync set has."""
        machine = self.machine
        return machine.set.tables_everywhere if machine is not None and machine.set is not None else -1

    def tables_saved(self, number: int) -> None:
        """Record a new save of topics and groups."""
        if (machine := self.machine) is not None and machine.set is not None:
            machine.set.tables_saved(number, self.now)

    def tables_copied(self, broker_id: int, number: int) -> None:
        """Record that a slave has the topics and groups of save *number*."""
        if self.election is not None and (machine := self.machine) is not None:
            self.election.do(machine.tables_copied(broker_id, number, self.now))

    # --- requests -----------------------------------------------------------------------------------------------------

    def role_changed(self, asked: Command) -> None:
        """Handle 1008 (master changed). The master is read from the controller, as anyone can send this request."""
        if self.enabled and isinstance(self.engine, ControllerEngine):
            self.engine.role_changed(asked)
