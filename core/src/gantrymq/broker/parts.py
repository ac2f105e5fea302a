"""The components of one broker, built when the store is open and the address is known.

Nothing here starts or stops by itself except for the work that `close` ends. The request handlers
(`gantrymq.broker.wire`), the metrics and the facade for plugins get their components from `Parts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import attrs

from gantrymq.broker.consuming.deferred_reads import MOST_SENDS, DeferredReads
from gantrymq.broker.consuming.filters import Filters
from gantrymq.broker.consuming.held_pulls import HeldPulls
from gantrymq.broker.consuming.lags import GroupLags
from gantrymq.broker.consuming.offset_commits import OffsetCommits
from gantrymq.broker.consuming.pull import Pulls
from gantrymq.broker.consuming.query import view_message
from gantrymq.broker.counted_plugins import CountedGate
from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.messages import BrokerMessages
from gantrymq.broker.queue_kinds import serves_light_queues
from gantrymq.broker.registering.registration import Registration
from gantrymq.broker.roles import Roles
from gantrymq.broker.sending.arrivals import Arrivals
from gantrymq.broker.sending.dispatchers import Dispatchers, SyncFlushGate
from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.broker.sending.prepare import SendPreparation
from gantrymq.broker.sending.queue_targets import TargetSelector
from gantrymq.broker.sending.send import Sends
from gantrymq.broker.sending.sending_back import SendingBack
from gantrymq.broker.sending.transactions import Transactions
from gantrymq.broker.settings import name_servers_of
from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.deletions import Deletions
from gantrymq.broker.tables.snapshot import Snapshots
from gantrymq.broker.tables.state_files import StateFiles
from gantrymq.config import Settings
from gantrymq.errors import PluginError
from gantrymq.interfaces import (
    Authorizer,
    AuthorizerContext,
    BitMaps,
    Gate,
    MessageStore,
    MetricFamily,
    StoreCapabilities,
    TransactionService,
)
from gantrymq.model import names
from gantrymq.plugins import Plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.responses import SlicedResponses
from gantrymq.world import World

_DEFAULT_TRANSACTIONS = "rocketmq"


@attrs.frozen
class BrokerResources:
    """The resources that are open before the broker has an address."""

    world: World
    root: Path
    settings: Settings
    plugins: Plugins
    store: MessageStore
    store_capabilities: StoreCapabilities
    tables: Tables
    state: StateFiles
    offset_commits: OffsetCommits
    dispatchers: Dispatchers
    transactions: TransactionService | None
    bit_maps: BitMaps
    clean_start: bool  # the store was shut down normally


class Parts:
    """The components of one broker, by name."""

    def __init__(self, resources: BrokerResources, identity: BrokerIdentity, client: RemotingClient) -> None:
        """*client*: for requests to the name servers."""
        world, settings, tables, store = resources.world, resources.settings, resources.tables, resources.store
        self.root, self.store_capabilities = resources.root, resources.store_capabilities
        self.world, self.settings, self.plugins, self.identity = world, settings, resources.plugins, identity
        self.store, self.tables, self.state, self.bit_maps = store, tables, resources.state, resources.bit_maps
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        self.clients, self.locks, self.stats, self.access = tables.clients, tables.locks, tables.stats, tables.access
        self.offset_commits, self.dispatchers = resources.offset_commits, resources.dispatchers
        self.lags = GroupLags(store, tables, world.clock)
        self.clean_start, self.started_ms = resources.clean_start, world.clock.now_ms()
        self.sliced_responses = SlicedResponses(world.clock)
        name_servers = name_servers_of(settings)
        self.registration = Registration(
            client,
            world,
            name_servers,
            identity,
            tables.topics,
            period_s=settings.number("registerNameServerPeriod") / 1000,
            timeout_s=settings.number("registerBrokerTimeoutMills") / 1000,
            failed=tables.stats.plugin_failed,
        )
        self.plugin_metrics: list[Callable[[], MetricFamily]] = []  # see `MetricsReader.register`
        self._build_consuming(resources)
        self._build_sending(resources)
        self._deletions = Deletions(self._forget_topic, partial(resources.state.saved, offsets=True))
        self.snapshots = Snapshots(
            world,
            tables,
            resources.state,
            resources.plugins.services,
            lambda: self.roles.current,
            self._deletions.delete,
            lambda topic: self.held_pulls.topic_changed(topic.name),
            self.registration.changed,
        )

    def _master_address(self) -> str:
        return self.registration.master_address

    def _build_consuming(self, resources: BrokerResources) -> None:
        settings, tables, stats = resources.settings, resources.tables, resources.tables.stats
        self.held_pulls = HeldPulls(
            resources.store,
            resources.world.clock,
            light=serves_light_queues(settings),
            failed=stats.plugin_failed,
        )
        self.filters = Filters(
            settings,
            {name: build() for name, build in resources.plugins.filters.items()},
            lambda name: stats.plugin_failed("filter", name),
        )
        tables.groups.attributes_changed = self.filters.forget
        self._deferred_reads = DeferredReads(resources.world.clock)
        self.pulls = Pulls(
            settings,
            resources.world.clock,
            resources.store,
            resources.store_capabilities.raw_log,
            tables,
            self.offset_commits,
            self.filters,
            self.held_pulls,
            self._deferred_reads,
            lambda: self.roles.is_master(),
            lambda: self.roles.serves_as_master(),
        )
        tables.clients.on_gone(self.held_pulls.connection_lost)
        tables.topics.on_change(lambda topic: self.held_pulls.topic_changed(topic.name))

    def _build_sending(self, resources: BrokerResources) -> None:
        world, settings, tables, stats = resources.world, resources.settings, resources.tables, resources.tables.stats
        self.interceptors = InterceptorChain(resources.plugins.interceptors, stats)
        gates = [CountedGate(each, stats) for each in resources.plugins.gates if _applies(each, settings)]
        self.pipeline = Pipeline(
            resources.store,
            gates_of(settings, gates, resources.store),
            resources.world.clock,
            settings.number("syncFlushTimeout") / 1000,
        )
        self._deferred_reads.sends_wait = partial(self.pipeline.few_wait_for_disk, MOST_SENDS)
        self.pipeline.on_passed(self._deferred_reads.release)
        for listener in (resources.dispatchers.published, stats.published, self.held_pulls.arrived):
            self.pipeline.on_published(listener)
        self.pipeline.on_acknowledged(stats.put_times.acknowledged)
        if (raw_log := resources.store_capabilities.raw_log) is not None:
            raw_log.on_appended(self.pipeline.appended_raw)
            raw_log.on_limit_moved(self.pipeline.limit_moved)
            raw_log.on_truncated(self.pipeline.truncated)
            raw_log.on_truncated(resources.dispatchers.truncated)
        self.transactions = (
            None
            if resources.transactions is None
            else Transactions(resources.transactions, settings, world.clock, stats)
        )
        target_selector = TargetSelector(settings)
        self.preparation = SendPreparation(
            world, settings, self.identity, tables, self.interceptors, target_selector, self.transactions
        )
        self.roles = Roles(raw_log, self.pipeline.append_now, stats.plugin_failed, self._master_address)
        stats.counts_topics = self.roles.is_master
        tables.topics.may_create, tables.groups.may_create = self.roles.is_master, self.roles.serves_as_master
        self.sends = Sends(
            tables, self.preparation, self.pipeline, resources.state, self.interceptors, target_selector, self.roles
        )
        arrivals = Arrivals(self.pipeline, settings, stats.plugin_failed)
        host = self.identity.packed_host
        view = partial(view_message, resources.store, resources.store_capabilities.view)
        self.sending_back = SendingBack(world, settings, view, tables, self.sends, self.interceptors, host)
        self.messages = BrokerMessages(
            resources.store,
            resources.store_capabilities,
            settings,
            self.sends,
            self.preparation,
            self.pulls,
            self.pipeline,
            arrivals,
            self.sending_back,
            self.transactions,
            tables.access,
            self.roles,
            resources.plugins.services,
            stats.plugin_failed,
        )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with its configuration, its queues and the committed offsets for it.

        If clearRetryTopicWhenDeleteTopic is set, also delete the retry topics of groups that popped it. Return when the
        deletion is durable.

        Raises:
            InvalidParameter: the name is blank, or the topic belongs to the broker.
            StoreError: topic or queues are deleted, but not durably.
        """
        self.topics.check_own(name, "deleted")  # before any retry topic is deleted
        groups = self.offsets.groups_of(name) if self.settings.flag("clearRetryTopicWhenDeleteTopic") else ()
        retries = [each for group in groups for each in self._retry_topics(group, [name])]
        await asyncio.gather(*map(self._deletions.delete, (name, *retries)))

    async def delete_group(self, name: str, *, clean_offsets: bool) -> None:
        """Delete a group; with *clean_offsets* also its committed offsets and retry topics. Dead letters are kept.

        A group with online members is created again by their next heartbeat, so its retry topics, which contain the
        messages that members sent back, and its locks are kept.

        Raises:
            StoreError: the group is deleted, but not durably.
        """
        self.groups.delete(name)
        members = self.clients.consumer_group(name)
        online = members is not None and bool(members.members)
        if not online:
            self.locks.forget(name)
        deleted: list[Awaitable[None]] = []
        if clean_offsets:
            if not online:
                retries = [names.retry_topic(name), *self._retry_topics(name, self.offsets.topics_of(name))]
                deleted = [self._deletions.delete(each) for each in retries if self.topics.get(each) is not None]
            self.offsets.forget_group(name)
            self.state.offsets_due()
            self.stats.forget_group(name)
            self.groups.deleted(name)
        await asyncio.gather(*deleted, self.state.saved(offsets=clean_offsets))

    def _retry_topics(self, group: str, topics: Iterable[str]) -> list[str]:
        """Return the pop retry topics of *group* for *topics*, without those that another group uses as well."""
        found = [each for topic in topics for each in names.pop_retry_topics(group, topic)]
        return [each for each in found if self.topics.get(each) is not None and not self._shared(each, group)]

    def _shared(self, retry_topic: str, group: str) -> bool:
        """Return whether a pop retry topic of *group* is also a retry topic or pop retry topic of another group."""
        own = retry_topic.removeprefix(names.RETRY_PREFIX)
        parts = own.split("_")
        pairs = [("_".join(parts[:cut]), "_".join(parts[cut:])) for cut in range(1, len(parts))]
        return self.groups.get(own) is not None or any(
            other != group and other in self.offsets.groups_of(topic) for other, topic in pairs
        )

    def _forget_topic(self, name: str) -> Awaitable[None]:
        """Delete a topic in one step of the loop. The awaitable is done when the removal of its queues is durable."""
        self.pipeline.append_now()  # pending messages appended later would create queues of the deleted topic
        self.topics.delete(name)
        self.state.topics_changed(name)
        dropped = self.store.drop(name)
        self.offsets.forget_topic(name)
        self.state.offsets_due()  # a new topic of this name must not be read from the old offsets
        self.stats.forget(name)
        self.preparation.forget(name)
        self.filters.forget(name)
        self.held_pulls.topic_changed(name)
        self.registration.topic_deleted()
        self.topics.deleted(name)
        return dropped

    def permission_changed(self) -> None:
        """Register the topics again after a change of brokerPermission."""
        self.topics.permission_changed()
        self.registration.changed()

    async def answer_waiting(self) -> None:
        """Accept no more messages, and respond to all waiting pulls and sends."""
        self.held_pulls.close()
        await self.pipeline.close()

    def close(self) -> None:
        """Start no more deletions."""
        self._deletions.close()


