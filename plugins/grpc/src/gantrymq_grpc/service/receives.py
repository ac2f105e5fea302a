"""Receives: pops whose messages are written to a stream.

    status, a message each, delivery_timestamp      messages were found
    status 40401, delivery_timestamp                none in time, or all were filtered

A receive is held by the broker's own long polling. A message is released once it is written; those of a large answer
are read again when their turn comes, one at a time, so that clients that do not read hold none in memory. Messages that
the client did not receive, because it or its connection was gone before the end of the answer, come again after a
second. The others are renewed for push consumers.

Source: apache/rocketmq proxy/.../grpc/v2/consumer/ReceiveMessageActivity.java, ReceiveMessageResponseStreamWriter.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from gantrymq.errors import GantryError
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import (
    Broker,
    LocalClient,
    PopAck,
    PopAnswer,
    PopRequest,
)
from gantrymq.plugin.model import ALL, SQL92, TAG, GroupConfig, Receipt
from gantrymq.plugin.properties import LITE_TOPIC, TAGS
from gantrymq_grpc.conversion.codes import Refused, ok
from gantrymq_grpc.conversion.messages import write_message
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.conversion.times import duration_ms
from gantrymq_grpc.definitions import (
    Code,
    FilterExpression,
    FilterType,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Settings,
    Status,
)
from gantrymq_grpc.service.acks import check_longest
from gantrymq_grpc.service.bodies import plain_body
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.client import PUSH_CONSUMERS
from gantrymq_grpc.service.clients import GrpcClients
from gantrymq_grpc.service.deliveries import Deliveries, Delivery
from gantrymq_grpc.service.others import OtherBrokers
from gantrymq_grpc.service.renewing import Renewing
from gantrymq_grpc.settings import ReceiveLimits
from gantrymq_grpc.transport.call import Call

log = logging.getLogger("gantrymq.grpc")

_FROM_END: Final = 1  # init mode MAX: a new group starts at the end
_RENEWED_MS: Final = 60_000  # invisible time of messages that are renewed, whatever the request says
_MOST_POLLING_MS: Final = 20_000
_REQUEST_TIMEOUT_MS: Final = 3_000  # of clients without settings
_SEVERAL_BROKERS_MS: Final = 5_000  # longest wait of a simple consumer that has other brokers to ask
_MOST_MESSAGES: Final = 32
_KEPT_BYTES: Final = 256 * 1024  # of popped messages in memory; those of larger answers are read again
_FOUND: Final = 0
_POLLING_FULL: Final = 209
_TOO_LATE: Final = "The deadline time remaining is not enough for polling, please check network condition"


class _Wanted(NamedTuple):
    """A checked request."""

    pop: PopRequest
    group: GroupConfig
    tags: frozenset[str]  # empty: any
    is_renewed: bool
    is_lite: bool  # of lite topics, in whose queues messages have other offsets


class _Named(NamedTuple):
    """A message, without its record."""

    receipt: Receipt
    attempt: int
    lite_topic: str  # empty: of no lite topic


class _Popped(NamedTuple):
    """A message that is to be written."""

    named: _Named
    record: RecordView | None  # None: it is read again


class Receives:
    """The receives of one broker."""

    def __init__(
        self,
        broker: Broker,
        deliveries: Deliveries,
        clients: GrpcClients,
        renewing: Renewing,
        others: OtherBrokers,
        learn: Callable[[str, str], Awaitable[None]],
        limits: ReceiveLimits,
    ) -> None:
        """*learn* is told topic and listener, so that *others* knows the other brokers of the topic."""
        self._broker = broker
        self._deliveries = deliveries
        self._clients = clients
        self._renewing = renewing
        self._others = others
        self._learn = learn
        self._limits = limits
        self._clock = broker.world.clock
        self._large = asyncio.Lock()  # messages that are read again take turns

    async def receive(self, request: ReceiveMessageRequest, caller: Caller) -> Code:
        """Answer a receive except for its last message. Return the code of the answer.

        Raises:
            Refused: the request is not legal.
            GantryError: the broker refuses the pop.
            ConnectionLost: the client is gone.
        """
        if not request.auto_renew:
            await self._learn(request.message_queue.topic.name, caller.call.listener)
        wanted = self._wanted(request, caller)
        answer = await self._popped(wanted.pop, caller)
        if answer.code == _POLLING_FULL:
            return await _nothing(caller, Code.TOO_MANY_REQUESTS, answer.remark)
        if answer.code != _FOUND:
            return await _nothing(caller, Code.MESSAGE_NOT_FOUND, "no new message")
        left = deque(_popped(wanted, answer))
        del answer  # it refers to the records
        written: list[_Named] = []
        caller.call.on_received(partial(self._received, wanted, written, caller.client_id))
        try:
            while left:
                if await self._put(wanted, left[0], caller.call, is_first=not written):
                    await caller.call.drained()
                    written.append(left[0].named)
                left.popleft()
        finally:
            self._give_back(wanted, [each.named for each in left])
        if not written:
            return await _nothing(caller, Code.MESSAGE_NOT_FOUND, "no match message")
        return Code.OK

    # --- checks -----------------------------------------------------------------------------------------------------

    def _wanted(self, request: ReceiveMessageRequest, caller: Caller) -> _Wanted:
        """Check a request, in RocketMQ's order."""
        queue = request.message_queue
        client = self._clients.get(caller)
        settings = None if client is None else client.settings
        polling_ms = self._polling_ms(request, caller, settings)
        topic, group = topic_of(queue.topic), group_of(request.group)
        invisible_ms = _RENEWED_MS if request.auto_renew else self._invisible_ms(request)
        expression, kind, tags = _filter(request.filter_expression)
        self._others.check(queue.broker.name, caller.call.listener, Code.BAD_REQUEST)
        config = self._broker.groups.require(group)
        is_lite = self._deliveries.are_lite(group, settings)
        if is_lite and kind == SQL92:
            raise Refused(
                Code.ILLEGAL_FILTER_EXPRESSION,
                f"group {group} consumes lite topics, which are not filtered by SQL; use a tag expression, or *",
            )
        is_push = request.auto_renew or (settings is not None and settings.client_type in PUSH_CONSUMERS)
        if not is_push and self._others.have(topic):
            polling_ms = min(polling_ms, _SEVERAL_BROKERS_MS)
        pop = PopRequest(
            group,
            topic,
            # A simple consumer asks for one queue after the other, whichever has messages.
            queue.id if config.consume_message_orderly and is_push else -1,
            min(max(request.batch_size, 1), _MOST_MESSAGES),
            invisible_ms,
            polling_ms,
            init_mode=_FROM_END,
            expression=expression,
            expression_type=kind,
            order=config.consume_message_orderly,
            attempt_id=request.attempt_id if request.HasField("attempt_id") else None,
            principal=caller.principal,
        )
        return _Wanted(pop, config, tags, request.auto_renew, is_lite)

    def _polling_ms(self, request: ReceiveMessageRequest, caller: Caller, settings: Settings | None) -> int:
        """Return how long a receive may wait. Raises Refused if the deadline of the call is too near."""
        deadline = caller.call.deadline
        left_ms = None if deadline is None else int((deadline - self._clock.monotonic()) * 1000)
        if request.HasField("long_polling_timeout"):
            asked_ms = duration_ms(request.long_polling_timeout, "long_polling_timeout", Code.ILLEGAL_POLLING_TIME)
        elif left_ms is not None:
            timeout = None if settings is None or not settings.HasField("request_timeout") else settings.request_timeout
            timeout_ms = duration_ms(timeout, "request_timeout", Code.BAD_REQUEST) if timeout else _REQUEST_TIMEOUT_MS
            asked_ms = left_ms - timeout_ms // 2
        else:
            asked_ms = _MOST_POLLING_MS
        polling_ms = min(max(asked_ms, self._limits.least_polling_ms), _MOST_POLLING_MS)
        if left_ms is None or polling_ms <= left_ms:
            return polling_ms
        if left_ms < self._limits.least_polling_ms:
            # Older clients do not know the code. Versions are compared as texts, as RocketMQ does.
            known = caller.version >= "5.0.3"
            raise Refused(Code.ILLEGAL_POLLING_TIME if known else Code.BAD_REQUEST, _TOO_LATE)
        return left_ms

    def _invisible_ms(self, request: ReceiveMessageRequest) -> int:
        asked_ms = duration_ms(request.invisible_duration, "invisible_duration", Code.ILLEGAL_INVISIBLE_TIME)
        if asked_ms < self._limits.least_invisible_ms:
            text = f"the invisibleTime is too small. min is {self._limits.least_invisible_ms}"
            raise Refused(Code.ILLEGAL_INVISIBLE_TIME, text)
        check_longest(asked_ms)
        return asked_ms

    # --- messages ---------------------------------------------------------------------------------------------------

    async def _popped(self, request: PopRequest, caller: Caller) -> PopAnswer:
        """Pop messages. If the client goes away meanwhile, those that are popped nevertheless are given back."""
        call = caller.call
        channel = LocalClient(call.peer, listener=call.listener, certificate=call.certificate, encrypted=call.encrypted)

        def gone(call: Call) -> None:
            channel.close()
            self._broker.clients.gone(channel)

        call.on_close(gone)
        return await self._deliveries.receive(request, caller.client_id, channel)

    def _give_back(self, wanted: _Wanted, messages: Sequence[_Named]) -> None:
        """Make messages that the client did not receive visible again soon."""
        try:
            self._deliveries.give_back([self._delivery(wanted, each) for each in messages])
        except GantryError as error:
            log.info("%d messages of %s come again when their time is over: %s", len(messages), wanted.pop.topic, error)

    def _received(self, wanted: _Wanted, messages: Sequence[_Named], client_id: str, is_received: bool) -> None:
        """Renew *messages* from now on if the client needs that, or give them back if it has not received them."""
        if not is_received:
            self._give_back(wanted, messages)
        elif wanted.is_renewed:
            self._keep(wanted, messages, client_id)

    async def _put(self, wanted: _Wanted, message: _Popped, call: Call, *, is_first: bool) -> bool:
        """Begin to write a message, unless it is not for the client. Return whether it is."""
        named, record = message
        await call.room()
        if record is not None:
            return await self._put_record(wanted, named, record, call, is_first=is_first)
        while True:
            async with self._large:
                if not call.is_crowded:
                    try:
                        record = await self._broker.messages.view(named.receipt.log_offset or 0)
                    except GantryError as error:
                        log.warning("a message of %s cannot be read again: %s", wanted.pop.topic, error)
                        return False
                    return await self._put_record(wanted, named, record, call, is_first=is_first)
            await call.room()

    async def _put_record(
        self, wanted: _Wanted, message: _Named, record: RecordView, call: Call, *, is_first: bool
    ) -> bool:
        if await self._is_settled(wanted, message, record):
            return False
        response = await self._response(wanted, message, record)
        if is_first:
            call.put(ReceiveMessageResponse(status=ok()))
        call.put(response)
        return True

    async def _is_settled(self, wanted: _Wanted, message: _Named, record: RecordView) -> bool:
        """Return whether a message is not for the client: its tag differs, or it was delivered too often.

        Tags are selected by their hashes in the store, so other tags may have the same one. The message is
        acknowledged, or forwarded to the dead letters. If that fails, it comes again when its invisible time is over.
        """
        delivery = self._delivery(wanted, message)
        try:
            if wanted.tags and record.properties.get(TAGS) not in wanted.tags:
                await delivery.ack()
                return True
            if message.attempt > max(wanted.group.retry_max_times, 0) + 1:
                await delivery.forward_to_dead_letters(record.log_offset)
                return True
        except GantryError as error:
            log.warning("message %s of %s could not be settled: %s", message.receipt, wanted.pop.topic, error)
            # It must not be renewed with the others of its pop.
            with suppress(GantryError):
                await delivery.change_invisible_time(wanted.pop.invisible_ms)
            return True
        return False

    async def _response(self, wanted: _Wanted, message: _Named, record: RecordView) -> ReceiveMessageResponse:
        body = await plain_body(record, self._broker.world.workers)
        response = ReceiveMessageResponse()
        write_message(
            response.message,
            record,
            body,
            topic=wanted.pop.topic,
            attempt=message.attempt,
            receipt_handle=str(message.receipt),
        )
        if wanted.is_lite:
            response.message.system_properties.queue_offset = message.receipt.queue_offset
        return response

    def _keep(self, wanted: _Wanted, messages: Sequence[_Named], client_id: str) -> None:
        """Renew the pops of messages from now on, by the first message of each queue."""
        seen = set()
        for message in messages:
            receipt, attempt, lite_topic = message
            ack = PopAck.of(wanted.pop.group, wanted.pop.topic, receipt, wanted.pop.principal)
            place = ack.topic, lite_topic, ack.queue_id, receipt.start_offset
            if place not in seen:
                seen.add(place)
                self._renewing.keep(client_id, ack, attempt, receipt.pop_ms, receipt.invisible_ms, lite_topic)

    def _delivery(self, wanted: _Wanted, message: _Named) -> Delivery[Any]:
        pop = wanted.pop
        return self._deliveries.of(pop.group, pop.topic, message.receipt, pop.principal, message.lite_topic)


def _popped(wanted: _Wanted, answer: PopAnswer) -> Iterator[_Popped]:
    """Yield the messages of an answer, without their records if it is large."""
    kept = sum(map(len, answer.buffers)) <= _KEPT_BYTES
    for receipt, record, deliveries in answer.messages():
        lite_topic = record.properties.get(LITE_TOPIC, "") if wanted.is_lite else ""
        yield _Popped(_Named(receipt, deliveries + 1, lite_topic), record if kept else None)


def _filter(wanted: FilterExpression) -> tuple[str, str, frozenset[str]]:
    """Return expression, type, and the tags of a TAG expression that selects some."""
    expression = wanted.expression.strip() or ALL
    if wanted.type == FilterType.SQL:
        return expression, SQL92, frozenset()
    if expression == ALL:
        return expression, TAG, frozenset()
    tags = frozenset(filter(None, (each.strip() for each in expression.split("||"))))
    if not tags:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, f"the tag expression {expression[:80]!r} names no tag")
    return expression, TAG, tags


async def _nothing(caller: Caller, code: Code, text: str) -> Code:
    await caller.call.send(ReceiveMessageResponse(status=Status(code=code, message=text)))
    return code
