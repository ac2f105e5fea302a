"""Stores for `bench_many_queues.py`: thousands of topics with some queues each, and the broker's configuration of them.

Each function that fills a store runs in its own process (`apart`): one that stops as if killed leaves
the same state as kill -9, and no figure includes the memory of these processes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filled_store import PROPERTIES, batches, new_store, put, unique_key

from gantrymq.formats.config import (
    CONSUMER_OFFSETS,
    GROUPS,
    TOPICS,
    ConsumerOffsetsFile,
    GroupsFile,
    TopicsFile,
    pretty,
    save,
)
from gantrymq.interfaces import StoreMessage
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.world.real import real_world

HOUR_MS = 3_600_000
KILLED = -signal.SIGKILL


def topic_name(number: int) -> str:
    """Of one of the topics."""
    return f"Many{number:06d}"


def group_name(number: int) -> str:
    """Of one of the groups."""
    return f"many-group-{number}"


def rounds(topics: int, queues: int, each: int, body_bytes: int) -> Iterator[list[StoreMessage]]:
    """*each* messages for each queue, one of all queues after the other, in lists of a thousand."""
    body, batch, number = b"x" * body_bytes, [], 0
    names = [topic_name(topic) for topic in range(topics)]
    for _ in range(each):
        for queue_id in range(queues):
            for name in names:
                batch.append(StoreMessage(name, queue_id, body, PROPERTIES % unique_key(number), tags_code=2598919))
                number += 1
                if len(batch) == 1000:
                    yield batch
                    batch = []
    if batch:
        yield batch


def write_tables(root: Path, topics: int, queues: int, groups: int) -> None:
    """Write topics.json, subscriptionGroup.json and consumerOffset.json; every group has committed 1 in every queue."""
    files, folder = real_world().files, root / "config"
    names = [topic_name(number) for number in range(topics)]
    owners = [group_name(number) for number in range(groups)]
    save(files, folder / TOPICS, TopicsFile({name: TopicConfig(name, queues, queues) for name in names}).to_text())
    save(files, folder / GROUPS, pretty(GroupsFile({owner: GroupConfig(owner) for owner in owners}).to_json()))
    offsets = {f"{name}@{owner}": dict.fromkeys(range(queues), 1) for name in names for owner in owners}
    save(files, folder / CONSUMER_OFFSETS, pretty(ConsumerOffsetsFile(offsets).to_json()))


def fill_queues(
    root: Path, topics: int, queues: int, each: int, body_bytes: int, log_file_bytes: int, end: str
) -> None:
    """Put messages into all queues; *end* is ``stop``, or ``kill`` with nothing durable since the start."""
    _run(_put_all(root, rounds(topics, queues, each, body_bytes), end, mappedFileSizeCommitLog=log_file_bytes))


def fill_log(root: Path, log_bytes: int, body_bytes: int) -> None:
    """Fill 8 queues of one topic, and end as if killed; the checkpoint is at the start of the log."""
    record_bytes = body_bytes + 200
    filling = batches(log_bytes // record_bytes, body_bytes=body_bytes, batch=1000, queues=8)
    _run(_put_all(root, filling, "kill"))


async def _put_all(root: Path, filling: Iterator[list[StoreMessage]], end: str, **pairs: int) -> None:
    store = new_store(real_world(), root, flushConsumeQueueThoroughInterval=HOUR_MS, **pairs)
    await store.start()
    for batch in filling:
        await put(store, batch)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    await store.stop()


def _run(work: Any) -> None:
    asyncio.run(work)


def apart(work: Callable[..., None], *args: Any, code: int = 0) -> None:
    """Run ``work(*args)`` in its own process, which must exit with *code*."""
    child = multiprocessing.get_context("spawn").Process(target=work, args=args)
    child.start()
    child.join()
    if child.exitcode != code:
        raise SystemExit(f"{work.__name__} ended with {child.exitcode}, not with {code}")
