"""Sends one message: room at its broker, attempts, pauses.

    choose a queue -> wait for room at its broker -> write, and wait for the response -> done, or retry (see `retries`)

The timeout of a send starts when its first request is written and is suspended while it waits for room. A send that
pauses keeps its room, so that waiting sends do not all repeat an attempt that is failing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import attrs

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.sending.encoded_message import Compressor, EncodedMessage, compressed
from gantrymq.client.sending.latency_faults import FaultDetector, LatencyFaults
from gantrymq.client.sending.producer_settings import SEND_TIMEOUT_S, ProducerSettings
from gantrymq.client.sending.results import SendFailed, SendResult, read_send_reply
from gantrymq.client.sending.retries import FAILURES, LEAST_LEFT_S, RetryPolicy, SendRetries
from gantrymq.client.sending.selection import BatchQueueCache, QueueSelection
from gantrymq.client.sending.selectors import Balancing
from gantrymq.client.sending.send_requests import ProducerFields, send_request
from gantrymq.client.sending.send_window import SendWindow
from gantrymq.errors import CallTimeout, ClientError, InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq.world import Clock, Workers
from gantrymq.world.clock import TimeSlices

_RENEW_TIMEOUT_S: Final = 1.0  # limit for a route refresh between the attempts of a send
_IN_THREAD_BYTES: Final = (
    64 * 1024
)  # bodies from this size are compressed in a thread: 24 ms per MB would block the loop
_ONEWAYS_TOGETHER: Final = 64  # sends between two yields to the event loop


@attrs.define  # not frozen, which would triple the construction time
class Submission:
    """A message or batch to send, encoded when its turn comes. Do not modify."""

    topic: str
    size: int  # bytes of the body before compression
    make: Callable[[], EncodedMessage]
    compressor: Compressor | None = None  # for its body


class MessageSender:
    """Sends messages for one producer, from its start to its close."""

    def __init__(
        self,
        instance: ClientInstance,
        producer: ProducerFields,
        settings: ProducerSettings,
        dropped: Callable[[], object],
    ) -> None:
        """*dropped* is called for an accepted oneway message that could not be written."""
        self._instance = instance
        self._clock = instance.world.clock
        self._producer = producer
        self._settings = settings
        self._dropped = dropped
        faults = LatencyFaults(detecting=settings.detect_faults) if settings.latency_fault_tolerance else None
        self._choice = QueueSelection(self._clock, instance.world.random, self._sends_at, faults)
        self._detector = FaultDetector(instance, faults) if faults is not None and settings.detect_faults else None
        self.batch_queues = BatchQueueCache(instance)
        self._windows: dict[str, SendWindow] = {}  # by name of a broker
        self._pace = TimeSlices(self._clock, _ONEWAYS_TOGETHER)
        self._renewals: dict[str, asyncio.Task[None]] = {}  # of routes, by topic
        self._ended = False

    def end(self) -> None:
        """Start no further attempt."""
        self._ended = True
        self.batch_queues.end()
        for job in self._renewals.values():
            job.cancel()
        if self._detector is not None:
            self._detector.end()

    async def queues(self, topic: str, timeout_s: float = SEND_TIMEOUT_S) -> tuple[MessageQueue, ...]:
        """Return the queues to send to, see `RouteCache.publish_queues`."""
        producer = self._producer
        return await self._instance.routes.publish_queues(
            topic, producer.default_topic, producer.default_topic_queues, min(timeout_s, SEND_TIMEOUT_S)
        )

    def queues_known(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the cached queues to send to; empty before `queues`."""
        return self._instance.routes.queues_known(topic)

    async def send(
        self,
        submission: Submission,
        queue: MessageQueue | None,
        timeout_s: float,
        policy: RetryPolicy,
        balancing: Balancing = Balancing.ROUND_ROBIN,
    ) -> SendResult:
        """Send and wait until the message is stored. Errors as `Producer.send`."""
        if queue is None:
            if not self.queues_known(submission.topic):
                await self.queues(submission.topic, timeout_s)  # a missing route does not count as a failed attempt
        elif queue.topic != submission.topic:
            raise _wrong_queue(queue, submission.topic)
        retries, state = SendRetries(policy), _SendState(submission, self._clock, timeout_s)
        result: SendResult | None = None
        try:
            again = True
            while again:
                broker_name = ""
                try:
                    chosen = queue or self._choice.choose(
                        submission.topic,
                        self.queues_known(submission.topic) or await self.queues(submission.topic),
                        balancing,
                        retries.avoid,
                        again=retries.last is not None,
                    )
                    broker_name = chosen.broker_name
                    retries.brokers += (broker_name,)
                    limit_s = None if retries.last_attempt else self._settings.attempt_timeout_s
                    left_s = await state.enter(self._window(broker_name), limit_s, finished=retries.answered)
                    self._check_open()
                    encoded = state.encode_now() or await state.encoded(self._instance.world.workers)
                    result = await self._attempt(encoded, chosen, left_s)
                    if result.ok or not self._settings.retry_not_stored:
                        return result
                    again = retries.less_safe(broker_name)
                except FAILURES as error:
                    if self._choice.listens:
                        self._choice.failed(broker_name, error)
                    again = retries.failed(broker_name, error)
                again = again and await self._pause(submission.topic, queue, state, retries)
            if result is not None:
                return result
            if isinstance(retries.last, CallTimeout):
                self._renew_soon(submission.topic)
            if retries.last is not None and (retries.decided or queue is not None):
                raise retries.last
            raise SendFailed.after(submission.topic, retries.brokers, retries.last, timeout_s) from retries.last
        finally:
            state.leave(finished=result is not None or retries.answered)

    async def oneway(
        self,
        submission: Submission,
        queue: MessageQueue | None,
        timeout_s: float,
        balancing: Balancing = Balancing.ROUND_ROBIN,
    ) -> None:
        """Hand the message to a connection. Errors as `Producer.send_oneway`."""
        topic, instance = submission.topic, self._instance
        if queue is None:
            queue = self._choice.choose(topic, await self.queues(topic, timeout_s), balancing)
        elif queue.topic != topic:
            raise _wrong_queue(queue, topic)
        address = await self._address(queue)
        encoded = await _encode(submission, instance.world.workers)
        request = send_request(encoded, queue, self._producer, self._clock.now_ms(), oneway=True)
        await instance.rpc.oneway(address, request, timeout_s, self._dropped)
        await self._pace.item_done()

    async def _attempt(self, encoded: EncodedMessage, queue: MessageQueue, timeout_s: float) -> SendResult:
        address = self._instance.routes.master(queue.broker_name) or await self._address(queue)
        request = send_request(encoded, queue, self._producer, self._clock.now_ms())
        if not self._choice.listens:
            reply = await self._instance.rpc.send(address, request, timeout_s)
            return read_send_reply(reply, address, queue, encoded.unique_ids)
        begun = self._clock.monotonic()
        reply = await self._instance.rpc.send(address, request, timeout_s)
        result = read_send_reply(reply, address, queue, encoded.unique_ids)
        self._choice.answered(queue.broker_name, self._clock.monotonic() - begun)
        return result

    async def _pause(self, topic: str, queue: MessageQueue | None, state: _SendState, retries: SendRetries) -> bool:
        """Pause if the next attempt would come too soon; return False if no time is left for it."""
        self._check_open()
        routes = self._instance.routes
        left_s = state.left_s()
        queues = routes.queues_known(topic) if queue is None else (queue,)
        pause_s = retries.pause_s({each.broker_name for each in queues}, left_s, self._instance.world.random)
        if pause_s > 0 and left_s > LEAST_LEFT_S:
            await self._clock.sleep(pause_s)
            self._check_open()
            await routes.renew(topic, min(left_s, _RENEW_TIMEOUT_S))
        return state.left_s() > LEAST_LEFT_S

    def _renew_soon(self, topic: str) -> None:
        """Look for another master before the next send: one that is suspended or cut off keeps its connections."""
        if not self._ended and topic not in self._renewals:
            job = self._renewals[topic] = self._instance.job(self._instance.routes.renew(topic, _RENEW_TIMEOUT_S))
            job.add_done_callback(lambda _: self._renewals.pop(topic))

    async def _address(self, queue: MessageQueue) -> str:
        routes = self._instance.routes
        return routes.master(queue.broker_name) or await routes.find_broker(queue.topic, queue.broker_name)

    def _sends_at(self, broker_name: str) -> int:
        window = self._windows.get(broker_name)
        return window.sends if window is not None else 0

    def _check_open(self) -> None:
        if self._ended:
            raise ClientError("this Producer was closed before the message was sent")

    def _window(self, broker_name: str) -> SendWindow:
        window = self._windows.get(broker_name)
        if window is None:
            most, most_bytes = self._settings.max_under_way, self._settings.max_under_way_bytes
            window = self._windows[broker_name] = SendWindow(self._clock, broker_name, most, most_bytes)
        return window


