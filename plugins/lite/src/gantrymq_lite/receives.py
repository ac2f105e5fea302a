"""Receiving from light queues: reading the marked queues of a consumer, and waiting for messages.

    arrival, acknowledgement, end of an invisible time -> marks at the consumers, and one waiting receive is woken
    receive -> reads the marked queues in turn, until it has enough messages

A woken receive reads again, and waits again if it finds nothing. While one receive reads a queue, others of its group
pass it over.

Source: apache/rocketmq broker/.../processor/PopLiteMessageProcessor.java, lite/LiteEventDispatcher.java.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from gantrymq.errors import (
    ConnectionLost,
    GantryError,
    InvalidParameter,
    RequestRefused,
    ServiceNotAvailable,
)
from gantrymq.plugin.interfaces import (
    Broker,
    ClientChannel,
    GetLimit,
    GetResult,
    LiteMessage,
    LiteRequest,
    PopAnswer,
    PoppedBatch,
)
from gantrymq.plugin.model import (
    LIGHT_QUEUE_ID,
    LITE_PREFIX,
    POP_ORDER_REVIVE_QUEUE,
    Queue,
    lite_topic_of,
)
from gantrymq.plugin.remoting import AnsweringTasks
from gantrymq.plugin.world import Timer, outcome_into
from gantrymq_lite.attributes import light_queues_problem
from gantrymq_lite.checks import check_invisible
from gantrymq_lite.in_flight import InFlight, Key
from gantrymq_lite.subscriptions import Consumer, ConsumerKey, Subscriptions

log = logging.getLogger(__name__)
Respond = Callable[[PopAnswer | GantryError], None]
Check = Callable[[LiteRequest], None]

_MOST: Final = 32  # messages of one receive
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_WAITING: Final = 1024  # receives of one client
_POLLING_FULL: Final = 209
_POLLING_TIMEOUT: Final = 210
_LATE_MS: Final = 500  # a receive that arrives this long after its deadline is refused
_NEARLY_MS: Final = 50  # a receive does not wait for less than this
_LONGEST_S: Final = 600.0


@attrs.define(eq=False)
class _Receive:
    """A receive that was not answered yet."""

    request: LiteRequest
    client: ClientChannel
    respond: Respond
    abandoned: Callable[[], bool]
    timer: Timer | None = None


class Receives:
    """Receives of one broker."""

    def __init__(
        self,
        broker: Broker,
        subscriptions: Subscriptions,
        in_flight: InFlight,
        check: Check,
        give_back: Callable[[Sequence[LiteMessage]], None],
        arrived: Callable[[str], object],
    ) -> None:
        """Serve nothing yet.

        *check* raises if a request is not allowed, *give_back* gets messages for a client that is gone, and *arrived*
        is called with each light queue that has a new message.
        """
        self._broker = broker
        self._clock = broker.world.clock
        self._subscriptions = subscriptions
        self._in_flight = in_flight
        self._check = check
        self._give_back = give_back
        self._has_arrived = arrived
        self._waiting: dict[ConsumerKey, dict[_Receive, None]] = {}
        self._of_client: dict[ClientChannel, dict[_Receive, None]] = {}
        self._reading: set[Key] = set()
        self._due: list[tuple[int, Key]] = []  # when queues become free, a heap
        self._due_at: dict[Key, int] = {}  # the entries of the heap that are in force
        self._due_timer: Timer | None = None
        self._answering = AnsweringTasks(log, "a receive of lite topics failed")
        self._closed = False
        self.looked_at = 0  # queues that receives looked at, since the start
        self._ends = [broker.clients.on_gone(self._client_gone), broker.access.on_recheck(self._recheck)]
        if not light_queues_problem(broker.settings):  # a listener to all queues costs something for each message
            self._ends.append(broker.messages.on_arrival(self._arrived))

    # --- receiving --------------------------------------------------------------------------------------------------

    async def receive(self, request: LiteRequest, client: ClientChannel) -> PopAnswer:
        """Return messages, waiting as long as the request allows (`gantrymq.interfaces.LiteService.receive`)."""
        answered: asyncio.Future[PopAnswer] = asyncio.get_running_loop().create_future()
        self.serve(request, client, outcome_into(answered), abandoned=answered.done)
        try:
            return await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and answered.exception() is None:
                self._return(request, answered.result())
            raise

    def serve(
        self,
        request: LiteRequest,
        client: ClientChannel,
        respond: Respond,
        *,
        abandoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """Call *respond* once, with messages, or with none when the time is up. Raises if the request is refused.

        *abandoned*: whether the answer is not awaited any more; messages that were read for it are given back.
        """
        if self._closed:  # clients that ask again at once would hold up the end
            raise ServiceNotAvailable("this broker is stopping; receive again in a moment")
        self._check(request)
        now_ms = self._clock.now_ms()
        request = request._replace(born_ms=request.born_ms or now_ms)
        if now_ms - request.born_ms - request.wait_ms > _LATE_MS:
            raise RequestRefused(
                _POLLING_TIMEOUT,
                "this receive arrived after its time was up (bornTime + pollTime); compare the clocks of client and "
                "broker, or let it wait for longer",
            )
        if not 1 <= request.max_count <= _MOST:
            raise InvalidParameter(f"maxMsgNum {request.max_count} is not between 1 and {_MOST}; receive more often")
        check_invisible(request.invisible_ms)
        # In a task of its own: a cancelled caller must not end a receive between reading and recording.
        self._answering.start(self._attempt(_Receive(request, client, respond, abandoned)), respond)

    async def _attempt(self, receive: _Receive) -> None:
        request, client, respond = receive.request, receive.client, receive.respond
        if receive.abandoned():
            return
        self._check(request)
        answer = await client.response_limiter.run(self._read(request))
        if not answer.batches:
            self._wait(receive, answer)
        elif client.closed or receive.abandoned():
            self._return(request, answer)
            respond(_lost(client))
        else:
            respond(answer)

    async def _read(self, request: LiteRequest) -> PopAnswer:
        """Read the marked queues of a client in turn."""
        now_ms = self._clock.now_ms()
        batches: list[PoppedBatch] = []
        buffers: list[bytes | memoryview] = []
        left, room = request.max_count, _MOST_BYTES
        consumer = self._subscriptions.get(request.group, request.client_id)
        marks: dict[str, None] = {}
        if consumer is not None:
            consumer.heard_ms = now_ms
            marks = consumer.marks
        for _ in range(len(marks)):  # a queue that is marked again meanwhile waits for the next receive
            if not marks or left <= 0 or room <= 0:
                break
            light_queue = next(iter(marks))
            del marks[light_queue]
            key = light_queue, request.group
            try:
                found = await self._read_queue(key, request, now_ms, GetLimit(left, room))
            except GantryError:
                marks[light_queue] = None
                if not batches:
                    raise
                break
            if found is None:
                continue
            start = found.next_offset - found.count
            offsets = range(start, found.next_offset)
            earlier = self._in_flight.delivered(key, request.attempt_id, now_ms, request.invisible_ms, offsets)
            self._free_later(key, now_ms + request.invisible_ms)
            batches.append(PoppedBatch(light_queue, "0", LIGHT_QUEUE_ID, start, offsets, earlier))
            buffers += found.buffers
            left -= found.count
            room -= found.size
            if consumer is not None:
                consumer.got_ms = now_ms
                self._subscriptions.served(consumer, light_queue)
        name = self._broker.registration.broker_name
        shared = name, now_ms, request.invisible_ms, POP_ORDER_REVIVE_QUEUE, len(marks)
        if batches:
            count, size = request.max_count - left, _MOST_BYTES - room
            self._broker.metrics.count_delivery(request.group, request.topic, count, size)
            return PopAnswer(0, "FOUND", *shared, batches, buffers)
        return PopAnswer(_POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", *shared)

    async def _read_queue(self, key: Key, request: LiteRequest, now_ms: int, limit: GetLimit) -> GetResult | None:
        """Read from where the group is in a queue; None if there is nothing for it now."""
        self.looked_at += 1
        if key in self._reading:
            return None
        light_queue, group = key
        queue, offsets = Queue(light_queue, LIGHT_QUEUE_ID), self._broker.offsets
        if offsets.take_reset(group, queue) is not None:
            self._in_flight.clear(key)
        free_at_ms = self._in_flight.blocked_until_ms(key, request.attempt_id, now_ms)
        if free_at_ms is not None:
            self._free_later(key, free_at_ms)
            return None
        bounds = self._broker.store.bounds(queue)
        at = min(max(offsets.committed(group, queue) or 0, bounds.min_offset), bounds.max_offset)
        self._reading.add(key)
        try:
            while at < bounds.max_offset:
                found = await self._broker.messages.get(queue, at, limit)
                if found.count:
                    return found
                if found.next_offset <= at:
                    return None
                at = found.next_offset  # the messages before it are deleted
            return None
        finally:
            self._reading.discard(key)

    def has_message(self, key: Key) -> bool:
        """Return whether a queue has messages after the position of a group, delivered or not."""
        queue = Queue(key[0], LIGHT_QUEUE_ID)
        bounds = self._broker.store.bounds(queue)
        return max(self._broker.offsets.committed(key[1], queue) or 0, bounds.min_offset) < bounds.max_offset

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self, receive: _Receive, nothing: PopAnswer) -> None:
        request = receive.request
        left_ms = request.born_ms + request.wait_ms - self._clock.now_ms()
        consumer = self._subscriptions.get(request.group, request.client_id)
        if receive.client.closed:
            receive.respond(_lost(receive.client))
        elif self._closed or left_ms <= _NEARLY_MS:
            receive.respond(nothing)
        elif consumer is not None and consumer.marks:  # marked while the queues were read
            self._answering.start(self._attempt(receive), receive.respond)
        else:
            waiting = self._waiting.setdefault((request.group, request.client_id), {})
            if len(waiting) >= _MOST_WAITING:
                full = f"{_MOST_WAITING} receives of client {request.client_id} wait; answer some before more"
                receive.respond(nothing._replace(code=_POLLING_FULL, remark=full))
                return
            waiting[receive] = None
            self._of_client.setdefault(receive.client, {})[receive] = None
            receive.timer = self._clock.call_later(min(left_ms / 1000, _LONGEST_S), self._woken, receive)

    def wake(self, consumer: Consumer) -> bool:
        """Let the oldest waiting receive of a consumer read again. Return whether there is one."""
        for receive in self._waiting.get(consumer.key, ()):
            self._woken(receive)
            return True
        return False

    def _woken(self, receive: _Receive) -> None:
        self._forget(receive)
        self._answering.start(self._attempt(receive), receive.respond)

    def _forget(self, receive: _Receive) -> None:
        key, client = (receive.request.group, receive.request.client_id), receive.client
        del self._waiting[key][receive], self._of_client[client][receive]
        if not self._waiting[key]:
            del self._waiting[key]
        if not self._of_client[client]:
            del self._of_client[client]
        if receive.timer is not None:
            receive.timer.cancel()

    def _client_gone(self, client: ClientChannel) -> None:
        for receive in list(self._of_client.get(client, ())):
            self._forget(receive)
            receive.respond(_lost(client))

    async def _recheck(self) -> None:
        """Let the receives of users without permission end."""
        for waiting in list(self._waiting.values()):
            for receive in list(waiting):
                request = receive.request
                if receive in waiting and not self._broker.access.may_consume(
                    request.principal, request.group, request.topic
                ):
                    self._woken(receive)

    # --- marks ------------------------------------------------------------------------------------------------------

    def mark(self, light_queue: str, group: str | None = None) -> None:
        """Mark a queue at its consumers, those of *group* or all, and wake a receive of each group."""
        for consumers in self._subscriptions.of_queue(light_queue, group):
            for consumer in consumers:
                consumer.marks[light_queue] = None
            any(map(self.wake, consumers))

    def mark_if_free(self, key: Key) -> None:
        """Mark a queue at the consumers of a group if it has messages for them now."""
        now_ms = self._clock.now_ms()
        free_at_ms = self._in_flight.blocked_until_ms(key, None, now_ms)
        if free_at_ms is not None:
            self._free_later(key, free_at_ms)
        elif self.has_message(key):
            self.mark(*key)

    def _arrived(self, queue: Queue, end: int) -> None:
        if queue.topic.startswith(LITE_PREFIX):
            self._has_arrived(queue.topic)
            self.mark(queue.topic)

    def _free_later(self, key: Key, at_ms: int) -> None:
        """Mark a queue when the first of its invisible messages becomes visible."""
        before_ms = self._due_at.get(key)
        if before_ms is None or at_ms < before_ms:
            self._due_at[key] = at_ms
            heapq.heappush(self._due, (at_ms, key))
            if self._due[0][1] == key:
                self._set_timer()

    def _set_timer(self) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        if self._due and not self._closed:
            wait_s = max((self._due[0][0] - self._clock.now_ms()) / 1000, 0.001)
            self._due_timer = self._clock.call_later(min(wait_s, _LONGEST_S), self._free_due)

    def _free_due(self) -> None:
        self._due_timer = None
        now_ms = self._clock.now_ms()
        while self._due and self._due[0][0] <= now_ms:
            at_ms, key = heapq.heappop(self._due)
            if self._due_at.get(key) == at_ms:
                del self._due_at[key]
                self.mark_if_free(key)
        self._set_timer()

    # --- end --------------------------------------------------------------------------------------------------------

    def _return(self, request: LiteRequest, answer: PopAnswer) -> None:
        messages = []
        for batch in answer.batches:
            names = lite_topic_of(batch.topic)
            receipts = answer._replace(batches=[batch]).receipts()
            if names is not None:
                messages += [LiteMessage(request.group, *names, each) for each in receipts]
        self._give_back(messages)

    async def close(self) -> None:
        """Answer all waiting receives, and end."""
        self._closed = True
        for end in self._ends:
            end()
        for waiting in list(self._waiting.values()):
            for receive in list(waiting):
                self._woken(receive)
        self._set_timer()
        await self._answering.ended()


def _lost(client: ClientChannel) -> ConnectionLost:
    return ConnectionLost(f"{client.address} closed its connection while its receive waited")
