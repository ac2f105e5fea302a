"""Stored offsets of a group: at the brokers, or for broadcasting in a file of this client.

    ~/.rocketmq_offsets/<client id>/<group>/offsets.json
    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:12}}

Sources: apache/rocketmq client/.../consumer/store/RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from gantrymq.client.calls.outages import Outages
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.reading.group_offsets import GroupOffsets
from gantrymq.errors import GantryError
from gantrymq.loose_json import ObjectKey, dumps, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.world import FileTree

logger = logging.getLogger("gantrymq.client")

_FOLDER: Final = ".rocketmq_offsets"


class OffsetStore(Protocol):
    """Reads and stores consumer offsets."""

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, None if there is none. Raises ClientError: the broker cannot be queried."""

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets; failures are logged, and the offsets are stored again with the next call."""

    def note_commit(self, queue: MessageQueue, offset: int) -> None:
        """Note that a pull commits *offset*."""

    def forget_broker(self, broker_name: str) -> None:
        """Store all offsets of a broker again: it may have lost the latest ones when it stopped."""

    async def offset_of_other_member(self, queue: MessageQueue) -> int | None:
        """Return the stored offset if another member has advanced beyond the offsets of this one, else None.

        Raises:
            ClientError: the broker cannot be queried.
        """


class BrokerOffsetStore:
    """Clustering: the broker of each queue stores the offset."""

    def __init__(self, offsets: GroupOffsets, outages: Outages) -> None:
        """Read and write through *offsets*; report failures to *outages*."""
        self._offsets = offsets
        self._outages = outages
        self._stored: dict[MessageQueue, int] = {}
        # The highest offset read or committed by this member. 0 without any, as a broker may answer 0 then, too.
        self._own: dict[MessageQueue, int] = {}

    async def read(self, queue: MessageQueue) -> int | None:
        """Implement `OffsetStore.read`."""
        self._stored.pop(queue, None)
        stored = await self._offsets.committed(queue)
        self._own[queue] = 0 if stored is None else stored
        return stored

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Implement `OffsetStore.store`; unchanged offsets are not sent again."""
        for queue, offset in offsets.items():
            if self._stored.get(queue) == offset:
                continue
            self.note_commit(queue, offset)
            try:
                await self._offsets.commit(queue, offset)
            except GantryError as problem:
                self._outages.failed(f"storing offsets in {queue.topic}", problem)
            else:
                self._stored[queue] = offset

    def note_commit(self, queue: MessageQueue, offset: int) -> None:
        """Implement `OffsetStore.note_commit`."""
        if offset > self._own.get(queue, 0):
            self._own[queue] = offset

    def forget_broker(self, broker_name: str) -> None:
        """Implement `OffsetStore.forget_broker`."""
        self._stored = {queue: at for queue, at in self._stored.items() if queue.broker_name != broker_name}

    async def offset_of_other_member(self, queue: MessageQueue) -> int | None:
        """Implement `OffsetStore.offset_of_other_member`."""
        stored = await self._offsets.committed(queue)
        return stored if stored is not None and stored > self._own.get(queue, 0) else None


class LocalFileOffsetStore:
    """Broadcasting: one file, rewritten as a whole; the previous version is kept as ``.bak``."""

    def __init__(self, files: FileTree, path: Path) -> None:
        """Create the store; the file is read at the first use."""
        self._files = files
        self._path = path
        self._offsets: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        """Implement `OffsetStore.read`."""
        return self._load().get(queue)

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Implement `OffsetStore.store`."""
        known = self._load()
        if all(known.get(queue) == offset for queue, offset in offsets.items()):
            return
        known.update(offsets)
        try:
            self._files.make_dirs(self._path.parent)
            if self._files.stat(self._path) is not None:
                self._files.replace(_backup(self._path), self._files.read(self._path))
            self._files.replace(self._path, _encode(known))
        except OSError as error:
            logger.warning("offsets were not stored in %s: %s", self._path, error)

    def note_commit(self, queue: MessageQueue, offset: int) -> None:
        """Do nothing: pulls of broadcasting consumers commit no offset."""

    def forget_broker(self, broker_name: str) -> None:
        """Do nothing: the file does not depend on brokers."""

    async def offset_of_other_member(self, queue: MessageQueue) -> int | None:
        """Return None: no other member uses this file."""
        return None

    def _load(self) -> dict[MessageQueue, int]:
        if self._offsets is None:
            self._offsets = self._read(self._path)
            if self._offsets is None:
                self._offsets = self._read(_backup(self._path)) or {}
        return self._offsets

    def _read(self, path: Path) -> dict[MessageQueue, int] | None:
        if self._files.stat(path) is None:
            return None
        try:
            return _offsets_in(loads(self._files.read(path)))
        except (OSError, GantryError, ValueError, KeyError, TypeError) as error:
            logger.warning("offsets cannot be read from %s: %s", path, error)
            return None


def create_offset_store(
    instance: ClientInstance,
    group: str,
    offsets: GroupOffsets,
    *,
    broadcasting: bool,
    folder: str | None,
) -> OffsetStore:
    """Return the offset store for a member of *group*.

    Args:
        instance: client of the member.
        group: consumer group.
        offsets: offsets of the group at the brokers.
        broadcasting: every member receives every message and keeps its offsets in a file.
        folder: for broadcasting, instead of ``~/.rocketmq_offsets``.
    """
    if not broadcasting:
        return BrokerOffsetStore(offsets, instance.outages)
    world = instance.world
    return LocalFileOffsetStore(
        world.files,
        offsets_file(world.environ, f"{instance.address}@{instance.name}", instance.wrap_name(group), folder),
    )


def offsets_file(environ: Mapping[str, str], client_id: str, group: str, folder: str | None) -> Path:
    """Return the path of the offset file of one group and client; *folder* replaces ``~/.rocketmq_offsets``."""
    home = environ.get("HOME") or environ.get("USERPROFILE") or "."
    return Path(folder or Path(home) / _FOLDER) / client_id / group / "offsets.json"


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _encode(offsets: Mapping[MessageQueue, int]) -> bytes:
    return dumps({"offsetTable": {ObjectKey(queue.to_json()): offset for queue, offset in sorted(offsets.items())}})


def _offsets_in(found: Any) -> dict[MessageQueue, int]:
    return {MessageQueue.from_json(key): int(offset) for key, offset in dict(found["offsetTable"]).items()}
