"""All of the broker that plugins see: `gantrymq.interfaces.Broker` over the rooms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gantrymq.broker.counted_plugins import guarded_listener, intercepted
from gantrymq.broker.counting.figures import take_figures
from gantrymq.broker.parts import Rooms, Tables
from gantrymq.broker.sending.placing import Placer, serves_light_queues
from gantrymq.config import Settings
from gantrymq.errors import RefusedWith
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import (
    Bounds,
    Connection,
    DispatchEntry,
    Figures,
    GetLimit,
    GetResult,
    Interceptor,
    MessageStore,
    PutResult,
    PutStatus,
    StoreMessage,
)
from gantrymq.model.group import GroupConfig
from gantrymq.model.light_queues import LIGHT_QUEUE_ID
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.world import World
from gantrymq.world.folders import make_durable_dirs

log = logging.getLogger(__name__)


class BrokerFacade:
    """What a service or transaction plugin is given."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        root: Path,
        tables: Tables,
        rooms: Rooms,
        store: MessageStore,
        interceptors: Sequence[Interceptor],
    ) -> None:
        self.world = world
        self.settings = settings
        self.store = store
        self._root = root
        self._tables = tables
        self._rooms = rooms
        self._interceptors = tuple(interceptors)
        self._placer = Placer(settings)
        self._light = serves_light_queues(settings)
        self._arrivals: list[Callable[[Queue, int], Any]] = []
        rooms.pipeline.on_published(self._published)

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates.

        Raises:
            RequestError: an interceptor or the store refuses it.
            StoreError: the gates failed.
        """
        message = intercepted(message, self._interceptors)
        self._placer.place_of_plugin(message, self._tables.topics.get(message.topic))
        (result,) = await self._rooms.pipeline.put([message])
        if result.status is not PutStatus.OK:
            raise RefusedWith(result.status.value, result.problem or result.status.name)
        return result

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without a filter."""
        found = self.store.get(queue, queue_offset, limit, None)
        return found if isinstance(found, GetResult) else await found

    def read(self, log_offset: int) -> RecordView | None:
        """The record at *log_offset*."""
        return self.store.read(log_offset)

    def bounds(self, queue: Queue) -> Bounds:
        """Offsets of a queue."""
        return self.store.bounds(queue)

    def committed(self, group: str, queue: Queue) -> int | None:
        """Committed queue offset of a group."""
        return self._tables.offsets.committed(group, queue)

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group; see `Committing.commit`."""
        self._rooms.committing.commit(group, queue, queue_offset)

    def topic(self, name: str) -> TopicConfig | None:
        """A topic's configuration."""
        return self._tables.topics.get(name)

    def topics(self) -> Mapping[str, TopicConfig]:
        """Every topic; read-only."""
        return self._tables.topics.view

    def create_topic(self, topic: TopicConfig) -> None:
        """Create or replace a topic, persist it and tell the name servers."""
        self._tables.topics.put(topic)

    def group(self, name: str) -> GroupConfig | None:
        """A group's configuration."""
        return self._tables.groups.known(name)

    def connections(self, group: str) -> Sequence[Connection]:
        """Connections of a producer or consumer group."""
        return self._tables.clients.connections(group)

    def on_arrival(self, callback: Callable[[Queue, int], Any]) -> None:
        """Call *callback* with queue and new maximum offset after each publication."""
        self._arrivals.append(guarded_listener(callback, self._tables.stats))

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> None:
        """Call *callback* with messages and seconds after each acknowledged batch."""
        self._rooms.pipeline.on_acknowledged(guarded_listener(callback, self._tables.stats))

    def figures(self) -> Figures:
        """What the broker counts of itself, as it is now."""
        return take_figures(self._tables, self._rooms)

    def state_folder(self, plugin: str) -> Path:
        """A folder of the store where *plugin* may keep its files."""
        folder = self._root / "plugins" / plugin
        make_durable_dirs(self.world.files, folder)
        return folder

    def _published(self, entries: Sequence[DispatchEntry]) -> None:
        if self._arrivals:
            newest = {Queue(entry.topic, entry.queue_id): entry.queue_offset + entry.messages for entry in entries}
            if self._light:
                newest |= {Queue(name, LIGHT_QUEUE_ID): at + 1 for entry in entries for name, at in entry.light_places}
            for callback in self._arrivals:
                try:
                    for queue, max_offset in newest.items():
                        callback(queue, max_offset)
                except Exception:
                    log.exception("a plugin's listener failed on %d new messages", len(entries))
