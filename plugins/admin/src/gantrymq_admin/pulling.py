"""The first messages of a topic, queue by queue, and the number of messages after them.

The first offset of a queue is queried just before the queue is read, so that the first messages of a topic with a
thousand queues take a few requests. The remaining messages of all queues are counted with one query each at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from gantrymq.client import Reader, ReceivedMessage
from gantrymq.plugin.client import read
from gantrymq.plugin.model import MessageQueue

__all__ = ["Starts", "first_of"]

NAMED = 5  # queues named in a warning


class Starts:
    """The start offset of each queue, and the present one."""

    def __init__(
        self,
        reader: Reader,
        queues: Sequence[MessageQueue],
        offset: int | None,
        time_ms: int | None,
        tell: Callable[[str], object],
    ) -> None:
        """Prepare reading, without a request.

        Args:
            queues: in their order.
            offset: start there in each queue; None for its first message.
            time_ms: start with messages stored then or later.
            tell: receives warnings about queues without *offset*.
        """
        self.reader = reader
        self.queues = list(queues)
        self._offset, self._time_ms, self._tell = offset, time_ms, tell
        self._at: dict[MessageQueue, int] = {}

    async def known(self) -> None:
        """With an offset, skip the queues that end before it, with a warning. Raises as `Reader.pull`."""
        if self._offset is None:
            return
        bounds = await asyncio.gather(*map(self._bounds, self.queues))
        beyond, gone, there = [], [], []
        for queue, (low, end) in zip(self.queues, bounds, strict=True):
            name = f"{queue.broker_name}:{queue.queue_id}"
            if end < self._offset:
                beyond.append(f"{name} (it ends at {end})")
                continue
            if self._offset < low:
                gone.append(f"{name} (at {low})")
            there.append(queue)
            self._at[queue] = max(low, self._offset)
        self.queues = there
        self._say(f"offset {self._offset} is beyond the end of", beyond)
        self._say(f"offset {self._offset} is no longer there; begun with the first of", gone)

    async def of(self, queue: MessageQueue) -> int:
        """Return the queue offset to continue at. Raises as `Reader.pull`."""
        if queue not in self._at:
            at_time, time_ms = self.reader.offset_for_timestamp, self._time_ms
            found = self.reader.min_offset(queue) if time_ms is None else at_time(queue, time_ms)
            self._at[queue] = await found
        return self._at[queue]

    def passed(self, queue: MessageQueue, queue_offset: int) -> None:
        """Record that the message at *queue_offset* was read."""
        self._at[queue] = queue_offset + 1

    def done(self, queue: MessageQueue) -> None:
        """Record that the queue was read to its end."""
        self.queues.remove(queue)

    async def behind(self) -> int:
        """Count the messages after the present offsets of unfinished queues. Raises as `of`."""
        return sum(await asyncio.gather(*map(self._behind, self.queues)))

    async def _behind(self, queue: MessageQueue) -> int:
        at, end = await asyncio.gather(self.of(queue), self.reader.max_offset(queue))
        return max(0, end - at)

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        return await asyncio.gather(self.reader.min_offset(queue), self.reader.max_offset(queue))

    def _say(self, what: str, queues: Sequence[str]) -> None:
        if not queues:
            return
        more = f" and of {len(queues) - NAMED} more" if len(queues) > NAMED else ""
        self._tell(f"{what} {', '.join(queues[:NAMED])}{more}")


async def first_of(
    starts: Starts, most: int, *, expression: str, expression_type: str
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the first *most* messages of all queues, one queue after the other. Raises as `Reader.pull`."""
    await starts.known()
    for queue in list(starts.queues):
        stream = read(
            starts.reader, queue, await starts.of(queue), expression=expression, expression_type=expression_type
        )
        async with aclosing(stream) as messages:
            async for found in messages:
                starts.passed(queue, found.queue_offset)
                yield found
                most -= 1
                if not most:
                    return
        starts.done(queue)
