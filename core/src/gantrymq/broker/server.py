"""Startup and shutdown of a broker. Everything is closed in reverse order of opening.

    start   store (lock, load, recover) -> tables -> dispatchers -> ports -> services -> requests -> register
    stop    unregister -> services -> respond to waiting requests -> close connections -> tables -> store

Ports are bound before services start, because services need the address. Requests wait until all services run.

Source: apache/rocketmq broker/.../BrokerController.java (initialize, start, shutdown).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Any

from gantrymq.broker.advertised import AdvertisedAddresses
from gantrymq.broker.consuming.offset_commits import OffsetCommits
from gantrymq.broker.counting.stats import SAMPLE_S, local_day
from gantrymq.broker.exposure import exposures
from gantrymq.broker.facade import BrokerFacade
from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.parts import BrokerResources, Parts, select_authorizer, select_transaction_service
from gantrymq.broker.ports import Ports
from gantrymq.broker.promotion import PromotedOffsets
from gantrymq.broker.protocols import ListenerProtocols
from gantrymq.broker.queue_kinds import (
    batch_queues_problem,
    check_settings,
    check_topics,
    detect,
    serves_light_queues,
)
from gantrymq.broker.revocation import Revocation
from gantrymq.broker.roles import MASTER_ONLY, RoleService
from gantrymq.broker.sending.dispatchers import FLUSH_S, Dispatchers
from gantrymq.broker.settings import name_servers_of
from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.disk_reserve import DiskReserve
from gantrymq.broker.tables.file_state_store import FileStateStore
from gantrymq.broker.tables.state_files import StateFiles
from gantrymq.broker.wire.families import serve
from gantrymq.broker.wire.router import RequestRouter
from gantrymq.config import Settings
from gantrymq.errors import PluginError, StoreError
from gantrymq.formats.config import RESERVE
from gantrymq.interfaces import AccessSummary, Cleaning, MessageStore, RecoveryReport, Service, StoreContext
from gantrymq.model.role import ACTING_STEP, Role
from gantrymq.plugins import Plugins
from gantrymq.remoting.admission import admission_of
from gantrymq.remoting.inner_client import inner_client, inner_credentials
from gantrymq.remoting.limits import Limits, connections_within
from gantrymq.remoting.listeners import optional_access
from gantrymq.remoting.server import RemotingServer, open_listeners
from gantrymq.world import Timer, World, is_disk_full
from gantrymq.world.clock import TimeSlices

log = logging.getLogger(__name__)

SILENT_SCAN_S = 10.0  # the period of ClientHousekeepingService
DESCRIPTOR_SHARE = 5 / 8  # for connections; 1/8 is for a name server in the same process, the rest for files
ACTING_ONLY = frozenset({Role.ACTING_MASTER})
CLAMP_STEP = 128  # pairs of topic and group whose offsets are checked in one iteration of the event loop


class BrokerServer:
    """One broker: it serves from ``await start()`` to ``await stop()``."""

    def __init__(self, world: World, settings: Settings, plugins: Plugins) -> None:
        """Create the broker without opening anything.

        Raises:
            PluginError: the configured store, authorizer or transaction service is not installed, or the store lacks a
                method that every store has.
            ConfigError: the store does not support a setting, addresses or credentials are not valid, or no plugin
                offers the protocol of a listener.
        """
        self.world = world
        self.settings = settings
        inner_credentials(settings)  # checked before anything is opened
        self._advertised = AdvertisedAddresses(settings)
        self.root = store_root(world, settings)
        self._authorizer: Any = select_authorizer(world, settings, plugins, self.root / "config")
        self.tables = Tables(world, settings, self._authorizer, optional_access(settings))
        self.tables.access.summary = self._access_summary()
        self._plugins = plugins
        self._protocols = ListenerProtocols(
            settings, plugins, self._advertised.listeners, self.tables.stats.plugin_failed
        )
        topics = self.tables.topics
        self._context = StoreContext(
            *(world, self.root, settings, log.warning, log.info),
            reserve_ms=topics.reserve_ms,
            has_batch_queues=topics.has_batch_queues,
            store=self._wrapped_store,
        )
        self.store: MessageStore = plugins.store(settings.text("store"))(self._context)
        self._capabilities = detect(settings.text("store"), self.store)
        check_settings(settings, self._capabilities)
        topics.batch_queues_problem = batch_queues_problem(settings, self._capabilities)
        self._transactions = select_transaction_service(settings, plugins)
        self._closing: list[Callable[[], Awaitable[Any]]] = []  # in order of opening
        self._identity: BrokerIdentity | None = None

    @property
    def identity(self) -> BrokerIdentity:
        """Names and advertised address; requires a started broker."""
        assert self._identity is not None, "the broker is not started"
        return self._identity

    @property
    def address(self) -> tuple[str, int]:
        """Advertised host and port; requires a started broker."""
        return self.identity.host, self.identity.port

    def _access_summary(self) -> AccessSummary:
        found = exposures([("broker", self.settings)])
        if self._authorizer is None:
            return AccessSummary(exposures=found)
        strategy = "stateless" if getattr(self._authorizer, "each_request", False) else "stateful"
        return AccessSummary(self.settings.text("authorizer"), strategy, found)

    def _wrapped_store(self, name: str) -> MessageStore:
        """Create the store *name* for the configured one. Raises PluginError."""
        if name == self.settings.text("store"):
            raise PluginError(f"store={name} cannot wrap itself; name another store")
        return self._plugins.store(name)(self._context)

    async def start(self, serving: Callable[[], object] = lambda: None) -> RecoveryReport:
        """Open the store, listen and register. Return once a name server has accepted the registration.

        Without ``namesrvAddr``, skip the registration. *serving* is called before it, when requests are served.

        Raises:
            StoreError: the store cannot be used.
            ConfigError: a port is in use, an address does not belong to this host, or a TLS file cannot be used.
        """
        try:
            return await self._start(serving)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop in order and shut the store down cleanly. Idempotent."""
        while self._closing:
            close = self._closing.pop()
            try:
                await close()
            except Exception:
                log.exception("a step of stopping the broker failed; continuing with the others")

    async def _start(self, serving: Callable[[], object]) -> RecoveryReport:
        world, settings, tables = self.world, self.settings, self.tables
        reserve = DiskReserve(world.files, self.root / "config" / RESERVE)
        report = await self._open_store(reserve)
        self._closing.append(self.store.stop)
        self._log_opening(report)
        own = self._capabilities.state_store
        state = StateFiles(
            world,
            FileStateStore(world.files, self.root / "config", reserve) if own is None else own,
            tables.topics,
            tables.groups,
            tables.offsets,
            light=serves_light_queues(settings),
        )
        await state.load()
        check_topics(tables.topics.batch_queues_problem, tables.topics.view.values())
        self._closing.append(state.close)
        offset_commits = OffsetCommits(self.store, tables, state.commits_refusal)
        # After a crash a queue may end before a committed offset; the group would miss messages stored there later.
        if not report.clean:
            await self._clamp_offsets(offset_commits)
        if (cleaning := self._capabilities.cleaning) is not None:
            await cleaning.clean(Cleaning.RESERVE_TIMES)  # topic attributes were not loaded when the store opened
        dispatchers = [build(self._context) for build in self._plugins.dispatchers.values()]
        running = Dispatchers(self.store, dispatchers, world.workers)
        await running.catch_up()
        self._closing.append(running.close)
        router = RequestRouter(self._plugins.left_out)
        admission = admission_of(settings, world.clock, world.files, grpc=self._protocols.grpc_advice)
        remoting = RemotingServer(
            world, router, limits=limits_of(settings, world.descriptors()), name="broker", admission=admission
        )
        self._closing.append(remoting.stop)
        bound = await Ports(remoting, settings).listen()
        connections = self._protocols.connections(world, remoting)
        others = await open_listeners(remoting, self._advertised.listeners, admission, held=True, others=connections)
        identity = self._identity = await self._advertised.identity(world, bound, others)
        self._protocols.advertise(identity)
        tables.topics.add_system_topics(identity.cluster, identity.broker_name)
        tables.groups.add_system_groups()
        client = inner_client(world, settings, tls=bool(name_servers_of(settings)))
        resources = BrokerResources(
            world,
            self.root,
            settings,
            self._plugins,
            self.store,
            self._capabilities,
            tables,
            state,
            offset_commits,
            running,
            self._transactions,
            self._context.bit_maps,
            report.clean,
        )
        parts = Parts(resources, identity, client)
        serve(router, parts)
        facade = BrokerFacade(parts, lambda: router.connections + self._protocols.connections_served)
        if self._authorizer is not None:
            self._closing.append(Revocation(tables, parts.held_pulls, world.clock).stop)
        offsets = PromotedOffsets(
            parts.roles, parts.pipeline, self._capabilities.raw_log, partial(self._clamp_offsets, parts.offset_commits)
        )
        self._closing.append(offsets.stop)
        await parts.roles.run(
            RoleService("committed offsets", MASTER_ONLY, partial(self._promoted, parts, offsets), offsets.stop)
        )
        await parts.roles.run(RoleService("offsets of an acting master", ACTING_ONLY, self._take_over, _nothing))
        if hasattr(self._authorizer, "start"):
            await self._run(parts, "authorizer", self._authorizer, facade, frozenset(Role))
        if self._transactions is not None:
            await self._run(parts, "transaction", self._transactions, facade)  # stopped after the last responses
        services = sorted(self._plugins.services, key=_only_on_masters)  # the others may make it a replica first
        for service in filter(_stops_last, services):
            await self._run(parts, service.name, service, facade)
        self._closing.append(partial(self._finish_requests, router, parts))
        for service in filterfalse(_stops_last, services):
            await self._run(parts, service.name, service, facade)
        if parts.transactions is not None:
            await self._run(parts, "transaction checks", parts.transactions, facade)
        for protocol in self._protocols.running:
            await self._run(parts, f"protocol {protocol.name}", protocol, facade, frozenset(Role))
        self._sample()
        self._every(SAMPLE_S, self._sample)
        self._every(SILENT_SCAN_S, self._close_silent)
        self._every(FLUSH_S, running.flush)
        self._every(settings.number("flushConsumerOffsetInterval") / 1000, state.offsets_due)
        remoting.release()
        serving()
        self._closing.append(client.close)
        parts.registration.start()
        # Appended last and so stopped first: name servers stop naming this broker before it refuses requests.
        self._closing.append(parts.registration.stop)
        self._closing.append(parts.roles.close)
        self._closing.extend(each.leave for each in services if hasattr(each, "leave"))  # before all that
        tables.topics.on_change(lambda topic: parts.registration.topic_changed(topic.name))
        await parts.registration.registered()
        return report

    async def _run(
        self, parts: Parts, name: str, service: Any, facade: BrokerFacade, roles: frozenset[Role] | None = None
    ) -> None:
        """Start a service if it runs in the broker's role; it is stopped with the broker.

        *roles*: in which it runs; None to ask the service.
        """
        if roles is None:
            roles = getattr(service, "roles", MASTER_ONLY)
        work = RoleService(name, roles, partial(service.start, facade), service.stop, parts.plugin_metrics)
        self._closing.append(work.stop)
        await parts.roles.run(work)

    async def _finish_requests(self, router: RequestRouter, parts: Parts) -> None:
        """Redirect clients that support it to other brokers; finish held requests and those in progress."""
        router.turn_away()
        await parts.answer_waiting()
        await router.close()
        parts.close()

    async def _open_store(self, reserve: DiskReserve) -> RecoveryReport:
        """Open the store. On a full disk, release the reserve first; that is enough for consumers to read.

        Raises:
            StoreError: as `MessageStore.start`.
        """
        try:
            return await self.store.start()
        except StoreError as error:
            if not is_disk_full(error.__cause__) or not await self.world.workers.run(reserve.give_up):
                raise
        name = self.settings.text("store")
        self.store = self._plugins.store(name)(self._context)
        self._capabilities = detect(name, self.store)
        return await self.store.start()

    def _log_opening(self, report: RecoveryReport) -> None:
        """Log one line about the recovery of the store; the store has logged the details."""
        if report.clean:
            log.info("store %s opened, clean; its log ends at %d", self.root, report.log_end)
        else:
            log.warning(
                "store %s opened after a stop that was not clean: %d records checked, the log ends at %d, %d bytes cut "
                "off and kept, %d queue entries written",
                *(self.root, report.records_checked, report.log_end, report.cut_bytes, report.entries_rebuilt),
            )

    async def _promoted(self, parts: Parts, offsets: PromotedOffsets) -> None:
        """Clamp committed offsets of a new master.

        The versions of its tables get its epoch, by which name servers refuse the registration of an older master.
        """
        for table in (self.tables.topics, self.tables.groups, self.tables.offsets):
            table.version.state_version = max(table.version.state_version, parts.roles.epoch)
        await offsets.start()

    async def _take_over(self) -> None:
        """Give the offsets of an acting master a newer version than its master has, which takes them when it is back.

        A master increments its version every consumerOffsetUpdateVersionStep commits, and the copy may lag by some.
        """
        self.tables.offsets.version.counter += ACTING_STEP

    async def _clamp_offsets(self, offset_commits: OffsetCommits) -> None:
        """Clamp committed offsets to the end of their queue, yielding to the loop between groups."""
        slices = TimeSlices(self.world.clock, CLAMP_STEP)
        for warnings in self.tables.offsets.cut_back(offset_commits.end):
            for warning in warnings:
                log.warning(warning)
            await slices.item_done()

    def _every(self, period_s: float, action: Callable[[], None]) -> None:
        """Run *action* periodically until the broker stops."""
        timer: list[Timer] = []

        def tick() -> None:
            timer[0] = self.world.clock.call_later(period_s, tick)
            try:
                action()
            except Exception:
                log.exception("a periodic task of the broker failed")

        timer.append(self.world.clock.call_later(period_s, tick))

        async def cancel() -> None:
            timer[0].cancel()

        self._closing.append(cancel)

    def _sample(self) -> None:
        """Sample the counters, and pass them the current day."""
        self.tables.stats.sample(self.world.clock.monotonic())
        self.tables.stats.today(local_day(self.world.clock))

    def _close_silent(self) -> None:
        """Close connections of clients without recent heartbeats, and remove expired locks."""
        self.tables.locks.forget_lapsed()
        for connection in self.tables.clients.silent(self.settings.number("channelExpiredTimeout")):
            log.warning("%s:%d sent no heartbeat for too long and is closed", *connection.peer)
            self.tables.clients.leave_all(connection)
            connection.close()


