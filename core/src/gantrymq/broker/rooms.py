"""The rooms of one broker, built once its store is open and its address known; nothing here starts or stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from gantrymq.broker.clients import ClientTable
from gantrymq.broker.cluster_queues import ClusterQueues
from gantrymq.broker.committing import Committing
from gantrymq.broker.deletions import Deletions
from gantrymq.broker.filters import Filters
from gantrymq.broker.followers import Followers, SyncFlush
from gantrymq.broker.groups import GroupTable
from gantrymq.broker.identity import Identity
from gantrymq.broker.locks import QueueLocks
from gantrymq.broker.longpoll import HeldPulls
from gantrymq.broker.offsets import ConsumerOffsets
from gantrymq.broker.pipeline import Pipeline
from gantrymq.broker.placing import serves_light_queues
from gantrymq.broker.plugin_guards import GuardedGate, GuardedInterceptor, guarded_handler
from gantrymq.broker.pull import Puller
from gantrymq.broker.send import Sender
from gantrymq.broker.state_files import StateFiles
from gantrymq.broker.stats import Stats
from gantrymq.broker.topics import TopicTable
from gantrymq.broker.wire.assignment import AssignmentRequests
from gantrymq.broker.wire.clients import ClientRequests
from gantrymq.broker.wire.config import ConfigRequests
from gantrymq.broker.wire.counters import CounterRequests
from gantrymq.broker.wire.dispatch import Dispatch
from gantrymq.broker.wire.groups import GroupRequests
from gantrymq.broker.wire.maintenance import MaintenanceRequests
from gantrymq.broker.wire.members import MemberRequests
from gantrymq.broker.wire.offsets import OffsetRequests
from gantrymq.broker.wire.progress import ProgressRequests
from gantrymq.broker.wire.pull import PullRequests
from gantrymq.broker.wire.query import QueryRequests
from gantrymq.broker.wire.queue_entries import QueueEntryRequests
from gantrymq.broker.wire.reset import ResetRequests
from gantrymq.broker.wire.runtime import RuntimeRequests
from gantrymq.broker.wire.send import SendRequests
from gantrymq.broker.wire.topics import TopicRequests
from gantrymq.config import Settings
from gantrymq.interfaces import Gate, MessageStore, TransactionService
from gantrymq.model.ids import UniqueIds
from gantrymq.plugins import Plugins
from gantrymq.world import World
from gantrymq.world.clock import monotonic_ms


class Tables:
    """What a broker remembers; loaded from its files before the rooms are built."""

    def __init__(self, world: World, settings: Settings) -> None:
        now_ms = world.clock.now_ms
        self.topics = TopicTable(settings, now_ms)
        self.groups = GroupTable(settings, now_ms)
        self.offsets = ConsumerOffsets(settings.number("consumerOffsetUpdateVersionStep"), now_ms)
        self.clients = ClientTable(partial(monotonic_ms, world.clock))
        self.locks = QueueLocks(partial(monotonic_ms, world.clock))
        self.stats = Stats()


class Rooms:
    """Sends, pulls and requests over the tables and the store."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        plugins: Plugins,
        identity: Identity,
        dispatch: Dispatch,
        tables: Tables,
        store: MessageStore,
        state: StateFiles,
        committing: Committing,
        followers: Followers,
        transactions: TransactionService | None,
    ) -> None:
        self.register_again: Callable[[], None] = lambda: None  # replaced once there is a registration, as is this:
        self.topic_deleted: Callable[[], None] = lambda: None
        self.name_servers: Callable[[], dict[str, str | None]] = dict  # replaced once there is a registration
        self.identity = identity
        self.followers = followers
        self._tables = tables
        self._store = store
        self.committing = committing
        self.state = state
        clock, topics, groups, clients = world.clock, tables.topics, tables.groups, tables.clients
        self.held = HeldPulls(store, clock, light=serves_light_queues(settings))
        stats = tables.stats
        self.filters = Filters(
            {name: build() for name, build in plugins.filters.items()}, lambda name: stats.plugin_failed("filter", name)
        )
        self.interceptors = tuple(GuardedInterceptor(each, stats) for each in plugins.interceptors)
        gates = [GuardedGate(each, stats) for each in plugins.gates]
        self.pipeline = Pipeline(
            store, gates_of(settings, gates, store), clock, settings.number("syncFlushTimeout") / 1000
        )
        for listener in (followers.published, tables.stats.published, self.held.arrived):
            self.pipeline.on_published(listener)
        self.pipeline.on_acknowledged(tables.stats.put_times.acknowledged)
        unique_ids = UniqueIds(identity.packed_host[:-4], world.process_id, world.random.getrandbits(32), clock)
        self.sender = Sender(world, settings, topics, groups, self.interceptors, transactions, unique_ids, identity)
        self.puller = Puller(
            *(settings, clock, store, topics, groups, clients, tables.offsets, self.committing, self.filters),
            *(self.held, tables.stats),
        )
        self.cluster_queues = ClusterQueues(identity, topics)
        self._deletions = Deletions(self._forget_topic, partial(state.saved, offsets=True))
        self.dispatch = dispatch
        sends = SendRequests(identity, settings, self.sender, self.pipeline, state, tables.stats)
        for family in (
            sends,
            PullRequests(self.puller, tables.stats),
            ClientRequests(settings, clock, topics, groups, clients, self.filters, tables.locks),
            OffsetRequests(store, topics, groups, tables.offsets, self.committing),
            TopicRequests(identity, store, topics, self.delete_topic, tables.stats.topic_put_tps, state.saved),
            GroupRequests(groups, clients, tables.offsets, state),
            RuntimeRequests(world, state, store, tables.stats, self.held, tables.offsets, settings, clock.now_ms()),
            ConfigRequests(identity, settings, clock, self.permission_changed),
            ProgressRequests(identity, clock, store, topics, groups, clients, tables.offsets, tables.stats),
            ResetRequests(identity, settings, store, topics, groups, clients, tables.offsets),
            MemberRequests(identity, store, topics, groups, clients),
            CounterRequests(identity, tables.stats),
            QueueEntryRequests(store, topics, clients),
            QueryRequests(settings, store),
            AssignmentRequests(clients, plugins.allocations, self.cluster_queues.readable),
            MaintenanceRequests(clock, store, topics),
        ):
            self.dispatch.add(family.handlers())
        self.dispatch.add_together(sends.send_alike)
        self.dispatch.around(self.pipeline.hold, self.pipeline.release)
        self.dispatch.add({code: guarded_handler(code, each, stats) for code, each in plugins.handlers.items()})
        self.dispatch.on_connection_lost(clients.connection_lost)
        self.dispatch.on_connection_lost(self.held.connection_lost)
        topics.on_change(lambda topic: self.held.topic_changed(topic.name))

    async def delete_topic(self, name: str) -> None:
        """Forget a topic: its configuration, its queues, and what groups committed for it.

        Returns when no crash brings topic or queues back.

        Raises:
            InvalidParameter: blank, or a system topic.
            StoreError: topic or queues are forgotten, but not durably so.
        """
        await self._deletions.delete(name)

    def _forget_topic(self, name: str) -> Awaitable[None]:
        """Forget all of a topic before anything else happens; what is returned is done when its queues stay gone."""
        self._tables.topics.delete(name)
        self.state.topics_changed(name)
        dropped = self._store.drop(name)
        self._tables.offsets.forget_topic(name)
        self.state.offsets_due()  # or a topic made anew under this name would be read from the old offsets
        self._tables.stats.forget(name)
        self.held.topic_changed(name)
        self.topic_deleted()
        return dropped

    def permission_changed(self) -> None:
        """Tell the name servers what brokerPermission makes of the topics now."""
        self._tables.topics.permission_changed()
        self.register_again()

    async def close(self) -> None:
        """Turn clients away and answer everything that waits."""
        self.dispatch.turn_away()
        self.held.close()
        await self.pipeline.close()
        await self.dispatch.close()
        self._deletions.close()


def gates_of(settings: Settings, plugged: Sequence[Gate], store: MessageStore) -> list[Gate]:
    """What an acknowledgement waits for: the disk when flushing is synchronous, then what plugins add."""
    own: list[Gate] = [SyncFlush(store)] if settings.text("flushDiskType") == "SYNC_FLUSH" else []
    return [*own, *plugged]
