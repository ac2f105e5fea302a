"""Offsets that clients committed at a slave, until its master has them, in ``plugins/replication/offsets.json``.

    {"offsets":[[group, topic, queue id, queue offset], ...]}

Clients commit at a slave while they cannot reach its master, or it acts for it, or was the master until now.
`tables.TablesService` hands them over before it copies the master's offsets. They are kept over a restart of the slave,
because the master may return while the slave is away; commits of the last flushConsumerOffsetInterval is
lost if the slave is killed, as the offsets of a master are.

RocketMQ's slave sends nothing to its master, and its offsets are replaced by the next copy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gantrymq.errors import FormatError, GantryError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.model import Queue, Role
from gantrymq.plugin.names import is_system_topic
from gantrymq.plugin.world import FileReader, FileTree
from gantrymq_replication.settings import SLAVE, HaSettings

log = logging.getLogger("gantrymq.replication")

_FILE: Final = "offsets.json"

_Offsets = dict[tuple[str, Queue], int]  # by group and queue


class OwnCommits:
    """Collects the commits of one broker while it is a slave, and saves them."""

    name = "replication_commits"
    stops_last = True  # clients commit until the broker ends
    roles = frozenset(Role)

    def __init__(self) -> None:
        self.offsets: _Offsets = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self, broker: Broker) -> None:
        """Read the saved commits, and listen; on a master, forget them."""
        world = broker.world
        self._broker, self._path, self.offsets = broker, broker.root / "plugins" / "replication" / _FILE, {}
        if HaSettings.of(broker.settings).role != SLAVE and not broker.settings.flag("enableControllerMode"):
            await world.workers.run(_write, world.files, self._path, {})
            return
        try:
            self.offsets = await world.workers.run(_read, world.files, self._path)
        except FormatError as error:
            log.warning("offsets that clients committed at this slave are not handed over to its master: %s", error)
        self._changed = asyncio.Event()
        self._period_s = broker.settings.number("flushConsumerOffsetInterval") / 1000
        self._cancel: list[Callable[[], None]] = [
            broker.offsets.on_committed(self._committed),
            broker.role.on_changed(self._role_changed),
        ]
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Save them."""
        if self._task is not None:
            for cancel in self._cancel:
                cancel()
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            await self._save()

    def handed_over(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Forget a commit, unless a later one has come."""
        if self.offsets.get((group, queue)) == queue_offset:
            del self.offsets[group, queue]
            self._changed.set()

    def _role_changed(self, role: Role, epoch: int) -> None:
        """Commit on a new master the offsets that were not handed over: a copied table may have replaced them here."""
        if role is not Role.MASTER or not self.offsets:
            return
        for (group, queue), offset in self.offsets.items():
            known = self._broker.offsets.committed(group, queue)
            if known is None or offset > known:
                try:
                    self._broker.offsets.commit(group, queue, offset)
                except GantryError as error:
                    log.warning("an offset that was committed here as on a slave is not kept: %s", error)
        self.offsets.clear()
        self._changed.set()

    def _committed(self, group: str, queue: Queue, queue_offset: int) -> None:
        if self._broker.role.current is Role.MASTER:
            return
        if not is_system_topic(queue.topic):  # offsets of an acting master's services; `acting.takeover` reads them
            self.offsets[group, queue] = queue_offset
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            await self._broker.world.clock.sleep(self._period_s)
            self._changed.clear()
            await self._save()

    async def _save(self) -> None:
        world = self._broker.world
        try:
            if self.offsets:
                self._broker.state_folder("replication")
            await world.workers.run(_write, world.files, self._path, dict(self.offsets))
        except OSError as error:
            log.error("offsets that clients committed at this slave could not be saved: %s", error)


def _read(files: FileReader, path: Path) -> _Offsets:
    try:
        rows = loads(files.read(path))["offsets"]
        return {(str(group), Queue(str(topic), int(queue_id))): int(at) for group, topic, queue_id, at in rows}
    except FileNotFoundError:
        return {}
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error!r}") from error


def _write(files: FileTree, path: Path, offsets: _Offsets) -> None:
    """Write the file, or remove it if there is nothing to save. Raises OSError."""
    if offsets:
        rows = [[group, queue.topic, queue.queue_id, at] for (group, queue), at in offsets.items()]
        files.replace(path, dumps({"offsets": rows}))
    elif files.stat(path) is not None:
        files.remove(path)
