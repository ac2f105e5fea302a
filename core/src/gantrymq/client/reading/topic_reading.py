"""Iteration over topics, for `Reader`: up to the current end, or without end.

to the end      queue after queue, each up to its end at the start of the loop
without end     one pull in flight per queue, up to `AHEAD` messages prefetched in total; queues that are added to the
                topic are detected within `LOOK_S` and read from their first message
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

from gantrymq.client.calls.outages import Outages
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.queue_reading import QueueReader, follow, is_transient, read
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq.world import Clock

logger = logging.getLogger("gantrymq.client")

Start = Literal["first", "last"] | int | Mapping[MessageQueue, int]  # a number is ms since 1970
AHEAD: Final = 256
LOOK_S: Final = 30.0


def check_start(start: Start) -> Start:
    """Return *start* if it is valid. Raises InvalidParameter otherwise."""
    if isinstance(start, Mapping) or start in ("first", "last"):
        return start
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return start
    raise InvalidParameter(
        f"start is {start!r}; expected 'first', 'last', milliseconds since 1970, or a mapping of queues to offsets"
    )


async def first_offsets(reader: QueueReader, queues: tuple[MessageQueue, ...], start: Start) -> dict[MessageQueue, int]:
    """Return the first offset of each queue; queues missing from a mapping are read from their first message."""

    async def of(queue: MessageQueue) -> int:
        if isinstance(start, Mapping):
            return start[queue] if queue in start else await reader.min_offset(queue)
        if isinstance(start, int):
            return await reader.offset_for_timestamp(queue, start)
        return await (reader.min_offset(queue) if start == "first" else reader.max_offset(queue))

    return dict(zip(queues, await asyncio.gather(*map(of, queues)), strict=True))


async def read_to_end(
    reader: QueueReader, starts: Mapping[MessageQueue, int], expression: str, expression_type: str
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages that the queues hold now. Errors as `Reader.pull`."""
    ends = await asyncio.gather(*map(reader.max_offset, starts))
    for (queue, start), end in zip(starts.items(), ends, strict=True):
        stream = read(reader, queue, start, end=end, expression=expression, expression_type=expression_type)
        async with aclosing(stream) as messages:
            async for message in messages:
                yield message


class TopicFollower:
    """One loop without end; stopped by `stop`."""

    def __init__(
        self, reader: QueueReader, topic: str, clock: Clock, outages: Outages, expression: str, expression_type: str
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._clock = clock
        self._outages = outages
        self._how = {"expression": expression, "expression_type": expression_type}
        self._arrived: deque[ReceivedMessage] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._problem: BaseException | None = None
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """End the loop."""
        self._stopped = True
        self._more.set()

    async def messages(self, starts: Mapping[MessageQueue, int]) -> AsyncGenerator[ReceivedMessage, None]:
        """Yield messages, starting at *starts*. Errors as `Reader.pull`, except transient ones."""
        known = set(starts)
        for queue, start in starts.items():
            self._begin(self._read(queue, start))
        self._begin(self._look(known))
        try:
            while not self._stopped:
                if self._arrived:
                    message = self._arrived.popleft()
                    self._room.set()
                    yield message
                    continue
                if self._problem is not None:
                    raise self._problem
                self._more.clear()
                await self._more.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._problem = problem
            self._more.set()

    async def _read(self, queue: MessageQueue, start: int) -> None:
        clock, outages = self._clock, self._outages
        stream = follow(self._reader, queue, start, clock=clock, outages=outages, problem=logger.warning, **self._how)
        async with aclosing(stream) as messages:
            async for message in messages:
                while len(self._arrived) >= AHEAD:
                    self._room.clear()
                    await self._room.wait()
                self._arrived.append(message)
                self._more.set()

    async def _look(self, known: set[MessageQueue]) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                new = [queue for queue in await self._reader.queues(self._topic) if queue not in known]
                starts = await first_offsets(self._reader, tuple(new), "first")
            except ClientError as problem:
                if not is_transient(problem):
                    raise
                self._outages.failed(f"looking for new queues of {self._topic}", problem)
                continue
            known.update(starts)
            for queue, start in starts.items():
                self._begin(self._read(queue, start))
