"""Support for the dispatcher contract: generated log entries, and a dispatcher that can be killed and restarted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.interfaces import DispatchEntry, Dispatcher, StoreContext
from gantrymq.model import properties
from gantrymq.model.java import string_hash
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_testing.failing_files import FailingFiles
from gantrymq_testing.recording import RecordingFiles

START_MS = 1_800_000_000_000
FIRST_TOPICS = ("Orders", "Payments", "Orders", "%RETRY%readers", "Übersicht")


def made_entries(count: int, start: int = 0, topics: Sequence[str] = FIRST_TOPICS) -> list[DispatchEntry]:
    """Return *count* consecutive entries from log offset *start*, in several topics and queues."""
    entries: list[DispatchEntry] = []
    next_offset: dict[tuple[str, int], int] = {}
    log_offset = start
    for number in range(count):
        queue = (topics[number % len(topics)], number % 3)
        queue_offset = next_offset.get(queue, 0)
        next_offset[queue] = queue_offset + 1
        size = 100 + 7 * (number % 11)
        tag = "AB"[number % 2]
        entries.append(
            DispatchEntry(
                topic=queue[0],
                queue_id=queue[1],
                queue_offset=queue_offset,
                log_offset=log_offset,
                size=size,
                tags_code=string_hash(tag),
                store_timestamp=START_MS + number,
                sys_flag=0,
                prepared_offset=0,
                properties=properties.encode({properties.KEYS: f"key{number}", properties.TAGS: tag}),
            )
        )
        log_offset += size
    return entries


def end_of(entries: Sequence[DispatchEntry]) -> int:
    """Return the log offset after the last entry."""
    return entries[-1].log_offset + entries[-1].size


def in_batches(entries: Sequence[DispatchEntry], length: int) -> Iterator[Sequence[DispatchEntry]]:
    """Yield *entries* in batches of *length*; the last one may be shorter."""
    for start in range(0, len(entries), length):
        yield entries[start : start + length]


class DispatcherBench:
    """A dispatcher under test, in a folder that can be copied to simulate a killed process."""

    def __init__(self, make: Callable[[StoreContext], Dispatcher], root: Path, world: World | None = None) -> None:
        """Create the dispatcher on *root*, which may contain the state of an earlier one."""
        self._make = make
        self._copies = 0
        self.root = root
        world = world or real_world()
        world.files.make_dirs(root)
        self.files = RecordingFiles(world.files)
        settings = Settings(SCHEMA)
        self.dispatcher = make(StoreContext(attrs.evolve(world, files=self.files), root, settings))

    def killed(self) -> DispatcherBench:
        """Return a new dispatcher on a copy of the folder; this one is not flushed."""
        self._copies += 1
        copy = self.root.with_name(f"{self.root.name}-{self._copies}")
        shutil.copytree(self.root, copy)
        return DispatcherBench(self._make, copy)

    def restarted(self) -> DispatcherBench:
        """Return a new dispatcher on the same folder after a flush, as at a stop and start of a broker."""
        self.dispatcher.flush()
        return DispatcherBench(self._make, self.root)

    def catch_up(self, log: Sequence[DispatchEntry], batch: int = 1000) -> Dispatcher:
        """Start with *log* as a broker does: truncate to its end, then replay it from the dispatcher's position."""
        self.dispatcher.truncate(end_of(log) if log else 0)
        position = self.dispatcher.position()
        for entries in in_batches([entry for entry in log if entry.log_offset >= position], batch):
            self.dispatcher.dispatch(entries)
        return self.dispatcher


def dying_world(fail_at: int | None, *, done: bool) -> tuple[World, FailingFiles]:
    """Return a world whose disk fails at the modifying call number *fail_at*, and its files."""
    world = real_world()
    files = FailingFiles(world.files, fail_at, done=done)
    return attrs.evolve(world, files=files), files
