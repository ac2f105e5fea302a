"""Requests for messages: pop (200050), peek (200052), notification (200054) and polling info (200055).

The checks are made in RocketMQ's order. Requests about popped messages are in `ack_requests`.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java, PeekMessageProcessor.java,
NotificationProcessor.java, PollingInfoProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gantrymq.errors import GantryError, InvalidParameter, RequestRefused, ServerFault
from gantrymq.interfaces import Broker, MessageFilter
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, encode_head, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import serves
from gantrymq_pop.checks import PopChecks, check_invisible
from gantrymq_pop.headers import (
    NotificationRequest,
    PeekRequest,
    PollingInfoRequest,
    PopRequest,
)
from gantrymq_pop.long_polling import LongPolling, PollingKey
from gantrymq_pop.pop_reader import MOST, PopOutcome, PopReader

__all__ = ["PopRequests"]

log = logging.getLogger(__name__)

PULL_NOT_FOUND: Final = 19
POLLING_FULL: Final = 209
POLLING_TIMEOUT: Final = 210

TOO_MANY: Final = (
    "too many pops wait on this broker; pop again later, or let more wait with: gantrymq broker config set "
    "popPollingSize=N (for one queue of a group), popPollingMapSize=N (queues of groups), maxPopPollingSize=N (in all)"
)
LATE_MS: Final = 500  # a pop that arrives this long after its deadline is refused
NEARLY_MS: Final = 50  # a pop is not held for less than this
LONGEST_S: Final = 600.0
SOON_S: Final = 0.05
MOST_ATTEMPTS: Final = 50  # reads of one pop while a filter rejects all messages


class PopRequests:
    """Handlers of these requests."""

    def __init__(self, broker: Broker, popping: PopReader, waiting: LongPolling) -> None:
        self._broker = broker
        self._clock = broker.world.clock
        self._popping = popping
        self._waiting = waiting
        self._checks = PopChecks(broker, waiting)
        self._tasks: set[asyncio.Task[None]] = set()

    @serves(RequestCode.POP_MESSAGE)
    async def pop(self, request: Command, connection: Connection) -> Command | None:
        """Answer request 200050: pop messages, or wait for some."""
        header = PopRequest.from_ext(request.ext)
        now_ms = self._clock.now_ms()
        header.born_time = header.born_time or now_ms
        if now_ms - header.born_time - header.poll_time > LATE_MS:
            raise RequestRefused(
                POLLING_TIMEOUT,
                "this pop arrived after its time was up (bornTime + pollTime); compare the clocks of client "
                "and broker, or "
                "let it wait for longer",
            )
        self._checks.check_broker()
        if not 1 <= header.max_msg_nums <= MOST:
            raise InvalidParameter(f"maxMsgNums {header.max_msg_nums} is not between 1 and {MOST}; pop more often")
        check_invisible(header.invisible_time)
        topic = self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)
        match = self._checks.filter(header)
        return await self._try_pop(request, connection, header, topic, match)

    @serves(RequestCode.NOTIFICATION)
    async def notification(self, request: Command, connection: Connection) -> Command | None:
        """Answer request 200054: respond as soon as a pop would find messages."""
        header = NotificationRequest.from_ext(request.ext)
        header.born_time = header.born_time or self._clock.now_ms()
        self._checks.check_broker()
        topic = self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)
        return self._notified(request, connection, header, topic)

    @serves(RequestCode.POLLING_INFO)
    def polling_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200055: the number of waiting pops."""
        header = PollingInfoRequest.from_ext(request.ext)
        self._checks.check_broker()
        self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)
        place = PollingKey(header.topic, header.consumer_group, header.queue_id)
        return response_to(request, 0, None, {"pollingNum": str(self._waiting.number(place))})

    @serves(RequestCode.PEEK_MESSAGE)
    async def peek(self, request: Command, connection: Connection) -> Command | None:
        """Answer request 200052: messages that a pop would get, without popping them."""
        header = PeekRequest.from_ext(request.ext)
        self._checks.check_broker()
        topic = self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)
        if not 1 <= header.max_msg_nums <= MOST:
            raise InvalidParameter(f"maxMsgNums {header.max_msg_nums} is not between 1 and {MOST}; pop more often")
        found, rest = await self._popping.peek(header.consumer_group, topic, header.queue_id, header.max_msg_nums)
        buffers = [buffer for each in found for buffer in each.buffers]
        ext = {
            "popTime": str(self._clock.now_ms()),
            "invisibleTime": "0",
            "reviveQid": "0",
            "restNum": str(rest),
        }
        if not buffers:
            return response_to(request, PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", ext)
        _send(request, connection, response_to(request, 0, "FOUND", ext), buffers)
        return None

    # --- reading and waiting ------------------------------------------------------------------------------------------

    async def _try_pop(
        self, request: Command, connection: Connection, header: PopRequest, topic: TopicConfig, match: MessageFilter
    ) -> Command | None:
        popped = await connection.response_limiter.run(self._popping.pop(header, topic, match))
        attempts = 1
        while not popped.buffers and popped.rest > 0 and not popped.busy and attempts < MOST_ATTEMPTS:
            await asyncio.sleep(0)
            popped = await connection.response_limiter.run(self._popping.pop(header, topic, match))
            attempts += 1
        if popped.buffers:
            if popped.rest > 0:
                self._waiting.notify(header.topic, header.consumer_group)
            _send(request, connection, response_to(request, 0, "FOUND", _ext(popped, header)), popped.buffers)
            return None
        code = self._hold(request, connection, header, popped, lambda: self._retry_pop(request, connection, header))
        if code is None:
            return None
        remark = TOO_MANY if code == POLLING_FULL else "NO_MESSAGE_IN_QUEUE"
        return response_to(request, code, remark, _ext(popped, header))

    def _hold(
        self, request: Command, connection: Connection, header: PopRequest, popped: PopOutcome, wake: Callable[[], None]
    ) -> int | None:
        """Hold a pop until messages arrive. Return the response code if it cannot be held, else None."""
        now_ms = self._clock.now_ms()
        left_ms = header.born_time + header.poll_time - now_ms
        if header.poll_time <= 0 or left_ms <= NEARLY_MS or self._waiting.closed:
            return POLLING_TIMEOUT
        seconds = min(left_ms / 1000, LONGEST_S)
        topic = self._broker.topics.get(header.topic)
        arrived = topic is not None and self._popping.has_message(
            header.consumer_group, topic, header.queue_id, header.attempt_id, order=False
        )  # a message may have arrived in a queue that was read before the last one
        if popped.busy or popped.rest > 0 or (arrived and not header.order):
            seconds = min(seconds, SOON_S)
        if popped.free_at_ms is not None:
            seconds = min(seconds, max(popped.free_at_ms - now_ms, 1) / 1000)
        place = PollingKey(header.topic, header.consumer_group, header.queue_id)
        return None if self._waiting.wait(place, connection, seconds, wake) else POLLING_FULL

    def _retry_pop(self, request: Command, connection: Connection, header: PopRequest) -> None:
        async def try_again() -> Command | None:
            topic = self._checks.checked_topic(header.topic, header.queue_id)
            self._checks.check_group(header.consumer_group)
            return await self._try_pop(request, connection, header, topic, self._checks.filter(header))

        self._serve_later(request, connection, try_again())

    def _notified(
        self, request: Command, connection: Connection, header: NotificationRequest, topic: TopicConfig
    ) -> Command | None:
        group, order = header.consumer_group, header.order
        found = self._popping.has_message(group, topic, header.queue_id, header.attempt_id, order=order)
        ext = {"hasMsg": "true" if found else "false"}
        left_ms = header.born_time + header.poll_time - self._clock.now_ms()
        if not found and header.poll_time > 0 and left_ms > NEARLY_MS and not self._waiting.closed:

            async def again() -> Command | None:
                return self._notified(
                    request, connection, header, self._checks.checked_topic(header.topic, header.queue_id)
                )

            place = PollingKey(header.topic, group, header.queue_id)
            seconds = min(left_ms / 1000, LONGEST_S)
            if self._waiting.wait(place, connection, seconds, lambda: self._serve_later(request, connection, again())):
                return None
            ext["pollingFull"] = "true"
        if found:
            self._waiting.notify(header.topic, group)  # another pop may wait for the same messages
        return response_to(request, 0, None, ext)

    def _serve_later(
        self, request: Command, connection: Connection, serving: Coroutine[Any, Any, Command | None]
    ) -> None:
        """Answer a held request."""

        async def serve() -> None:
            try:
                answer = await serving
            except GantryError as error:
                answer = response_to(request, error.response_code, str(error))
            except Exception:
                log.exception("a pop that waited failed")
                answer = response_to(request, 1, str(ServerFault()))
            if answer is not None and not connection.closed:
                connection.reply(request, answer)

        task = asyncio.get_running_loop().create_task(serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer all held requests."""
        self._waiting.close()
        while self._tasks:
            await asyncio.wait(list(self._tasks))


def _ext(popped: PopOutcome, header: PopRequest) -> dict[str, str]:
    ext = {
        "popTime": str(popped.pop_time),
        "invisibleTime": str(header.invisible_time),
        "reviveQid": str(popped.revive_queue),
        "restNum": str(popped.rest),
        "startOffsetInfo": popped.start_offsets,
        "msgOffsetInfo": popped.message_offsets,
    }
    if popped.order_counts is not None:
        ext["orderCountInfo"] = popped.order_counts
    return ext


def _send(request: Command, connection: Connection, answer: Command, buffers: Any) -> None:
    """Send a response with records; if the client is gone, they are redelivered after their invisible time."""
    if connection.closed or request.is_oneway:
        return
    size = sum(map(len, buffers))
    connection.reply_parts([encode_head(answer, size), *buffers])
