"""Recall of waiting timed messages: recall handles, and request 370.

A handle is URL-safe base64, with padding, of ``v1 TOPIC BROKER TIME UNIQUE_ID``, separated by spaces; TIME is the time
of the message's slot plus one millisecond. A recall stores a marker in the timer queue for the same slot. When the slot
is due, its markers are applied first, and the messages they name are dropped; so an acknowledged recall always takes
effect.

Source: apache/rocketmq common/.../producer/RecallMessageHandle.java, broker/.../processor/RecallMessageProcessor.java,
SendMessageProcessor.java (attachRecallHandle).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from gantrymq.errors import (
    GantryError,
    IllegalOperation,
    NoPermission,
    RequestError,
    RequestRefused,
    ServiceNotAvailable,
    StoreError,
    TopicNotExist,
)
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import tags_code
from gantrymq.plugin.headers import RequestHeader, header_of
from gantrymq.plugin.interfaces import Broker, BrokerStorage, PutStatus, RecallAnswer, RecallRequest, StoreMessage
from gantrymq.plugin.remoting import Command, Connection, RequestCode, ResponseCode, in_operation, response_to, serves
from gantrymq_schedule import settings as keys
from gantrymq_schedule.timer.messages import BORN_TIMESTAMP, DELETE_KEY, RECALL_TAG, delete_key

_UNCONFIRMED = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
_VERSION = "v1"


class RecallHandle(NamedTuple):
    """A decoded recall handle."""

    topic: str
    broker: str
    time: str  # ms
    unique_id: str


def encode_handle(handle: RecallHandle) -> str:
    """Encode a recall handle."""
    return base64.urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Decode a recall handle.

    Raises:
        IllegalOperation: the text is not a recall handle.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True) if text else b""
    except (binascii.Error, ValueError):
        raw = b""
    version, *parts = raw.decode("utf-8", "replace").split(" ")
    # Java's String.split drops empty parts at the end.
    if version != _VERSION or len(parts) < len(RecallHandle._fields) or not any(parts[3:]):
        raise IllegalOperation("recall handle is invalid; pass the one from the response to the send")
    return RecallHandle._make(parts[: len(RecallHandle._fields)])


def answer_fields(topic: str, broker: str, slot_ms: int, own: Mapping[str, str]) -> dict[str, str]:
    """Return the additional fields of the response to the send of a timed message; none for a retry topic."""
    if topic.startswith(names.RETRY_PREFIX):
        return {}
    return {
        "recallHandle": encode_handle(RecallHandle(topic, broker, str(slot_ms + 1), own.get(props.UNIQ_KEY, "null")))
    }


@header_of(RequestCode.RECALL_MESSAGE)
class RecallMessageRequest(RequestHeader):
    """Request 370: recall a message."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RunningTimers(Protocol):
    """The part of `Timers` that recalls need."""

    @property
    def broker(self) -> Broker | None:
        """The broker, None while the service is not running."""

    def in_time(self, slot_ms: int) -> bool:
        """Return whether everything in the timer queue now reaches the slot of *slot_ms* before it is due."""


