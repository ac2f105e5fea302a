"""Snapshots of all tables, and their installation on a replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.broker.tables.state_files import StateFiles
from gantrymq.errors import FormatError, InvalidParameter
from gantrymq.formats.config import (
    CONSUMER_OFFSETS,
    GROUPS,
    TOPICS,
    ConsumerOffsetsFile,
    GroupsFile,
    TopicsFile,
    pretty,
)
from gantrymq.interfaces import Service, ServiceState, TableSnapshot
from gantrymq.loose_json import loads
from gantrymq.model.role import Role
from gantrymq.model.topic import TopicConfig
from gantrymq.world import World
from gantrymq.world.clock import TimeSlices

_TOGETHER: Final = 500  # entries of a table to copy or compare without yielding
_OWN: Final = (TOPICS, GROUPS, CONSUMER_OFFSETS)


@attrs.frozen
class Snapshots:
    """`gantrymq.interfaces.StateTables`."""

    _world: World
    _tables: Tables
    _state: StateFiles
    _services: Iterable[Service]
    _role: Callable[[], Role]
    _delete_topic: Callable[[str], Awaitable[None]]
    _topic_changed: Callable[[TopicConfig], object]
    _installed: Callable[[], object]

    async def snapshot(self) -> TableSnapshot:
        """Return topics, groups, offsets, the state of running services and of the authorizer."""
        tables = self._tables
        topics = TopicsFile(dict(tables.topics.view), attrs.evolve(tables.topics.version))
        forbidden = {group: dict(named) for group, named in tables.groups.forbidden.items()}
        groups = GroupsFile(dict(tables.groups.view), forbidden, attrs.evolve(tables.groups.version))
        files = {
            name: text
            for service in self._services
            if isinstance(service, ServiceState)
            for name, text in service.state_texts().items()
        }
        offsets = ConsumerOffsetsFile(version=attrs.evolve(tables.offsets.version))
        slices = TimeSlices(self._world.clock, _TOGETHER)
        for key in list(tables.offsets.table):
            queues = tables.offsets.table.get(key)
            if queues is not None:
                offsets.offsets[key] = dict(queues)
            await slices.item_done()
        made = await self._world.workers.run(_texts, topics, groups, offsets)
        return TableSnapshot({**files, **made}, tables.access.state_texts(None) or None)

    async def install(self, snapshot: TableSnapshot) -> None:
        """Replace the tables of a replica."""
        if self._role() is not Role.REPLICA:
            raise InvalidParameter("the tables of a master cannot be replaced; make this broker a replica first")
        offsets = self._tables.offsets.empty() if CONSUMER_OFFSETS in snapshot.files else None
        topics, groups = await self._world.workers.run(_read, snapshot.files, offsets)
        if snapshot.access is not None:
            await self._tables.access.take_state(snapshot.access)
        topics_changed = await self._install_topics(topics)
        await self._install_groups(groups)
        if offsets is not None:
            self._tables.offsets.replace(offsets)
            self._state.offsets_due()
        for name, text in snapshot.files.items():
            if name not in _OWN:
                self._state.keep(name, text)
        await self._state.saved(offsets=offsets is not None)
        if topics_changed:
            self._installed()

    def confirm_changes(self, confirm: Callable[[], Awaitable[None]] | None) -> None:
        """Count changes of topics and groups as saved only after *confirm*."""
        self._state.confirm_changes(confirm)

    async def _install_topics(self, wanted: TopicsFile) -> bool:
        """Return whether the topics or their version changed, so that name servers need them."""
        table, slices = self._tables.topics, TimeSlices(self._world.clock, _TOGETHER)
        changed = table.version != wanted.version
        for name in [each for each in table.view if each not in wanted.topics and not table.is_own(each)]:
            await self._delete_topic(name)
            changed = True
        for name, topic in wanted.topics.items():
            if table.view.get(name) != topic and not table.is_own(name):
                table.load({name: topic}, table.version)
                self._state.topics_changed(name)
                self._topic_changed(topic)
                changed = True
            await slices.item_done()
        table.load({}, wanted.version)
        return changed

    async def _install_groups(self, wanted: GroupsFile) -> None:
        table, slices = self._tables.groups, TimeSlices(self._world.clock, _TOGETHER)
        gone = [each for each in table.view if each not in wanted.groups]
        differs = bool(gone) or (table.version, table.forbidden) != (wanted.version, wanted.forbidden)
        for name in gone:
            table.delete(name)
            await slices.item_done()
        changed = {name: group for name, group in wanted.groups.items() if table.view.get(name) != group}
        table.load(changed, wanted.forbidden, wanted.version)
        for name in changed:
            table.attributes_changed(name)
            await slices.item_done()
        if differs or changed:
            self._state.groups_changed()


def _texts(topics: TopicsFile, groups: GroupsFile, offsets: ConsumerOffsetsFile) -> dict[str, str]:
    """Encode the tables; runs in a thread."""
    return {
        TOPICS: topics.to_text(),
        GROUPS: pretty(groups.to_json()),
        CONSUMER_OFFSETS: pretty(offsets.to_json()),
    }


def _read(files: Mapping[str, str], offsets: ConsumerOffsets | None) -> tuple[TopicsFile, GroupsFile]:
    """Decode the tables, the offsets into the empty *offsets*; runs in a thread. Raises FormatError."""
    topics, groups = TopicsFile.from_json(_members(files, TOPICS)), GroupsFile.from_json(_members(files, GROUPS))
    if offsets is not None:
        read = ConsumerOffsetsFile.from_json(_members(files, CONSUMER_OFFSETS))
        offsets.load(read.offsets, read.version)
    return topics, groups


def _members(files: Mapping[str, str], name: str) -> dict[Any, Any]:
    if name not in files:
        raise FormatError(f"the snapshot has no {name}; expected {TOPICS} and {GROUPS}")
    try:
        found = loads(files[name])
    except (FormatError, ValueError) as error:
        raise FormatError(f"the snapshot's {name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"the snapshot's {name} is not an object")
    return found
