"""Requests about popped messages, by receipt handle: 200051, 200053, 200056 and 200151.

Those that name a lite topic (field liteTopic of RocketMQ 5.5.0) are for the service ``lite``.

Source: apache/rocketmq broker/.../processor/AckMessageProcessor.java, ChangeInvisibleTimeProcessor.java.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Coroutine, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gantrymq.errors import FormatError, GantryError, MessageIllegal, PoppedMessageGone, ReceiptIllegal
from gantrymq.plugin.interfaces import Bounds, Broker, InvisibleTime, LiteMessage, LiteService, PopAck
from gantrymq.plugin.loose_json import INT64, number_in, objects_in, text_in
from gantrymq.plugin.model import (
    KINDS,
    POP_ORDER_REVIVE_QUEUE,
    Action,
    Queue,
    Receipt,
    read_receipt,
    topic_of_kind,
)
from gantrymq.plugin.remoting import Command, Connection, RequestCode, in_operation, object_body_of, response_to, serves
from gantrymq.plugin.world import TimeSlices, resolve_future
from gantrymq_pop.acknowledger import AckCallback, Acknowledger, WaitingRequest, answer_all, checked_queue
from gantrymq_pop.checkpoints import MOST, CheckpointKey
from gantrymq_pop.headers import AckRequest, ChangeRequest, ack_of
from gantrymq_pop.operations import check_invisible
from gantrymq_pop.revive import PendingCheckpoint
from gantrymq_pop.revive_log import ReviveLog

log = logging.getLogger(__name__)
_POPS = 1024  # cached handles; the handles of one pop differ only in the message's offset

_MAX_BIT_SET_BYTES: Final = 65536  # per batch entry: 524,288 queue entries, more than one filtered pop reads
_ENTRIES_TOGETHER: Final = 64  # batch entries before the event loop is yielded
_SHORT: Final = {  # short names of the members of a batch entry; the long names are accepted too
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}
_GIVEN_BACK_MS: Final = 1000  # invisibleTimeMillisWhenClear of RocketMQ's proxy
_NOT_ZERO: Final = re.compile(rb"[^\0]")


class AckRequests:
    """Handlers of these requests."""

    def __init__(self, broker: Broker, broker_name: str, acking: Acknowledger, revive: ReviveLog) -> None:
        self._broker = broker
        self._broker_name = broker_name
        self._acking = acking
        self._revive = revive
        self._pop = lru_cache(_POPS)(self._read_pop)

    @serves(RequestCode.ACK_MESSAGE, access=in_operation)
    def acknowledge(self, request: Command, connection: Connection) -> Coroutine[Any, Any, Command] | None:
        """Answer request 200051: acknowledge one message."""
        if request.ext is not None and request.ext.get("liteTopic"):
            return self._acknowledge_lite(request, connection)
        self.start_ack(PopAck(*ack_of(request.ext), connection.principal), (request, connection))
        return None

    def acknowledge_together(self, requests: Sequence[Command], begin: int, connection: Connection) -> int:
        """Serve requests 200051 from index *begin* on, as `acknowledge` does, and return their number.

        Stops before the first one that does not acknowledge an unacknowledged message of a pending checkpoint, or whose
        sender is known. Clients acknowledge the messages of a pop one after the other, so the checks of the checkpoint
        are done once for all of them.
        """
        if connection.principal is not None:
            return 0
        index = begin
        while index < len(requests):
            pop = _named_pop(requests[index])
            if pop is None or (opened := self._open_pop(pop)) is None:
                break
            key, revive_queue, pending, bounds = opened
            low, high, left = bounds.min_offset, bounds.max_offset, pending.left
            offsets: list[int] = []
            for asked in requests[index:]:
                offset = _offset_of(asked, pop)
                if offset not in left or not low <= offset <= high:
                    break
                offsets.append(offset)
            if not offsets:
                break
            end = index + len(offsets)
            answered = [(asked, connection) for asked in requests[index:end]]
            self._acking.acknowledge_pending(revive_queue, key, pending, offsets, answered)
            index = end
        return index - begin

    def _open_pop(self, pop: _NamedPop) -> tuple[CheckpointKey, int, PendingCheckpoint, Bounds] | None:
        """Return the pending checkpoint of a pop and the bounds of its queue; None if a check fails."""
        queue_id = int(pop.queue_id)
        topic = self._broker.topics.get(pop.topic)
        if topic is None or queue_id >= topic.read_queues:
            return None
        try:
            key, handle = self._pop(pop.topic, pop.group, queue_id, pop.handle)
        except ReceiptIllegal:
            return None
        if handle.revive_queue == POP_ORDER_REVIVE_QUEUE:
            return None
        pending = self._revive.pending(handle.revive_queue, key)
        if pending is None:
            return None
        return key, handle.revive_queue, pending, self._broker.store.bounds(Queue(pop.topic, queue_id))

    async def _acknowledge_lite(self, request: Command, connection: Connection) -> Command:
        header = AckRequest.from_ext(request.ext)
        group, topic, lite_topic = header.consumer_group, header.topic, header.lite_topic
        handle = self._handle(header.extra_info)._replace(queue_offset=header.offset)
        await self._lite().ack(LiteMessage(group, topic, lite_topic, handle, connection.principal))
        return response_to(request)

    def _lite(self) -> LiteService:
        found: LiteService = self._broker.service("lite")
        return found

    def start_ack(self, message: PopAck, answered: WaitingRequest | AckCallback) -> None:
        """Acknowledge one message; *answered* is answered, or called, once this is stored. Raises as `ack`."""
        group, topic, queue_id, offset, text, principal = message
        if principal is not None:
            self._broker.access.check_consumer(principal, group, topic)
        checked_queue(self._broker, topic, queue_id, offset, to_end=True)
        shared, _, own = text.rpartition(" ")  # the handles of a pop are equal except for this offset
        whole = text if text.count(" ") != 7 or not own.isdecimal() else shared
        try:
            key, handle = self._pop(topic, group, queue_id, whole)
        except ReceiptIllegal:
            self._handle(text)  # raises the error with the original text
            raise
        self._acking.acknowledge(key, handle, (offset,), answered)

    async def ack(self, message: PopAck) -> None:
        """Acknowledge one message (`gantrymq.interfaces.PopService.ack`)."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        settle = resolve_future(stored)
        self.start_ack(message, lambda problem: settle(None, problem))
        await stored

    @serves(RequestCode.BATCH_ACK_MESSAGE, access=in_operation)
    async def acknowledge_many(self, request: Command, connection: Connection) -> None:
        """Answer request 200151: acknowledge messages of several pops.

        An invalid entry does not affect the others; the first error is the answer.
        """
        principal = connection.principal
        body = object_body_of(request) if request.body else {}
        broker_name, acks = text_in(body, "brokerName", ""), objects_in(body, "acks")
        if not acks:
            raise PoppedMessageGone("BATCH_ACK_MESSAGE: the list of acknowledgements (acks) is empty; name one or more")
        left = len(acks)
        first: GantryError | None = None

        def answered(problem: GantryError | None) -> None:
            nonlocal left, first
            left -= 1
            first = first or problem
            if left == 0:
                answer_all([(request, connection)], first)

        slices = TimeSlices(self._broker.world.clock, _ENTRIES_TOGETHER)
        for each in acks:
            try:
                key, handle, offsets = self._batch_ack(broker_name, each)
                self._broker.access.check_consumer(principal, key.group, key.topic)
                self._acking.acknowledge(key, handle, offsets, answered)
            except GantryError as error:
                answered(error)
            await slices.item_done()

    @serves(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, access=in_operation)
    async def change(self, request: Command, connection: Connection) -> Command:
        """Answer request 200053: change the invisible time of a message."""
        header, principal = ChangeRequest.from_ext(request.ext), connection.principal
        group, topic = header.consumer_group, header.topic
        if header.lite_topic:
            handle = self._handle(header.extra_info)._replace(queue_offset=header.offset)
            named = LiteMessage(group, topic, header.lite_topic, handle, principal)
            changed = await self._lite().change_invisible_time(named, header.invisible_time)
        else:
            message = PopAck(group, topic, header.queue_id, header.offset, header.extra_info, principal)
            changed = await self.change_invisible_time(message, header.invisible_time)
        ext = {
            "popTime": str(changed.pop_ms),
            "invisibleTime": str(changed.invisible_ms),
            "reviveQid": str(changed.revive_queue),
        }
        return response_to(request, 0, None, ext)

    async def change_invisible_time(self, message: PopAck, invisible_ms: int) -> InvisibleTime:
        """Change the invisible time of a message (`gantrymq.interfaces.PopService.change_invisible_time`)."""
        group, topic, queue_id, offset, text, principal = message
        self._broker.access.check_consumer(principal, group, topic)
        checked_queue(self._broker, topic, queue_id, offset, to_end=False)
        check_invisible(invisible_ms)
        handle = self._handle(text)
        key = _key(topic, group, queue_id, handle)
        changed = await self._acking.change(key, handle, offset, invisible_ms)
        return InvisibleTime(changed.pop_time, changed.invisible_ms, handle.revive_queue)

    def give_back(self, messages: Sequence[PopAck]) -> None:
        """Make messages visible again soon (`gantrymq.interfaces.PopService.give_back`)."""

        async def change_all() -> None:
            changes = (self.change_invisible_time(each, _GIVEN_BACK_MS) for each in messages)
            outcomes = await asyncio.gather(*changes, return_exceptions=True)
            failures = [each for each in outcomes if isinstance(each, BaseException)]
            if failures:
                log.warning(
                    "%d of %d messages could not be given back and come again after their invisible time: %s",
                    *(len(failures), len(messages), failures[0]),
                )

        if messages:
            self._acking.start_task(change_all())

    async def renew(self, message: PopAck, invisible_ms: int) -> list[int]:
        """Let the messages of a pop stay invisible (`gantrymq.interfaces.PopService.renew`)."""
        check_invisible(invisible_ms)
        handle = self._handle(message.receipt_handle)
        key = _key(message.topic, message.group, message.queue_id, handle)
        return await self._acking.renew(key, handle, invisible_ms)

    def is_delivered(self, message: PopAck) -> bool:
        """Return whether a message is invisible (`gantrymq.interfaces.PopService.is_delivered`)."""
        handle = self._handle(message.receipt_handle)
        key = _key(message.topic, message.group, message.queue_id, handle)
        return self._acking.is_delivered(key, handle._replace(queue_offset=message.queue_offset))

    @serves(RequestCode.POP_ROLLBACK, action=Action.UPDATE)
    def rollback(self, request: Command, connection: Connection) -> Command:
        """Answer request 200056, which moves pop state from RocksDB into the revive log; here it is always there."""
        return response_to(request)

    def _read_pop(self, topic: str, group: str, queue_id: int, text: str) -> tuple[CheckpointKey, Receipt]:
        """Return the checkpoint key of a handle, and the handle. Raises as `_handle`."""
        handle = self._handle(text)
        return _key(topic, group, queue_id, handle), handle

    def _handle(self, text: str) -> Receipt:
        """Parse a receipt handle. Raises ReceiptIllegal if it is malformed or belongs to another broker."""
        handle = read_receipt(text, queue_offset=0)  # requests name the offset in a field of its own
        queues = self._revive.queues
        if not (0 <= handle.revive_queue < queues or handle.revive_queue == POP_ORDER_REVIVE_QUEUE):
            raise ReceiptIllegal(
                f"the receipt handle {text[:80]!r} is not one of this broker's: its reviveQueueId "
                f"{handle.revive_queue} is none of 0 to {queues - 1} and {POP_ORDER_REVIVE_QUEUE}; pass on POP_CK as "
                "the message had it"
            )
        if not handle.broker_name.strip():
            return handle._replace(broker_name=self._broker_name)
        if handle.broker_name != self._broker_name:
            raise ReceiptIllegal(
                f"the receipt handle {text[:80]!r} is of broker {handle.broker_name[:80]}, and this is "
                f"{self._broker_name}; acknowledge where the message was popped"
            )
        return handle

    def _batch_ack(self, broker_name: str, members: dict[str, Any]) -> tuple[CheckpointKey, Receipt, tuple[int, ...]]:
        """Parse one entry of a batch: checkpoint key, handle and acknowledged offsets."""

        ack = {name: members.get(short, members.get(name)) for name, short in _SHORT.items()}
        try:
            group, named_topic = text_in(ack, "consumerGroup"), text_in(ack, "topic")
            kind = text_in(ack, "retry", "0")
            start, queue_id = number_in(ack, "startOffset", bounds=INT64), number_in(ack, "queueId")
            revive_queue, pop_time = number_in(ack, "reviveQueueId"), number_in(ack, "popTime", bounds=INT64)
            invisible_ms = number_in(ack, "invisibleTime", 0, INT64)
            bits = _bits_of(text_in(ack, "bitSet"))
        except FormatError as error:
            raise MessageIllegal(
                f"BATCH_ACK_MESSAGE: an acknowledgement cannot be read: {error}; write it as RocketMQ's client "
                "does (BatchAck)"
            ) from error
        if kind not in KINDS:
            raise MessageIllegal(f"BATCH_ACK_MESSAGE: {kind!r} is not a kind of topic; use 0, 1 or 2")
        handle = self._handle(f"{start} {pop_time} {invisible_ms} {revive_queue} {kind} {broker_name} {queue_id}")
        topic = topic_of_kind(named_topic, group, kind)
        checked_queue(self._broker, topic, queue_id, None, to_end=True)
        bounds = self._broker.store.bounds(Queue(topic, queue_id))
        offsets = tuple(each for each in _offsets(start, bits) if bounds.min_offset <= each <= bounds.max_offset)
        return _key(topic, group, queue_id, handle), handle, offsets


