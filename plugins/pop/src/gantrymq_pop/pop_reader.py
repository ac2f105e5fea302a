"""Pops: which queues are read, in which order, and what is stored before a consumer gets a message.

    read every requested queue, starting at a random one; a retry topic first (popFromRetryProbability) or last; of a
    PRIORITY topic the queue of the highest priority first
    -> store one checkpoint per queue read, all as one append
    -> move the group's offsets over the stored ranges, and send the response

Pops of one group share a queue: the second continues where the first ended, while the first's checkpoint is being
stored. Only a cold read excludes others, which skip the queue. While checkpoints of many bytes of messages are being
stored, pops wait before they read.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
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
from gantrymq.plugin.model import POP_ORDER_REVIVE_QUEUE, Queue, TopicConfig, kind_of_topic
from gantrymq.plugin.names import pop_retry_topics
from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey
from gantrymq_pop.held_bytes import HeldBytes
from gantrymq_pop.order_info import OrderTable
from gantrymq_pop.pop_queue import PopQueue, PopRange
from gantrymq_pop.pop_response import count_deliveries, rename_records, split_records
from gantrymq_pop.revive_log import ReviveLog

log = logging.getLogger(__name__)

_INIT_MIN: Final = 0  # initMode

_MISPLACED: Final = frozenset(
    {GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL}
)
# Clients of RocketMQ take frames of up to 16 MiB; the rest is for the header, and the handles of retried messages.
_MOST_BYTES: Final = 16 * 1024 * 1024 - 64 * 1024
_NOT_THERE: Final = frozenset({GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE})


class QueueBatch(NamedTuple):
    """Messages that a pop read from one queue."""

    queue: Queue
    start: int
    offsets: list[int]
    buffers: Sequence[bytes | memoryview]
    take: PopRange | None  # None for an ordered pop
    state: PopQueue
    deliveries: Mapping[int, int] = MappingProxyType({})  # see `PoppedBatch`

    def popped(self) -> PoppedBatch:
        """Return the description for the answer."""
        topic, queue_id = self.queue
        return PoppedBatch(topic, kind_of_topic(topic), queue_id, self.start, self.offsets, self.deliveries)


class PopOutcome(NamedTuple):
    """Result of a pop."""

    broker_name: str
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    rest: int  # messages left in the queues that were read
    batches: Sequence[PoppedBatch]
    buffers: Sequence[bytes | memoryview]  # empty if nothing was found
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
        self._held = HeldBytes(_MOST_BYTES)  # of messages whose checkpoints are being stored

    async def pop(self, request: PopRequest, topic: TopicConfig, match: MessageFilter) -> PopOutcome:
        """Read messages once, without waiting.

        Raises:
            RequestError: the checkpoints could not be stored; the messages can be popped again.
        """
        await self._held.room()
        chance = self._random.randrange(100)
        revive_queue = POP_ORDER_REVIVE_QUEUE
        if not request.order:
            revive_queue = self._turn % self._revive.written_queues
            self._turn += 1
        pop_time = self._clock.now_ms()
        parts: list[QueueBatch] = []
        left, rest, busy, free_at = request.max_count, 0, False, None
        room = _MOST_BYTES
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
                rest += max(0, self._broker.store.bounds(queue).max_offset - state.next) + state.behind
                continue
            try:
                part, remaining, is_full = await self._read(
                    request, queue, state, GetLimit(left, room), match, least=0 if parts else 1
                )
            except BaseException:
                self._failed(request.group, parts)
                raise
            rest += remaining
            if part is not None:
                parts.append(self._in_order(request, part, pop_time) if request.order else part)
                left -= len(part.offsets)
                room -= sum(map(len, part.buffers))
            if is_full:
                left = 0
        if parts and not request.order:
            held = _MOST_BYTES - room
            self._held.add(held)
            try:
                parts = await self._recorded(request, parts, pop_time, revive_queue)
            finally:
                self._held.release(held)
        return self._popped(request, parts, pop_time, revive_queue, rest, busy, free_at)

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

    async def peek(
        self, group: str, topic: TopicConfig, queue_id: int, most: int
    ) -> tuple[list[bytes | memoryview], int]:
        """Return records that a pop would get, without popping them, and the total number available."""
        found: list[bytes | memoryview] = []
        rest, room = 0, _MOST_BYTES
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
                result = await self._broker.messages.get(queue, begin, GetLimit(most, room))
                offsets, buffers, cut = split_records(result, None, room, least=0 if found else 1)
                found += buffers
                room -= sum(map(len, buffers))
                most = most - len(offsets) if cut is None else 0
        return found, rest

    def forget(self, keep: Callable[[str], bool]) -> None:
        """Drop idle queue states, and those of topics for which *keep* returns False."""
        for key, state in list(self._queues.items()):
            if (state.idle and key not in self._cold) or not keep(key[1].topic):
                del self._queues[key]

    # --- which queues -----------------------------------------------------------------------------------------------

    def _queues_to_read(self, request: PopRequest, topic: TopicConfig, chance: int) -> list[Queue]:
        if request.order:
            return self._queues_of(request.topic, topic, request.queue_id, chance)
        has_priorities = topic.attributes.get("message.type") == "PRIORITY"
        by_priority = has_priorities and chance < self._priority_factor(request.group)
        queues = self._queues_of(request.topic, topic, request.queue_id, 0 if by_priority else chance)
        if by_priority and self._settings.flag("priorityOrderAsc"):
            queues.reverse()
        retries = self._retry_queues(request.topic, request.group, first_form=chance % 2 == 0)
        retries_first = "popFromRetryProbabilityForPriority" if by_priority else "popFromRetryProbability"
        return [*retries, *queues] if chance < self._settings.number(retries_first) else [*queues, *retries]

    def _priority_factor(self, group: str) -> int:
        """Return the percentage of the group's pops of a PRIORITY topic that read by priority."""
        config = self._broker.groups.get(group)
        text = config.attributes.get("priority.factor", "") if config is not None else ""
        return int(text) if text.isdecimal() else 100

    def _queues_of(self, name: str, topic: TopicConfig, queue_id: int, begin: int) -> list[Queue]:
        if queue_id >= 0:
            return [Queue(name, queue_id)]
        count = topic.read_queues
        return [Queue(name, (begin + each) % count) for each in range(count)]

    def _retry_queues(self, topic: str, group: str, *, first_form: bool = False, both: bool = False) -> list[Queue]:
        """Return the queues of the group's retry topic.

        If both forms are enabled, one of them is chosen, as a response cannot describe both; *both* returns all.
        """
        first, second = pop_retry_topics(group, topic)
        names = [first]
        if self._settings.flag("enableRetryTopicV2"):
            names.insert(0, second)
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
        return self._current(group, queue, committed)

    def offsets_of(self, group: str, queue: Queue) -> PopQueue | None:
        """Return the pop state of a queue; None if the group has no offset of it."""
        committed = self._broker.offsets.committed(group, queue)
        return None if committed is None else self._current(group, queue, committed)

    def _current(self, group: str, queue: Queue, committed: int) -> PopQueue:
        state = self._queues.get((group, queue))
        if state is None or state.committed != committed:
            state = self._queues[group, queue] = PopQueue(committed)
        return state

    def _first(self, queue: Queue, init_mode: int) -> int:
        """Return the start offset of a new group."""
        bounds = self._broker.store.bounds(queue)
        if init_mode == _INIT_MIN or kind_of_topic(queue.topic) != "0":
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
        if state is None or state.committed != committed:
            return bounds.max_offset - max(committed, bounds.min_offset)
        return bounds.max_offset - max(state.next, bounds.min_offset) + state.behind

    def commit(self, group: str, queue: Queue, state: PopQueue) -> None:
        """Commit the position of *state*, unless it was replaced."""
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
        self,
        request: PopRequest,
        queue: Queue,
        state: PopQueue,
        limit: GetLimit,
        match: MessageFilter,
        *,
        least: int,
    ) -> tuple[QueueBatch | None, int, bool]:
        """Read messages of a queue for the group, *least* also if they exceed the limit of bytes.

        Return them, the number of messages after them, and whether the limit left no room for the first of those.
        """
        group = request.group
        start, end = (state.committed, None) if request.order else state.ahead()
        found = await self._got(group, queue, start, limit, match)
        if found.status in _MISPLACED and found.next_offset != start and end is None:
            log.info("group %s pops %s at %d, not %d: %s", group, queue, found.next_offset, start, found.status.name)
            self._broker.offsets.commit(group, queue, found.next_offset)
            state = self._state(group, queue, request.init_mode)
            start = found.next_offset
            found = await self._got(group, queue, start, limit, match)
        if self._queues.get((group, queue)) is not state:
            return None, max(0, found.max_offset - found.min_offset), False  # reset while it was read: read again later
        offsets, buffers, cut = split_records(found, end, limit.max_bytes, least)
        read_to = found.next_offset if cut is None else min(found.next_offset, cut)
        remaining = max(0, found.max_offset - read_to)
        next_offset = read_to if end is None else min(read_to, end)
        if not offsets:
            if found.status not in _NOT_THERE and next_offset > start:
                self._skip(request, queue, state, start, next_offset)
            return None, remaining + state.behind, cut is not None
        take = None if request.order else state.took(start, next_offset)
        part = QueueBatch(queue, start, offsets, buffers, take, state)
        return part, remaining + state.behind, cut is not None

    async def _got(self, group: str, queue: Queue, start: int, limit: GetLimit, match: MessageFilter) -> GetResult:
        found = self._broker.store.get(queue, start, limit, match)
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
        self.commit(request.group, queue, state)

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
                self._revive.delivered(self._key(group, part, pop_time), part.state, part.take)
            self.commit(group, part.queue, part.state)
        if not good:
            raise ServiceNotAvailable(f"a pop of {request.topic} delivers nothing: {problem}; pop again in a moment")
        return good

    def _failed(self, group: str, parts: Sequence[QueueBatch]) -> None:
        """Mark batches as not delivered; the next pop reads them again."""
        for part in parts:
            if part.take is not None:
                part.state.failed(part.take)
                self.commit(group, part.queue, part.state)

    def _key(self, group: str, part: QueueBatch, pop_time: int) -> CheckpointKey:
        return CheckpointKey(part.queue.topic, group, part.queue.queue_id, part.start, pop_time, self._broker_name)

    def _in_order(self, request: PopRequest, part: QueueBatch, pop_time: int) -> QueueBatch:
        """Block the queue until the batch is acknowledged. Return the batch with its earlier deliveries."""
        key = (part.queue.topic, request.group, part.queue.queue_id)
        times = self._orders.popped(key, request.attempt_id, pop_time, request.invisible_ms, part.offsets)
        return part._replace(deliveries=times)

    def _popped(
        self,
        request: PopRequest,
        parts: list[QueueBatch],
        pop_time: int,
        revive_queue: int,
        rest: int,
        busy: bool,
        free_at: int | None,
    ) -> PopOutcome:
        buffers: list[bytes | memoryview] = []
        as_they_are = self._settings.flag("popResponseReturnActualRetryTopic")
        for part in parts:
            topic, size = part.queue.topic, sum(map(len, part.buffers))
            self._broker.metrics.count_delivery(request.group, topic, len(part.offsets), size)
            kind, found = kind_of_topic(topic), part.buffers
            if part.state.times:
                found = count_deliveries(found, part.state.times)
            if kind == "0" or as_they_are:
                buffers += found
            else:
                handle_start = f"{part.start} {pop_time} {request.invisible_ms} {revive_queue} {kind}"
                buffers += rename_records(found, request.topic, handle_start, self._broker_name)
        return PopOutcome(
            self._broker_name,
            pop_time,
            request.invisible_ms,
            revive_queue,
            rest,
            [part.popped() for part in parts],
            buffers,
            busy,
            free_at,
        )
