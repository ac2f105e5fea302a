"""More queue entries than fit in memory: they are written in the middle of an append, and nothing else is lost.

The store holds the newest 131,072 entries in memory, and beyond that writes the queue that has waited longest. A record
in a hundred light queues has a hundred entries, so few records are needed.
"""

from __future__ import annotations

from crash_rig.lives import ALL_KINDS, Life
from crash_rig.starts import NEW, Starts
from crash_rig.story import Story, tell

from gantrymq.interfaces import PutStatus, QueueTargets, StoreMessage
from gantrymq.model import properties
from gantrymq.model.queue import Queue

MOST_ENTRIES = 131_072  # queue_tails.py
MAIN = Queue("Many", 0)
LIGHT = [f"%LMQ%{number:03d}" for number in range(120)]
RECORDS, AT_ONCE = 1200, 50
SETTINGS = ALL_KINDS | {
    "mappedFileSizeCommitLog": 4 * 1024**2,
    "mappedFileSizeConsumeQueue": 20_000,
    "messageIndexEnable": False,
}


def test_more_entries_than_wait_in_memory_survive_a_kill_and_a_power_cut(starts: Starts) -> None:
    assert RECORDS * (len(LIGHT) + 1) > MOST_ENTRIES

    async def tale(story: Story) -> None:
        text = properties.encode({properties.INNER_MULTI_DISPATCH: ",".join(LIGHT)})

        async def fill(life: Life) -> None:
            store = life.broker.store
            for first in range(0, RECORDS, AT_ONCE):
                batch = [
                    StoreMessage(*MAIN, b"%04d" % number, text, queue_targets=QueueTargets(light=tuple(LIGHT)))
                    for number in range(first, first + AT_ONCE)
                ]
                results = store.put(batch)
                assert all(result.status is PutStatus.OK for result in results), results[0]
                await store.flushed(results[-1].end)
                store.publish(results[-1].end)
                for message, result in zip(batch, results, strict=True):
                    story.kept[MAIN][result.queue_offset] = bytes(message.body)

        async def nothing(life: Life) -> None:
            await life.world.clock.sleep(3)

        async def look(life: Life) -> None:
            for queue in (MAIN, *(Queue(name, 0) for name in LIGHT)):
                assert life.broker.store.bounds(queue) == (0, RECORDS), queue
            for queue_offset in range(0, RECORDS, 97):
                for queue in (MAIN, Queue(LIGHT[queue_offset % len(LIGHT)], 0)):
                    assert await story.at(life, queue, queue_offset) == (queue_offset, b"%04d" % queue_offset)

        await story.live(fill, end="kill")
        await story.live(nothing, end="power")
        await story.live(look)

    tell(starts.get(NEW), tale, **SETTINGS)
