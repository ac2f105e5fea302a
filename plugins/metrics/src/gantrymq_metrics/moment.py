"""One moment of the broker: everything a scrape shows, read from `gantrymq.interfaces.Broker`.

How far a group is behind on a topic is counted over the topic's read queues: from what the group committed (from the
first message kept, where it committed nothing) to the end of the queue. Groups that never committed anything on a topic
are not shown for it. How long ago the oldest message it waits for was stored is read from the log.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getConsumeStats).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from gantrymq.errors import GantryError
from gantrymq.formats.record import read_record
from gantrymq.interfaces import Broker, Figures, GetLimit, StoreState
from gantrymq.model.queue import Queue
from gantrymq.world import DiskUse
from gantrymq.world.time_slices import TimeSlices
from gantrymq_metrics.send_times import Histogram, SendTimes

GROUPS_TOGETHER = 8  # a group and a topic of it, without a pause


@attrs.frozen
class Progress:
    """How far one group is on one topic."""

    topic: str
    group: str
    committed: int  # sum of queue offsets
    behind: int  # messages
    behind_ms: int  # since the oldest of them was stored; 0 when there is none or it cannot be read


@attrs.frozen
class Moment:
    """What is shown."""

    figures: Figures
    state: StoreState
    ends: Mapping[str, int]  # topic to the sum of its queues' ends
    progress: tuple[Progress, ...]
    disk: DiskUse  # of the file system the store lies on
    topics: int  # how many exist
    permission: int  # brokerPermission
    send_times: Histogram


async def take_moment(broker: Broker, send_times: SendTimes) -> Moment:
    """Read everything. About 10 us a queue that somebody is behind on; others have their turn in between."""
    figures = broker.figures()
    ends: dict[str, int] = {}
    for queue in broker.store.queues():
        ends[queue.topic] = ends.get(queue.topic, 0) + broker.bounds(queue).max_offset
    progress, slices = list[Progress](), TimeSlices(broker.world.clock, GROUPS_TOGETHER)
    for (topic, group), offsets in figures.committed.items():
        found = await _progress(broker, topic, group, offsets)
        if found is not None:
            progress.append(found)
        await slices.item_done()
    return Moment(
        figures=figures,
        state=broker.store.state(),
        ends=ends,
        progress=tuple(progress),
        disk=broker.world.files.disk_use(Path(broker.settings.text("storePathRootDir") or ".")),
        topics=len(broker.topics()),
        permission=broker.settings.number("brokerPermission"),
        send_times=send_times.histogram(),
    )


async def _progress(broker: Broker, topic: str, group: str, offsets: Mapping[int, int]) -> Progress | None:
    """None for a topic that does not exist any more."""
    config = broker.topic(topic)
    if config is None:
        return None
    behind, oldest_ms = 0, None
    for queue_id in range(config.read_queues):
        queue = Queue(topic, queue_id)
        bounds = broker.bounds(queue)
        begin = max(offsets.get(queue_id, 0), bounds.min_offset)
        if begin < bounds.max_offset:
            behind += bounds.max_offset - begin
            stored_ms = await _stored_ms(broker, queue, begin)
            if stored_ms is not None and (oldest_ms is None or stored_ms < oldest_ms):
                oldest_ms = stored_ms
    late_ms = 0 if oldest_ms is None else max(0, broker.world.clock.now_ms() - oldest_ms)
    return Progress(topic, group, sum(offsets.values()), behind, late_ms)


async def _stored_ms(broker: Broker, queue: Queue, queue_offset: int) -> int | None:
    """Store time of one message, None where it cannot be read."""
    try:
        found = await broker.get(queue, queue_offset, GetLimit(1))
        return read_record(found.buffers[0]).store_timestamp if found.count else None
    except GantryError:
        return None