class _NamedPop(NamedTuple):
    """What the acknowledgements of one pop of a queue have in common, as their fields."""

    topic: str
    group: str
    queue_id: str
    handle: str  # without the message's offset


def _named_pop(asked: Command) -> _NamedPop | None:
    """Return the pop that a plain acknowledgement names; None for other requests."""
    fields = asked.ext
    if asked.code != RequestCode.ACK_MESSAGE or type(fields) is not dict:  # another type may hold long texts
        return None
    try:
        handle, _, _ = fields["extraInfo"].rpartition(" ")
        pop = _NamedPop(fields["topic"], fields["consumerGroup"], fields["queueId"], handle)
    except KeyError:
        return None
    return pop if handle.count(" ") == 6 and pop.queue_id.isdecimal() and len(pop.queue_id) < 10 else None


def _offset_of(asked: Command, pop: _NamedPop) -> int:
    """Return the queue offset of a message of *pop* that is acknowledged; -1 if it is another request."""
    fields = asked.ext
    if asked.code != RequestCode.ACK_MESSAGE or type(fields) is not dict:
        return -1
    try:
        handle, _, own = fields["extraInfo"].rpartition(" ")
        offset = fields["offset"]
        if (
            handle == pop.handle
            and fields["topic"] == pop.topic
            and fields["consumerGroup"] == pop.group
            and fields["queueId"] == pop.queue_id
            and own.isdecimal()
            and offset.isdecimal()
            and len(offset) < 19
            and not fields.get("liteTopic")
        ):
            return int(offset)
    except KeyError:
        pass
    return -1


def _bits_of(text: str) -> bytes:
    """Decode a bit set.

    Raises:
        FormatError: the text is not Base64, too long, or has more bits set than a pop has messages.
    """
    try:
        bits = base64.b64decode(text, validate=True)
    except ValueError:
        raise FormatError("bitSet is not Base64") from None
    if len(bits) > _MAX_BIT_SET_BYTES:
        raise FormatError(f"bitSet has {len(bits) * 8} offsets, at most {_MAX_BIT_SET_BYTES * 8} are taken")
    if (count := int.from_bytes(bits).bit_count()) > MOST:
        raise FormatError(f"bitSet names {count} messages, and a pop delivers at most {MOST}")
    return bits


def _offsets(start: int, bits: bytes) -> list[int]:
    """Return the queue offsets of a bit set that begins at *start*; it has few bits, which may be far apart."""
    found = []
    for byte in _NOT_ZERO.finditer(bits):
        at, value = byte.start(), byte[0][0]
        found += [start + at * 8 + bit for bit in range(8) if value >> bit & 1]
    return found


def _key(topic: str, group: str, queue_id: int, handle: Receipt) -> CheckpointKey:
    return CheckpointKey(topic, group, queue_id, handle.start_offset, handle.pop_ms, handle.broker_name)
