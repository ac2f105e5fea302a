"""Where a group's progress is kept: at the brokers, or for broadcasting in a file of this client.

    ~/.rocketmq_offsets/<client id>/<group>/offsets.json
    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:12}}

Sources: apache/rocketmq client/.../consumer/store/RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from gantrymq.client.group_offsets import GroupOffsets
from gantrymq.client.instance import ClientInstance
from gantrymq.client.outages import Outages
from gantrymq.errors import GantryError
from gantrymq.loose_json import ObjectKey, dumps, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.world import Files

__all__ = ["BrokerProgress", "FileProgress", "Progress", "offsets_file", "progress_of"]

logger = logging.getLogger("gantrymq.client")

_FOLDER: Final = ".rocketmq_offsets"


class Progress(Protocol):
    """Reads and stores offsets."""

    async def read(self, queue: MessageQueue) -> int | None:
        """The stored offset; None for none. Raises ClientError: it cannot be asked for."""

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Keep offsets; those that cannot be stored are logged, and stored with the next ones."""

    def sending(self, queue: MessageQueue, offset: int) -> None:
        """Note that *offset* is stored by a pull."""

    def forget(self, broker_name: str) -> None:
        """Store all offsets of a broker anew: it may have lost the last ones when it stopped."""

    async def taken_over(self, queue: MessageQueue) -> int | None:
        """Where another member has gone on in *queue*; None if the stored offset is none beyond this member's.

        Raises:
            ClientError: it cannot be asked for.
        """


class BrokerProgress:
    """Clustering: each queue's broker keeps the offset."""

    def __init__(self, offsets: GroupOffsets, outages: Outages) -> None:
        """Asks and tells by *offsets*; *outages* hears of failures."""
        self._offsets = offsets
        self._outages = outages
        self._stored: dict[MessageQueue, int] = {}
        # The highest offset that was read, or sent by this member; 0 if there is none, which a broker may answer too.
        self._own: dict[MessageQueue, int] = {}

    async def read(self, queue: MessageQueue) -> int | None:
        """As `Progress.read`."""
        self._stored.pop(queue, None)
        stored = await self._offsets.committed(queue)
        self._own[queue] = 0 if stored is None else stored
        return stored

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """As `Progress.store`; one that did not move is not told again."""
        for queue, offset in offsets.items():
            if self._stored.get(queue) == offset:
                continue
            self.sending(queue, offset)
            try:
                await self._offsets.commit(queue, offset)
            except GantryError as problem:
                self._outages.failed(f"storing offsets in {queue.topic}", problem)
            else:
                self._stored[queue] = offset

    def sending(self, queue: MessageQueue, offset: int) -> None:
        """As `Progress.sending`."""
        if offset > self._own.get(queue, 0):
            self._own[queue] = offset

    def forget(self, broker_name: str) -> None:
        """As `Progress.forget`."""
        self._stored = {queue: at for queue, at in self._stored.items() if queue.broker_name != broker_name}

    async def taken_over(self, queue: MessageQueue) -> int | None:
        """As `Progress.taken_over`."""
        stored = await self._offsets.committed(queue)
        return stored if stored is not None and stored > self._own.get(queue, 0) else None


class FileProgress:
    """Broadcasting: a file, written whole, with what was before in a ``.bak`` beside it."""

    def __init__(self, files: Files, path: Path) -> None:
        """Nothing is read yet."""
        self._files = files
        self._path = path
        self._offsets: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        """As `Progress.read`."""
        return self._loaded().get(queue)

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """As `Progress.store`."""
        known = self._loaded()
        if all(known.get(queue) == offset for queue, offset in offsets.items()):
            return
        known.update(offsets)
        try:
            self._files.make_dirs(self._path.parent)
            if self._files.stat(self._path) is not None:
                self._files.replace(_backup(self._path), self._files.read(self._path))
            self._files.replace(self._path, _written(known))
        except OSError as error:
            logger.warning("offsets were not stored in %s: %s", self._path, error)

    def sending(self, queue: MessageQueue, offset: int) -> None:
        """As `Progress.sending`."""

    def forget(self, broker_name: str) -> None:
        """As `Progress.forget`: the file is not a broker's."""

    async def taken_over(self, queue: MessageQueue) -> int | None:
        """As `Progress.taken_over`: no other member has this file."""
        return None

    def _loaded(self) -> dict[MessageQueue, int]:
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


def progress_of(
    instance: ClientInstance,
    group: str,
    offsets: GroupOffsets,
    *,
    broadcasting: bool,
    known_as: str,
    folder: str | None,
) -> Progress:
    """That of a member of *group*.

    Args:
        instance: its client.
        group: its group.
        offsets: of the group, at the brokers.
        broadcasting: whether it gets every message, and keeps its progress itself.
        known_as: its instance's name, as it was given.
        folder: for broadcasting, in place of the one in the user's home.
    """
    if not broadcasting:
        return BrokerProgress(offsets, instance.outages)
    world = instance.world
    return FileProgress(
        world.files, offsets_file(world.environ, f"{instance.address}@{known_as}", instance.wrapped(group), folder)
    )


def offsets_file(environ: Mapping[str, str], client_id: str, group: str, folder: str | None) -> Path:
    """The file of one group of one client; *folder* in place of the one in the user's home."""
    home = environ.get("HOME") or environ.get("USERPROFILE") or "."
    return Path(folder or Path(home) / _FOLDER) / client_id / group / "offsets.json"


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _written(offsets: Mapping[MessageQueue, int]) -> bytes:
    return dumps({"offsetTable": {ObjectKey(queue.to_json()): offset for queue, offset in sorted(offsets.items())}})


def _offsets_in(found: Any) -> dict[MessageQueue, int]:
    return {MessageQueue.from_json(key): int(offset) for key, offset in dict(found["offsetTable"]).items()}
