"""Records by the million in a store of `storage_mmap`, put there through the store's own API in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from gantrymq.config import Settings
from gantrymq.interfaces import PutStatus, StoreContext, StoreMessage
from gantrymq.world import World
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore

TOPIC = "BenchTopic"
PROPERTIES = b"UNIQ_KEY\x01%b\x02WAIT\x01true\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster\x02"


def unique_key(number: int) -> bytes:
    """Return the unique key that a client would give message *number*, in the real format."""
    return b"7F0000010B2C18B4AAC2%012X" % number


def new_store(world: World, root: Path, **pairs: int | bool) -> MmapStore:
    """Return a store in *root*, not started, with the longest flush intervals; *pairs* override settings.

    By default all of its log is hot.
    """
    settings = Settings(SCHEMA, {"hotReadWindow": 64 * 1024**3, "flushIntervalCommitLog": 3_600_000, **pairs})
    return MmapStore(StoreContext(world, root, settings, print))


def batches(records: int, *, body_bytes: int, batch: int, queues: int, first: int = 0) -> Iterator[list[StoreMessage]]:
    """*records* messages, numbered from *first* on, in lists of *batch*, their queues in turn."""
    body = b"x" * body_bytes
    end = first + records
    for start in range(first, end, batch):
        yield [
            StoreMessage(TOPIC, n % queues, body, PROPERTIES % unique_key(n), tags_code=2598919, born_timestamp=n)
            for n in range(start, min(start + batch, end))
        ]


async def put(store: MmapStore, batch: list[StoreMessage]) -> None:
    """Append and publish one list, then let the store's background work run.

    Raises:
        SystemExit: the store refused.
    """
    results = store.put(batch)
    if results[-1].status is not PutStatus.OK:
        raise SystemExit(results[-1].problem)
    store.publish(results[-1].end)
    await asyncio.sleep(0)


async def fill(world: World, root: Path, records: int, *, body_bytes: int, queues: int = 8) -> None:
    """Create a store of *records* messages in *root* and close it cleanly."""
    store = new_store(world, root)
    await store.start()
    for batch in batches(records, body_bytes=body_bytes, batch=1000, queues=queues):
        await put(store, batch)
    await store.stop()
    await world.workers.close()
