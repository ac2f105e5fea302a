"""Open a golden store with storage_mmap, inspect its files, and compare folders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeVar

from golden_stores import Scenario

from gantrymq.config import Setting, Settings
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.interfaces import GetLimit, MessageStore, RecoveryReport, StoreContext
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_storage_mmap import plugin

T = TypeVar("T")

BROKER_KEYS = (
    Setting("maxMessageSize", "number", 4194304, "Declared by the broker."),
    Setting("flushDiskType", "text", "SYNC_FLUSH", "Declared by the broker."),
    Setting("storePathRootDir", "text", "", "Declared by the broker."),
)
# A file size, or a value that entries depend on: without them the store cannot be opened correctly.
TAKEN_OVER = (
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mapperFileSizeBatchConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "messageDelayLevel",
    "maxHashSlotNum",
    "maxIndexNum",
    "enableConsumeQueueExt",
    "enableLmq",
    "enableMultiDispatch",
)


class _Found(dict[str, Any]):
    """A registry of one hook call."""

    def add(self, what: Any, factory: Any = None) -> None:
        self[what.key if isinstance(what, Setting) else what] = what if factory is None else factory


def schema() -> list[Setting]:
    """The settings that the plugin declares, and the broker's settings that it reads."""
    found = _Found()
    plugin.gantry_register_config(found)
    return [*found.values(), *BROKER_KEYS]


def make_store(scenario: Scenario, world: Any, **settings: Any) -> MessageStore:
    """The store of *scenario*, with the settings its broker had and *settings* over them."""
    stores = _Found()
    plugin.gantry_register_stores(stores)
    values = {key: scenario.conf[key] for key in TAKEN_OVER if key in scenario.conf} | settings
    store: MessageStore = stores["mmap"](StoreContext(world, scenario.store, Settings(schema(), values)))
    return store


def with_open_store(
    scenario: Scenario, look: Callable[[MessageStore, RecoveryReport], Awaitable[T]], **settings: Any
) -> T:
    """Start the store, await ``look(store, report)``, stop it, and return the result of *look*."""

    async def run() -> T:
        world = real_world()
        store = make_store(scenario, world, **settings)
        try:
            report = await store.start()
            try:
                return await look(store, report)
            finally:
                await store.stop()
        finally:
            await world.workers.close()

    return asyncio.run(run())


async def read_queue(store: MessageStore, queue: Queue) -> list[RecordView]:
    """Every record of *queue*, with as many gets as needed."""
    bounds = store.bounds(queue)
    found: list[RecordView] = []
    offset = bounds.min_offset
    while offset < bounds.max_offset:
        result = store.get(queue, offset, GetLimit(), None)
        if isawaitable(result):
            result = await result
        assert offset < result.next_offset <= bounds.max_offset, (queue, offset, result.status)
        found += [record for buffer in result.buffers for record in iter_records(buffer)]
        offset = result.next_offset
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """Path below *folder* to content, of every file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