class _SendState:
    """State of one send: its room in a window, its deadline, its encoded message."""

    __slots__ = ("_clock", "_deadline", "_encoded", "_submission", "_timeout_s", "_window")

    def __init__(self, submission: Submission, clock: Clock, timeout_s: float) -> None:
        self._submission = submission
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline: float | None = None  # set when it is first admitted
        self._window: SendWindow | None = None
        self._encoded: EncodedMessage | None = None

    def left_s(self) -> float:
        """Return the seconds until the deadline."""
        return self._timeout_s if self._deadline is None else self._deadline - self._clock.monotonic()

    def encode_now(self) -> EncodedMessage | None:
        """Return the encoded message, or None if encoding takes a while."""
        if self._encoded is None and self._submission.compressor is None:
            self._encoded = self._submission.make()
        return self._encoded

    async def encoded(self, workers: Workers) -> EncodedMessage:
        """Return the encoded message, as every attempt sends it."""
        if self._encoded is None:
            self._encoded = await _encode(self._submission, workers)
        return self._encoded

    async def enter(self, window: SendWindow, limit_s: float | None, *, finished: bool) -> float:
        """Wait for room at a broker and return the seconds of the attempt; *finished* as in `leave`.

        Raises:
            CallTimeout: no room; without a limit the deadline has passed too.
        """
        left_s = self.left_s()
        if limit_s is not None:
            left_s = min(left_s, limit_s)
        if window is not self._window:
            self.leave(finished=finished)
            if not window.take(self._submission.size):
                joined = self._clock.monotonic()
                try:
                    await window.wait(self._submission.size, left_s)
                except CallTimeout:
                    if limit_s is None:
                        self._deadline = joined
                    raise
                if self._deadline is not None:
                    self._deadline += self._clock.monotonic() - joined
            self._window = window
        if self._deadline is None:
            self._deadline = self._clock.monotonic() + self._timeout_s
        return left_s

    def leave(self, *, finished: bool) -> None:
        """Release the room, if any; *finished* if the broker has answered the send."""
        window, self._window = self._window, None
        if window is not None:
            window.leave(self._submission.size, finished=finished)


async def _encode(submission: Submission, workers: Workers) -> EncodedMessage:
    """Encode the message; a large body is compressed in a thread."""
    encoded = submission.make()
    if submission.compressor is None:
        return encoded
    if submission.size < _IN_THREAD_BYTES:
        return compressed(encoded, submission.compressor)
    return await workers.run(compressed, encoded, submission.compressor)


def _wrong_queue(queue: MessageQueue, topic: str) -> InvalidParameter:
    return InvalidParameter(f"the message is for topic {topic}, the queue given is one of {queue.topic}")
