"""Pops: which queues are read, in which order, and what is stored before a consumer gets a message.

    read every requested queue, starting at a random one; a retry topic first (popFromRetryProbability) or last
    -> store one checkpoint per queue read, all as one append
    -> move the group's offsets over the stored ranges, and send the response

Pops of one group share a queue: the second continues where the first ended, while the first's checkpoint is being
stored. Only a cold read excludes others, which skip the queue.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NamedTuple

from gantrymq.errors import GantryError, RequestError, ServiceNotAvailable
from gantrymq.plugin.interfaces import (
    Broker,
    GetLimit,
    GetResult,
    GetStatus,
    MessageFilter,
    PopAnswer,
    PoppedBatch,
    PopRequest,
    PutStatus,
)
from gantrymq.plugin.model import Queue, TopicConfig
from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey
from gantrymq_pop.order_info import OrderTable
from gantrymq_pop.pop_queue import PopQueue, PopRange
from gantrymq_pop.pop_response import ORDERED, counts_info, rename_records, split_records
from gantrymq_pop.revive_log import ReviveLog
from gantrymq_pop.topics import kind_of, retry_topic

log = logging.getLogger(__name__)

_INIT_MIN: Final = 0  # initMode

_MISPLACED: Final = frozenset(
    {GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL}
)
_NOT_THERE: Final = frozenset({GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE})


class QueueBatch(NamedTuple):
    """Messages that a pop read from one queue."""

    queue: Queue
    start: int
    offsets: list[int]
    buffers: Sequence[bytes | memoryview]
    take: PopRange | None  # None for an ordered pop
    state: PopQueue


class PopOutcome(NamedTuple):
    """Result of a pop."""

    broker_name: str
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    rest: int  # messages left in the queues that were read
    batches: Sequence[PoppedBatch]
    buffers: Sequence[bytes | memoryview]  # empty if nothing was found
    order_counts: str | None
    busy: bool  # whether a queue was skipped and should be read again soon
    free_at_ms: int | None  # when the first blocked queue can be popped in order

    def answer(self, code: int, remark: str) -> PopAnswer:
        """Return the answer to the pop."""
        return PopAnswer(code, remark, *self[:-2])


class PopReader:
    """Reads messages for pops."""

    def __init__(
        self,
        broker: Broker,
        broker_name: str,
        revive: ReviveLog,
        orders: OrderTable,
        notify: Callable[[str, str], None],
    ) -> None:
        """*notify* is called with topic and group when a skipped queue can be read again."""
        self._broker = broker
        self._settings = broker.settings
        self._clock = broker.world.clock
        self._random = broker.world.random
        self._broker_name = broker_name
        self._revive = revive
        self._orders = orders
        self._notify = notify
        self._queues: dict[tuple[str, Queue], PopQueue] = {}
        self._cold = set[tuple[str, Queue]]()  # queues with a cold read in progress, which excludes others
        self._turn = 0

    async def pop(self, request: PopRequest, topic: TopicConfig, match: MessageFilter) -> PopOutcome:
        """Read messages once, without waiting.

        Raises:
            RequestError: the checkpoints could not be stored; the messages can be popped again.
        """
        chance = self._random.randrange(100)
        revive_queue = ORDERED
        if not request.order:
            revive_queue = self._turn % self._revive.written_queues
            self._turn += 1
        pop_time = self._clock.now_ms()
        parts: list[QueueBatch] = []
        counted: list[str] = []  # in order
        left, rest, busy, free_at = request.max_count, 0, False, None
        for queue in self._queues_to_read(request, topic, chance):
            state = self._state(request.group, queue, request.init_mode)
            if (request.group, queue) in self._cold:
                rest += 0 if request.order else self._broker.store.bounds(queue).max_offset - state.next
                busy = True
                continue
            if request.order:
                key = (queue.topic, request.group, queue.queue_id)
                at = self._orders.blocked_until_ms(key, request.attempt_id, pop_time)
                if at is not None:
                    free_at = at if free_at is None else min(at, free_at)
                    continue
            if left <= 0:
                rest += max(0, self._broker.store.bounds(queue).max_offset - state.next)
                continue
            try:
                part, remaining = await self._read(request, queue, state, left, match)
            except BaseException:
                self._failed(request.group, parts)
                raise
            rest += remaining
            if part is not None:
                parts.append(part)
                left -= len(part.offsets)
                if request.order:
                    counted += self._in_order(request, part, pop_time)
        if parts and not request.order:
            parts = await self._recorded(request, parts, pop_time, revive_queue)
        counts = ";".join(counted) if request.order else None
        return self._popped(request, parts, pop_time, revive_queue, rest, counts, busy, free_at)

    def has_message(
        self, group: str, topic: TopicConfig, queue_id: int, attempt_id: str | None, *, order: bool
    ) -> bool:
        """Return whether a pop without a filter would find a message."""
        now_ms = self._clock.now_ms()
        for queue in self._queues_of(topic.name, topic, queue_id, 0):
            blocked = order and self._orders.blocked_until_ms((topic.name, group, queue.queue_id), attempt_id, now_ms)
            if not blocked and self._lag(group, queue) > 0:
                return True
        return any(self._lag(group, queue) > 0 for queue in self._retry_queues(topic.name, group, both=True))

    async def peek(self, group: str, topic: TopicConfig, queue_id: int, most: int) -> tuple[list[GetResult], int]:
        """Return messages that a pop would get, without popping them, and the total number available."""
        found: list[GetResult] = []
        rest = 0
        chance = self._random.randrange(100)
        queues = [
            *self._queues_of(topic.name, topic, queue_id, chance),
            *self._retry_queues(topic.name, group, both=True),
        ]
        for queue in queues:
            remaining = self._lag(group, queue)
            rest += max(0, remaining)
            if remaining > 0 and most > 0:
                begin = self._broker.store.bounds(queue).max_offset - remaining
                result = await self._broker.messages.get(queue, begin, GetLimit(most))
                found.append(result)
                most -= result.count
        return found, rest

    def forget(self, keep: Callable[[str], bool]) -> None:
        """Drop idle queue states, and those of topics for which *keep* returns False."""
        for key, state in list(self._queues.items()):
            if (state.idle and key not in self._cold) or not keep(key[1].topic):
                del self._queues[key]

    # --- which queues -----------------------------------------------------------------------------------------------

    def _queues_to_read(self, request: PopRequest, topic: TopicConfig, chance: int) -> list[Queue]:
        queues = self._queues_of(request.topic, topic, request.queue_id, chance)
        if request.order:
            return queues
        retries = self._retry_queues(request.topic, request.group, first_form=chance % 2 == 0)
        return [*retries, *queues] if chance < self._settings.number("popFromRetryProbability") else [*queues, *retries]

    def _queues_of(self, name: str, topic: TopicConfig, queue_id: int, begin: int) -> list[Queue]:
        if queue_id >= 0:
            return [Queue(name, queue_id)]
        count = topic.read_queues
        return [Queue(name, (begin + each) % count) for each in range(count)]

    def _retry_queues(self, topic: str, group: str, *, first_form: bool = False, both: bool = False) -> list[Queue]:
        """Return the queues of the group's retry topic.

        If both forms are enabled, one of them is chosen, as a response cannot describe both; *both* returns all.
        """
        names = [retry_topic(topic, group, second_form=False)]
        if self._settings.flag("enableRetryTopicV2"):
            names.insert(0, retry_topic(topic, group, second_form=True))
            if not self._settings.flag("retrieveMessageFromPopRetryTopicV1"):
                names = names[:1]
            elif not both:
                one, other = names[:: -1 if first_form else 1]
                names = [one] if self._lag(group, Queue(one, 0)) > 0 else [other]
        found: list[Queue] = []
        for name in names:
            config = self._broker.topics.get(name)
            if config is not None:
                found += [Queue(name, each) for each in range(config.read_queues)]
        return found

    # --- where a queue is read ----------------------------------------------------------------------------------------

    def _state(self, group: str, queue: Queue, init_mode: int) -> PopQueue:
        """Return the group's pop state of a queue; a reset, or a commit by another request, creates a new one."""
        reset = self._broker.offsets.take_reset(group, queue)
        if reset is not None:
            self._orders.clear((queue.topic, group, queue.queue_id))
            self._queues.pop((group, queue), None)
        committed = self._broker.offsets.committed(group, queue)
        if committed is None:
            committed = self._first(queue, init_mode)
            self._broker.offsets.commit(group, queue, committed)
        state = self._queues.get((group, queue))
        if state is None or state.committed != committed:
            state = self._queues[group, queue] = PopQueue(committed)
        return state

    def _first(self, queue: Queue, init_mode: int) -> int:
        """Return the start offset of a new group."""
        bounds = self._broker.store.bounds(queue)
        if init_mode == _INIT_MIN or kind_of(queue.topic) != "0":
            return bounds.min_offset
        if self._settings.flag("initPopOffsetByCheckMsgInMem") and bounds.min_offset <= 0:
            head = self._broker.store.get(queue, 0, GetLimit(1), None)
            if isinstance(head, GetResult) and head.count and not head.cold:
                return 0
            if isinstance(head, Coroutine):
                head.close()
        return max(bounds.max_offset - 1, 0)

    def _lag(self, group: str, queue: Queue) -> int:
        """Return the number of messages that the group has not popped yet."""
        bounds = self._broker.store.bounds(queue)
        state = self._queues.get((group, queue))
        committed = self._broker.offsets.committed(group, queue)
        if committed is None:
            return bounds.max_offset - bounds.min_offset
        at = state.next if state is not None and state.committed == committed else committed
        return bounds.max_offset - max(at, bounds.min_offset)

    def _commit(self, group: str, queue: Queue, state: PopQueue) -> None:
        if self._queues.get((group, queue)) is not state:
            return  # reset meanwhile
        position = state.position()
        if position == state.committed:
            return
        try:
            self._broker.offsets.commit(group, queue, position)
            state.committed = position
        except RequestError as error:  # the checkpoints are stored, so the next pop continues all the same
            log.warning("%s", error)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _read(
        self, request: PopRequest, queue: Queue, state: PopQueue, most: int, match: MessageFilter
    ) -> tuple[QueueBatch | None, int]:
        """Read messages of a queue for the group. Return them, and the number of messages after them."""
        group = request.group
        start, end = (state.committed, None) if request.order else state.ahead()
        found = await self._got(group, queue, state, start, most, match)
        if found.status in _MISPLACED and found.next_offset != start and end is None:
            log.info("group %s pops %s at %d, not %d: %s", group, queue, found.next_offset, start, found.status.name)
            self._broker.offsets.commit(group, queue, found.next_offset)
            state = self._state(group, queue, request.init_mode)
            start = found.next_offset
            found = await self._got(group, queue, state, start, most, match)
        if self._queues.get((group, queue)) is not state:
            return None, max(0, found.max_offset - found.min_offset)  # reset while it was read: read again later
        remaining = max(0, found.max_offset - found.next_offset)
        next_offset = found.next_offset if end is None else min(found.next_offset, end)
        offsets, buffers = split_records(found, end)
        if not offsets:
            if found.status not in _NOT_THERE and next_offset > start:
                self._skip(request, queue, state, start, next_offset)
            return None, remaining
        take = None if request.order else state.took(start, next_offset)
        return QueueBatch(queue, start, offsets, buffers, take, state), remaining

    async def _got(
        self, group: str, queue: Queue, state: PopQueue, start: int, most: int, match: MessageFilter
    ) -> GetResult:
        found = self._broker.store.get(queue, start, GetLimit(most), match)
        if isinstance(found, GetResult):
            return found
        self._cold.add((group, queue))
        try:
            return await found
        finally:
            self._cold.discard((group, queue))
            self._notify(queue.topic, group)

    def _skip(self, request: PopRequest, queue: Queue, state: PopQueue, start: int, end: int) -> None:
        """Skip [start, end), which has no messages for the group."""
        if request.order:
            self._broker.offsets.commit(request.group, queue, end)
            return
        state.skipped(start, end)
        self._commit(request.group, queue, state)

    # --- on record ----------------------------------------------------------------------------------------------------

    async def _recorded(
        self, request: PopRequest, parts: list[QueueBatch], pop_time: int, revive_queue: int
    ) -> list[QueueBatch]:
        """Store the checkpoints. Return the batches that may be delivered.

        Raises:
            RequestError: no checkpoint could be stored.
        """
        group = request.group
        entries: list[tuple[int, Checkpoint | Acknowledgement]] = [
            (revive_queue, Checkpoint(self._key(group, part, pop_time), request.invisible_ms, tuple(part.offsets)))
            for part in parts
        ]
        problem = "the store refused its checkpoint"
        good: list[QueueBatch] = []
        try:
            results = await self._revive.write(entries)
            good = [part for part, result in zip(parts, results, strict=True) if result.status is PutStatus.OK]
            problem = next((each.problem for each in results if each.problem), problem)
        except GantryError as error:
            problem = str(error)
        finally:
            self._failed(group, [part for part in parts if part not in good])
        for part in good:
            if part.take is not None:
                part.state.stored(part.take)
            self._commit(group, part.queue, part.state)
        if not good:
            raise ServiceNotAvailable(f"a pop of {request.topic} delivers nothing: {problem}; pop again in a moment")
        return good

    def _failed(self, group: str, parts: Sequence[QueueBatch]) -> None:
        """Mark batches as not delivered; the next pop reads them again."""
        for part in parts:
            if part.take is not None:
                part.state.failed(part.take)
                self._commit(group, part.queue, part.state)

    def _key(self, group: str, part: QueueBatch, pop_time: int) -> CheckpointKey:
        return CheckpointKey(part.queue.topic, group, part.queue.queue_id, part.start, pop_time, self._broker_name)

    def _in_order(self, request: PopRequest, part: QueueBatch, pop_time: int) -> list[str]:
        """Block the queue until the batch is acknowledged. Return the parts of orderCountInfo for the batch."""
        topic, queue_id = part.queue
        key = (topic, request.group, queue_id)
        counts = self._orders.popped(key, request.attempt_id, pop_time, request.invisible_ms, part.offsets)
        return counts_info(topic, queue_id, counts)

    def _popped(
        self,
        request: PopRequest,
        parts: list[QueueBatch],
        pop_time: int,
        revive_queue: int,
        rest: int,
        order_counts: str | None,
        busy: bool,
        free_at: int | None,
    ) -> PopOutcome:
        buffers: list[bytes | memoryview] = []
        as_they_are = self._settings.flag("popResponseReturnActualRetryTopic")
        for part in parts:
            topic, size = part.queue.topic, sum(map(len, part.buffers))
            self._broker.metrics.count_delivery(request.group, topic, len(part.offsets), size)
            kind = kind_of(part.queue.topic)
            if kind == "0" or as_they_are:
                buffers += part.buffers
            else:
                handle_start = f"{part.start} {pop_time} {request.invisible_ms} {revive_queue} {kind}"
                buffers += rename_records(part.buffers, request.topic, handle_start, self._broker_name)
        return PopOutcome(
            self._broker_name,
            pop_time,
            request.invisible_ms,
            revive_queue,
            rest,
            [
                PoppedBatch(part.queue.topic, kind_of(part.queue.topic), part.queue.queue_id, part.start, part.offsets)
                for part in parts
            ],
            buffers,
            order_counts,
            busy,
            free_at,
        )
