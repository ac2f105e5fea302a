"""Pop's requests: 200050 to 200056 and 200151, their checks in RocketMQ's order and their answers.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java, AckMessageProcessor.java,
ChangeInvisibleTimeProcessor.java, PeekMessageProcessor.java, NotificationProcessor.java, PollingInfoProcessor.java.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gantrymq.errors import (
    FormatError,
    GantryError,
    InvalidParameter,
    MessageIllegal,
    NoPermission,
    RefusedWith,
    ServiceNotAvailable,
    SubscriptionParseFailed,
    TopicNotExist,
)
from gantrymq.interfaces import Broker, Connection, MessageFilter
from gantrymq.loose_json import loads
from gantrymq.model.subscription import ALL, TAG, Subscription
from gantrymq.model.topic import PERM_READ, TopicConfig
from gantrymq.remoting.codes import FLAG_RESPONSE, SERIALIZE_JSON, RequestCode
from gantrymq.remoting.command import Command, encode, encode_head, response_to
from gantrymq.remoting.frame import PREFIX
from gantrymq.remoting.serving import serves
from gantrymq_pop.acking import NO_MESSAGE, Acking, checked_queue
from gantrymq_pop.checkpoints import Key
from gantrymq_pop.handle import Handle, read_handle
from gantrymq_pop.headers import (
    ChangeRequest,
    NotificationRequest,
    PeekRequest,
    PollingInfoRequest,
    PopRequest,
    ack_of,
)
from gantrymq_pop.popping import MOST, Popped, Popping
from gantrymq_pop.revive_log import ReviveLog
from gantrymq_pop.topics import real_topic
from gantrymq_pop.waiting import Place, Waiting

__all__ = ["MOST_INVISIBLE_MS", "PopRequests"]

log = logging.getLogger(__name__)

PULL_NOT_FOUND: Final = 19
POLLING_FULL: Final = 209
POLLING_TIMEOUT: Final = 210

MOST_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000  # as far as RocketMQ's timer reaches
TOO_MANY: Final = (
    "as many pops wait on this broker as may; pop again later, or let more wait with: gantrymq broker config set "
    "popPollingSize=N (for one queue of a group), popPollingMapSize=N (queues of groups), maxPopPollingSize=N (in all)"
)
LATE_MS: Final = 500  # a pop that comes so long after its time is up is not looked at
NEARLY_MS: Final = 50  # whose time is up so soon is not held
LONGEST_S: Final = 600.0
SOON_S: Final = 0.05
_DONE: Final = encode(Command(0, opaque=-999, flag=FLAG_RESPONSE))[8:].replace(b"-999", b"%d")
LOOKS: Final = 50  # over messages that a filter leaves out, before others have their turn


class PopRequests:
    """Serves them while the broker runs."""

    def __init__(
        self, broker: Broker, broker_name: str, popping: Popping, acking: Acking, revive: ReviveLog, waiting: Waiting
    ) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._clock = broker.world.clock
        self._broker_name = broker_name
        self._popping = popping
        self._acking = acking
        self._revive = revive
        self._waiting = waiting
        self._tasks: set[asyncio.Task[None]] = set()

    @serves(RequestCode.POP_MESSAGE)
    async def pop(self, asked: Command, connection: Connection) -> Command | None:
        """200050: messages for a while, or a wait for some."""
        header = PopRequest.from_ext(asked.ext)
        now_ms = self._clock.now_ms()
        header.born_time = header.born_time or now_ms
        if now_ms - header.born_time - header.poll_time > LATE_MS:
            raise RefusedWith(
                POLLING_TIMEOUT,
                "this pop arrived after its time was up (bornTime + pollTime); compare the clocks of client "
                "and broker, or "
                "let it wait for longer",
            )
        self._check_broker()
        if not 1 <= header.max_msg_nums <= MOST:
            raise InvalidParameter(f"maxMsgNums {header.max_msg_nums} is not between 1 and {MOST}; pop more often")
        _check_invisible(header.invisible_time)
        topic = self._checked_topic(header.topic, header.queue_id)
        self._check_group(header.consumer_group)
        match = self._filter(header)
        return await self._look(asked, connection, header, topic, match)

    @serves(RequestCode.NOTIFICATION)
    async def notification(self, asked: Command, connection: Connection) -> Command | None:
        """200054: told as soon as a pop would find something."""
        header = NotificationRequest.from_ext(asked.ext)
        header.born_time = header.born_time or self._clock.now_ms()
        self._check_broker()
        topic = self._checked_topic(header.topic, header.queue_id)
        self._check_group(header.consumer_group)
        return self._notified(asked, connection, header, topic)

    @serves(RequestCode.POLLING_INFO)
    def polling_info(self, asked: Command, connection: Connection) -> Command:
        """200055: how many pops wait."""
        header = PollingInfoRequest.from_ext(asked.ext)
        self._check_broker()
        self._checked_topic(header.topic, header.queue_id)
        self._check_group(header.consumer_group)
        place = Place(header.topic, header.consumer_group, header.queue_id)
        return response_to(asked, 0, None, {"pollingNum": str(self._waiting.number(place))})

    @serves(RequestCode.PEEK_MESSAGE)
    async def peek(self, asked: Command, connection: Connection) -> Command | None:
        """200052: what a pop would get, left where it is."""
        header = PeekRequest.from_ext(asked.ext)
        self._check_broker()
        topic = self._checked_topic(header.topic, header.queue_id)
        self._check_group(header.consumer_group)
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
            return response_to(asked, PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", ext)
        _send(asked, connection, response_to(asked, 0, "FOUND", ext), buffers)
        return None

    @serves(RequestCode.ACK_MESSAGE)
    def acknowledge(self, asked: Command, connection: Connection) -> None:
        """200051: one message need not come back."""
        group, topic, queue_id, text, offset = ack_of(asked.ext)
        checked_queue(self._broker, topic, queue_id, offset, to_end=True)
        handle = self._handle(text)
        self._acking.acknowledge(_key(topic, group, queue_id, handle), handle, (offset,), _answering(asked, connection))

    @serves(RequestCode.BATCH_ACK_MESSAGE)
    def acknowledge_many(self, asked: Command, connection: Connection) -> None:
        """200151: messages of several pops need not come back.

        An entry that cannot be taken leaves the others alone; the first of such is the answer.
        """
        broker_name, acks = _batch(asked)
        if not acks:
            raise RefusedWith(
                NO_MESSAGE, "BATCH_ACK_MESSAGE: the list of acknowledgements (acks) is empty; name one or more"
            )
        left = len(acks)
        problems: list[GantryError] = []
        answer = _answering(asked, connection)

        def answered(problem: GantryError | None) -> None:
            nonlocal left
            left -= 1
            if problem is not None:
                problems.append(problem)
            if left == 0:
                answer(problems[0] if problems else None)

        for each in acks:
            try:
                key, handle, offsets = self._batch_ack(broker_name, each)
                self._acking.acknowledge(key, handle, offsets, answered)
            except GantryError as error:
                answered(error)

    @serves(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    async def change(self, asked: Command, connection: Connection) -> Command:
        """200053: a message comes back at another time."""
        header = ChangeRequest.from_ext(asked.ext)
        checked_queue(self._broker, header.topic, header.queue_id, header.offset, to_end=False)
        _check_invisible(header.invisible_time)
        handle = self._handle(header.extra_info)
        key = _key(header.topic, header.consumer_group, header.queue_id, handle)
        changed = await self._acking.change(key, handle, header.offset, header.invisible_time)
        ext = {
            "popTime": str(changed.pop_time),
            "invisibleTime": str(changed.invisible_ms),
            "reviveQid": str(handle.revive_queue),
        }
        return response_to(asked, 0, None, ext)

    @serves(RequestCode.POP_ROLLBACK)
    def rollback(self, asked: Command, connection: Connection) -> Command:
        """200056: pop state moves from RocksDB into the revive log, where it is already."""
        return response_to(asked)

    # --- pops that look and wait --------------------------------------------------------------------------------------

    async def _look(
        self, asked: Command, connection: Connection, header: PopRequest, topic: TopicConfig, match: MessageFilter
    ) -> Command | None:
        popped = await self._popping.pop(header, topic, match)
        looks = 1
        while not popped.buffers and popped.rest > 0 and not popped.busy and looks < LOOKS:
            await asyncio.sleep(0)
            popped = await self._popping.pop(header, topic, match)
            looks += 1
        if popped.buffers:
            if popped.rest > 0:
                self._waiting.notify(header.topic, header.consumer_group)
            _send(asked, connection, response_to(asked, 0, "FOUND", _ext(popped, header)), popped.buffers)
            return None
        code = self._hold(asked, connection, header, popped, lambda: self._looked_again(asked, connection, header))
        if code is None:
            return None
        remark = TOO_MANY if code == POLLING_FULL else "NO_MESSAGE_IN_QUEUE"
        return response_to(asked, code, remark, _ext(popped, header))

    def _hold(
        self, asked: Command, connection: Connection, header: PopRequest, popped: Popped, wake: Callable[[], None]
    ) -> int | None:
        """Wait for messages; the code to answer with where that cannot be."""
        now_ms = self._clock.now_ms()
        left_ms = header.born_time + header.poll_time - now_ms
        if header.poll_time <= 0 or left_ms <= NEARLY_MS or self._waiting.closed:
            return POLLING_TIMEOUT
        seconds = min(left_ms / 1000, LONGEST_S)
        topic = self._broker.topic(header.topic)
        arrived = topic is not None and self._popping.has_message(
            header.consumer_group, topic, header.queue_id, header.attempt_id, order=False
        )  # in a queue that was looked at before the last one
        if popped.busy or popped.rest > 0 or (arrived and not header.order):
            seconds = min(seconds, SOON_S)
        if popped.free_at_ms is not None:
            seconds = min(seconds, max(popped.free_at_ms - now_ms, 1) / 1000)
        place = Place(header.topic, header.consumer_group, header.queue_id)
        return None if self._waiting.wait(place, connection, seconds, wake) else POLLING_FULL

    def _looked_again(self, asked: Command, connection: Connection, header: PopRequest) -> None:
        async def look() -> Command | None:
            topic = self._checked_topic(header.topic, header.queue_id)
            self._check_group(header.consumer_group)
            return await self._look(asked, connection, header, topic, self._filter(header))

        self._serve_later(asked, connection, look())

    def _notified(
        self, asked: Command, connection: Connection, header: NotificationRequest, topic: TopicConfig
    ) -> Command | None:
        group, order = header.consumer_group, header.order
        found = self._popping.has_message(group, topic, header.queue_id, header.attempt_id, order=order)
        ext = {"hasMsg": "true" if found else "false"}
        left_ms = header.born_time + header.poll_time - self._clock.now_ms()
        if not found and header.poll_time > 0 and left_ms > NEARLY_MS and not self._waiting.closed:

            async def again() -> Command | None:
                return self._notified(asked, connection, header, self._checked_topic(header.topic, header.queue_id))

            place = Place(header.topic, group, header.queue_id)
            seconds = min(left_ms / 1000, LONGEST_S)
            if self._waiting.wait(place, connection, seconds, lambda: self._serve_later(asked, connection, again())):
                return None
            ext["pollingFull"] = "true"
        if found:
            self._waiting.notify(header.topic, group)  # a pop may wait behind this one
        return response_to(asked, 0, None, ext)

    def _serve_later(
        self, asked: Command, connection: Connection, serving: Coroutine[Any, Any, Command | None]
    ) -> None:
        """Answer a request that waited."""

        async def serve() -> None:
            try:
                answer = await serving
            except GantryError as error:
                answer = response_to(asked, error.response_code, str(error))
            except Exception as error:
                log.exception("a pop that waited failed")
                answer = response_to(asked, 1, f"the broker failed to serve this request: {error}")
            if answer is not None and not connection.closed:
                connection.reply(asked, answer)

        task = asyncio.get_running_loop().create_task(serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer all that wait."""
        self._waiting.close()
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_broker(self) -> None:
        if not self._settings.number("brokerPermission") & PERM_READ:
            raise NoPermission(
                "this broker's brokerPermission forbids reading; allow it with: gantrymq broker config set "
                "brokerPermission=6"
            )
        if self._waiting.closed:
            raise ServiceNotAvailable("this broker is stopping; pop again in a moment")

    def _checked_topic(self, name: str, queue_id: int) -> TopicConfig:
        topic = self._broker.topic(name)
        if topic is None:
            raise TopicNotExist(
                f"topic {name} does not exist on this broker; create it with: gantrymq topic create -t {name}"
            )
        if not topic.readable:
            raise NoPermission(
                f"topic {name} may not be read (perm {topic.perm}); allow it with: gantrymq topic create -t {name} "
                "--perm 6"
            )
        if queue_id >= topic.read_queues:
            raise InvalidParameter(
                f"queueId {queue_id} is outside topic {name}, with {topic.read_queues} read queues; -1 pops "
                "from all, and "
                f"gantrymq topic create -t {name} -r {queue_id + 1} makes more"
            )
        return topic

    def _check_group(self, name: str) -> None:
        if not self._broker.require_group(name).consume_enable:
            raise NoPermission(
                f"consumer group {name} is switched off (consumeEnable=false); switch it on with: gantrymq group "
                f"create -g {name} --consume"
            )
        if self._broker.broadcasts(name):
            raise NoPermission(
                f"consumer group {name} consumes by broadcasting, and what is popped goes to one member; pop with "
                "another group, or let this one consume by CLUSTERING"
            )

    def _filter(self, header: PopRequest) -> MessageFilter:
        expression, kind = (header.exp, header.exp_type or TAG) if header.exp else (ALL, TAG)
        subscription = Subscription(header.topic, expression, kind, 0, header.consumer_group)
        try:
            return self._broker.filter_of(subscription)
        except SubscriptionParseFailed:
            raise
        except RefusedWith as error:
            raise SubscriptionParseFailed(str(error)) from error

    def _handle(self, text: str) -> Handle:
        """Read a handle of this broker's. Raises MessageIllegal: it is none, or another broker's."""
        handle = read_handle(text, self._revive.queues)
        if not handle.broker_name.strip():
            return handle._replace(broker_name=self._broker_name)
        if handle.broker_name != self._broker_name:
            raise MessageIllegal(
                f"the receipt handle {text[:80]!r} is of broker {handle.broker_name[:80]}, and this is "
                f"{self._broker_name}; acknowledge where the message was popped"
            )
        return handle

    def _batch_ack(self, broker_name: str, members: dict[str, Any]) -> tuple[Key, Handle, tuple[int, ...]]:
        """One entry of a batch: what it acknowledges."""

        def member(short: str, long: str) -> Any:
            return members.get(short, members.get(long))

        try:
            group, asked_topic = str(member("c", "consumerGroup")), str(member("t", "topic"))
            kind = str(member("r", "retry") or "0")
            start, queue_id = int(member("so", "startOffset")), int(member("q", "queueId"))
            revive_queue, pop_time = int(member("rq", "reviveQueueId")), int(member("pt", "popTime"))
            invisible_ms = int(member("it", "invisibleTime") or 0)
            bits = base64.b64decode(str(member("b", "bitSet") or ""), validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise MessageIllegal(
                f"BATCH_ACK_MESSAGE: an acknowledgement cannot be read: {error}; write it as RocketMQ's client "
                "does (BatchAck)"
            ) from error
        text = f"{start} {pop_time} {invisible_ms} {revive_queue} {kind} {broker_name} {queue_id}"
        handle = self._handle(text)
        topic = real_topic(asked_topic, group, kind)
        if topic is None:
            raise MessageIllegal(f"BATCH_ACK_MESSAGE: {kind!r} is no kind of topic; it is 0, 1 or 2")
        checked_queue(self._broker, topic, queue_id, None, to_end=True)
        if len(bits) > 65536:
            raise MessageIllegal(
                f"BATCH_ACK_MESSAGE: a set of {len(bits) * 8} offsets; at most 524288 are taken at once"
            )
        offsets = tuple(start + each for each in range(len(bits) * 8) if bits[each >> 3] >> (each & 7) & 1)
        return _key(topic, group, queue_id, handle), handle, offsets


def _key(topic: str, group: str, queue_id: int, handle: Handle) -> Key:
    return Key(topic, group, queue_id, handle.start_offset, handle.pop_time, handle.broker_name)


def _check_invisible(invisible_ms: int) -> None:
    if not 0 <= invisible_ms <= MOST_INVISIBLE_MS:
        raise InvalidParameter(
            f"invisibleTime {invisible_ms} ms is not between 0 and {MOST_INVISIBLE_MS} (three days), as far as a "
            "message may be hidden; ask for less"
        )


def _batch(asked: Command) -> tuple[str, list[dict[str, Any]]]:
    """Broker name and acknowledgements of a batch's body."""
    try:
        body = loads(asked.payload) if asked.body else {}
        acks = body.get("acks") or []
        if not all(isinstance(each, dict) for each in acks):
            raise TypeError("an acknowledgement is no object")
    except (FormatError, AttributeError, TypeError) as error:
        raise RefusedWith(1, f"BATCH_ACK_MESSAGE: the body cannot be read: {error}") from error
    return str(body.get("brokerName") or ""), acks


def _answering(asked: Command, connection: Connection) -> Callable[[GantryError | None], None]:
    def answered(problem: GantryError | None) -> None:
        if connection.closed or asked.is_oneway:
            return
        if problem is None:
            connection.reply(asked, _done(asked))
        else:
            connection.reply(asked, response_to(asked, problem.response_code, str(problem)))

    return answered


def _done(asked: Command) -> Command | bytes:
    """The answer that says nothing but that it is done."""
    if asked.serialize != SERIALIZE_JSON:
        return response_to(asked)
    header = _DONE % asked.opaque
    return PREFIX.pack(4 + len(header), len(header)) + header


def _ext(popped: Popped, header: PopRequest) -> dict[str, str]:
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


def _send(asked: Command, connection: Connection, answer: Command, buffers: Any) -> None:
    """Answer with records; who is gone gets them again when their time is over."""
    if connection.closed or asked.is_oneway:
        return
    size = sum(map(len, buffers))
    connection.reply_parts([encode_head(answer, size), *buffers])