class Recall:
    """Recalls messages, and serves request 370."""

    def __init__(self, timers: RunningTimers) -> None:
        self._timers = timers

    @serves(RequestCode.RECALL_MESSAGE, access=in_operation)
    async def serve(self, request: Command, connection: Connection) -> Command:
        """Answer request 370 with the id of the message.

        If the marker is stored but not confirmed by the disk or a slave, the response has code 10, 11 or 12, as for a
        send; a Java broker answers 0.
        """
        broker = self._checked()
        header = RecallMessageRequest.from_ext(request.ext)
        recall = RecallRequest(
            header.topic,
            header.recall_handle,
            header.producer_group,
            connection.peer_packed_host,
            connection.principal,
        )
        answer = await broker.messages.recall(recall)
        reply_fields = {"msgId": answer.message_id, "MSG_REGION": broker.settings.text("regionId")}
        if answer.unconfirmed is not None:
            remark = f"recall stored, but: {answer.unconfirmed}"
            return response_to(request, answer.unconfirmed.response_code, remark, reply_fields)
        return response_to(request, 0, None, reply_fields)

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Store the marker.

        Raises:
            NoPermission: recalls are disabled.
            RequestRefused: timers do not run, as on a replica (11).
            ServiceNotAvailable: the broker does not accept messages yet.
            TopicNotExist: the topic does not exist.
            IllegalOperation: the handle is not for this broker and topic, its time is past or too far ahead, or it
                became due meanwhile.
            RequestRefused: the marker was not stored (1).
        """
        broker = self._checked()
        now_ms = broker.world.clock.now_ms()
        if broker.topics.get(request.topic) is None:
            raise TopicNotExist(f"recall failed: topic {request.topic} does not exist on this broker")
        handle = decode_handle(request.handle)
        broker_name = broker.registration.broker_name
        if handle.topic != request.topic:
            raise IllegalOperation(f"recall failed: the handle is for topic {handle.topic}, not for {request.topic}")
        if handle.broker != broker_name:
            raise IllegalOperation(
                f"recall failed: the message is on broker {handle.broker}, this one is {broker_name}",
            )
        left_ms = _number(handle.time) - now_ms
        longest_ms = broker.settings.number(keys.LONGEST_S) * 1000
        if not 0 < left_ms < longest_ms:
            raise IllegalOperation(
                f"recall failed: the time of the handle is {left_ms} ms ahead; 1 to {longest_ms - 1} can be recalled",
            )
        unconfirmed = await self._store(broker, _marker(broker, handle, request, now_ms))
        if not self._timers.in_time(int(handle.time) - 1):
            raise IllegalOperation("recall failed: the message became due while the recall was stored")
        return RecallAnswer(handle.unique_id, unconfirmed)

    def _checked(self) -> Broker:
        """Return the broker if it accepts recalls. Raises RequestRefused (11), NoPermission, ServiceNotAvailable."""
        broker = self._timers.broker
        if broker is None:
            raise RequestRefused(
                ResponseCode.SLAVE_NOT_AVAILABLE,
                "recall failed, broker service not available: this broker is a replica, or it starts or stops",
            )
        if not broker.settings.flag(keys.RECALL):
            raise NoPermission(
                f"recall failed: recalls are disabled on this broker; set {keys.RECALL}=true to allow it"
            )
        if broker.world.clock.now_ms() < broker.settings.number("startAcceptSendRequestTimeStamp"):
            raise ServiceNotAvailable(
                "recall failed: this broker does not accept messages yet (startAcceptSendRequestTimeStamp)"
            )
        return broker

    @staticmethod
    async def _store(broker: BrokerStorage, marker: StoreMessage) -> GantryError | None:
        """Store *marker*. Return the error if it is stored but unconfirmed. Raises RequestRefused if not stored."""
        try:
            (result,) = await broker.messages.put_all([marker])
        except (RequestError, StoreError) as error:
            if error.response_code in _UNCONFIRMED:
                return error
            raise RequestRefused(1, f"recall failed: {error}") from error
        if result.status is not PutStatus.OK:
            raise RequestRefused(1, f"recall failed: {result.problem or result.status.name}")
        return None


def _marker(broker: BrokerStorage, handle: RecallHandle, request: RecallRequest, now_ms: int) -> StoreMessage:
    own = {
        props.TAGS: RECALL_TAG,
        DELETE_KEY: delete_key(handle.topic, handle.unique_id),
        props.UNIQ_KEY: handle.unique_id,
        props.TIMER_DELIVER_MS: handle.time,
        BORN_TIMESTAMP: str(now_ms),
        **({props.PRODUCER_GROUP: request.group} if request.group else {}),
    }
    return StoreMessage(
        handle.topic,
        0,
        b"0",
        props.encode(own),
        tags_code=tags_code(RECALL_TAG),
        born_timestamp=now_ms,
        born_host=request.born_host,
        store_host=broker.store_host,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1
