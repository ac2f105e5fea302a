"""Tables of topics, groups, offsets and clients, and their files."""

from __future__ import annotations

from functools import partial

from gantrymq.broker.access import AccessControl
from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.tables.clients import ClientTable
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.locks import QueueLocks
from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Settings
from gantrymq.interfaces import Authorizer
from gantrymq.world import World
from gantrymq.world.clock import monotonic_ms


class Tables:
    """Topics, groups, offsets, clients, locks, access decisions and counters; the first three are persistent."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        authorizer: Authorizer | None = None,
        optional_listeners: frozenset[str] = frozenset(),
    ) -> None:
        """*optional_listeners*: names of the listeners that serve requests without an account."""
        now_ms = world.clock.now_ms
        self.stats = Stats(lambda name: self.topics.is_own(name))
        failed = self.stats.plugin_failed
        self.topics = TopicTable(settings, now_ms, failed)
        self.groups = GroupTable(settings, now_ms, failed)
        version_step = settings.number("consumerOffsetUpdateVersionStep")
        self.offsets = ConsumerOffsets(version_step, now_ms, world.clock.monotonic)
        self.clients = ClientTable(world.clock, self.topics, self.groups, failed)
        self.access = AccessControl(authorizer, settings.text("brokerClusterName"), failed, optional_listeners)
        self.access.has_group = self.groups.view.__contains__
        if authorizer is not None:
            self.clients.on_heartbeat(self.access.check_heartbeat)
        self.locks = QueueLocks(partial(monotonic_ms, world.clock))