def store_root(world: World, settings: Settings) -> Path:
    """Return storePathRootDir, or ``store`` in the user's home."""
    given = settings.text("storePathRootDir")
    return Path(given) if given else Path(world.environ.get("HOME", ".")) / "store"


def limits_of(settings: Settings, descriptors: int) -> Limits:
    """Return the limits for the connections of a process that may open *descriptors* files and sockets."""
    wanted = settings.number("maxConnections")
    most = connections_within(descriptors, DESCRIPTOR_SHARE, wanted)
    if most < wanted:
        log.warning(
            "this process may have %d files and sockets open, so the limit is %d connections instead of "
            "maxConnections=%d; raise its limit (ulimit -n, LimitNOFILE=)",
            *(descriptors, most, wanted),
        )
    return Limits(
        max_connections=most,
        idle_timeout_s=float(settings.number("serverChannelMaxIdleTimeSeconds")),
        busy_poll_s=settings.number("busyPollMicros") / 1_000_000,
    )


async def _nothing() -> None:
    """Stop nothing."""


def _stops_last(service: Service) -> bool:
    return bool(getattr(service, "stops_last", False))


def _only_on_masters(service: Service) -> bool:
    """Return whether *service* does not run on replicas."""
    return Role.REPLICA not in getattr(service, "roles", MASTER_ONLY)