def _applies(gate: Gate, settings: Settings) -> bool:
    return not hasattr(gate, "applies") or bool(gate.applies(settings))


def gates_of(settings: Settings, plugged: Sequence[Gate], store: MessageStore) -> list[Gate]:
    """Return the gates of acknowledgements: the sync if flushDiskType is SYNC_FLUSH, then those of plugins."""
    own: list[Gate] = [SyncFlushGate(store)] if settings.text("flushDiskType") == "SYNC_FLUSH" else []
    return [*own, *plugged]


def select_authorizer(
    world: World, settings: Settings, plugins: Plugins, folder: Path, *, writable: bool = True
) -> Authorizer | None:
    """Return the authorizer that ``authorizer=NAME`` selects; None if it is empty.

    *folder*, *writable*: see `AuthorizerContext`.

    Raises:
        PluginError: no installed plugin offers it.
        ConfigError: two settings select different ones.
    """
    settings.apply_selections()  # of settings that were not loaded from layers
    name = settings.text("authorizer")
    if not name:
        return None
    if name not in plugins.authorizers:
        there = f"there is {', '.join(plugins.authorizers)}" if plugins.authorizers else "there is none"
        raise PluginError(f"authorizer={name}: no installed plugin offers an authorizer of that name ({there})")
    return plugins.authorizers[name](AuthorizerContext(world, settings, folder, writable))


def select_transaction_service(settings: Settings, plugins: Plugins) -> TransactionService | None:
    """Return the transaction service: the configured one, the default one, or the only one; None if there is none.

    Raises:
        PluginError: the configured service is not installed, or several are installed and none is configured.
    """
    named = settings.text("transaction")
    if not named and _DEFAULT_TRANSACTIONS in plugins.transactions:
        named = _DEFAULT_TRANSACTIONS
    if named:
        if named not in plugins.transactions:
            raise PluginError(f"transaction={named}: no installed plugin offers a transaction service of that name")
        return plugins.transactions[named]()
    if len(plugins.transactions) > 1:
        raise PluginError(
            f"several plugins offer transactions ({', '.join(plugins.transactions)}); set transaction= to one of them"
        )
    return next((build() for build in plugins.transactions.values()), None)
