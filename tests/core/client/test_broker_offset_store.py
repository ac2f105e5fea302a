"""Detection of another member that has advanced in a queue, by the stored offset."""

import asyncio

import pytest

from gantrymq.client.calls.outages import Outages
from gantrymq.client.group.offset_store import BrokerOffsetStore
from gantrymq.model.queue import MessageQueue

QUEUE = MessageQueue("T", "a", 0)


class Committed:
    """Offsets at a broker."""

    def __init__(self, offset):
        self.offset = offset

    async def committed(self, queue):
        return self.offset

    async def commit(self, queue, offset):
        self.offset = offset


@pytest.mark.parametrize(
    ("read", "sent", "now", "moved"),
    [
        (None, None, None, None),
        (None, None, 0, None),  # nothing is stored, and the queue has messages meanwhile
        (None, None, 3, 3),
        (0, None, 0, None),
        (5, None, 7, 7),
        (5, 9, 7, None),
        (5, 9, None, None),
    ],
)
def test_a_queue_is_taken_over_if_an_offset_beyond_ours_is_stored(read, sent, now, moved):
    async def main():
        offsets = Committed(read)
        store = BrokerOffsetStore(offsets, Outages(None))
        await store.read(QUEUE)
        if sent is not None:
            await store.store({QUEUE: sent})
        offsets.offset = now
        assert await store.offset_of_other_member(QUEUE) == moved

    asyncio.run(main())
