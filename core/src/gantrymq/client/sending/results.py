"""Results of sends.

Source: apache/rocketmq client/.../producer/SendResult.java, SendStatus.java, client/.../impl/MQClientAPIImpl.java
(processSendResponse).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs

from gantrymq.client.calls.rpc import refused, reply_header
from gantrymq.errors import BrokerRefused, CallTimeout, ClientError, ConnectFailed, ConnectionLost
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.send import SendMessageResponse

_DEFAULT_REGION = "DefaultRegion"


class SendStatus(enum.Enum):
    """How safely a message is stored; the message is stored with any of these. Values are response codes."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10  # not synced to disk in time
    SLAVE_NOT_AVAILABLE = 11  # no slave to copy to
    FLUSH_SLAVE_TIMEOUT = 12  # not copied to a slave in time


_STATUS: Mapping[int, SendStatus] = {status.value: status for status in SendStatus}


@attrs.define(unsafe_hash=True)  # not frozen, which would make construction five times slower
class SendResult:
    """Where a message was stored, or the consecutive messages of a batch. Do not modify."""

    status: SendStatus
    message_ids: tuple[str, ...]  # the client's unique ids, one for each message
    offset_ids: tuple[str, ...]  # the broker's ids, with broker and log offset; a single one for an inner batch
    queue: MessageQueue
    queue_offset: int  # of the first message
    transaction_id: str | None = None
    region: str = _DEFAULT_REGION
    trace_on: bool = True  # whether the broker wants this send traced
    recall_handle: str | None = None  # of a timed message, for `Producer.recall`
    inner_batch_id: str | None = None  # of a batch stored as one record of a batch queue

    @property
    def message_id(self) -> str:
        """The unique id of the (first) message."""
        return self.message_ids[0]

    @property
    def offset_id(self) -> str:
        """The broker's id of the (first) message; ``"0"`` if there is none, as for a reply."""
        return self.offset_ids[0]

    @property
    def ok(self) -> bool:
        """Whether the message is stored as safely as the broker promises."""
        return self.status is SendStatus.SEND_OK

    def each(self) -> tuple[SendResult, ...]:
        """Return a result for each message of a batch, in order."""
        if len(self.message_ids) == 1:
            return (self,)
        ids = self.message_ids
        places = self.offset_ids if len(self.offset_ids) == len(ids) else self.offset_ids[:1] * len(ids)
        return tuple(
            [
                SendResult(
                    self.status,
                    (message_id,),
                    (place,),
                    self.queue,
                    self.queue_offset + number,
                    self.transaction_id,
                    self.region,
                    self.trace_on,
                    self.recall_handle,
                    self.inner_batch_id,
                )
                for number, (message_id, place) in enumerate(zip(ids, places, strict=True))
            ]
        )


class SendFailed(ClientError):
    """Raised if no attempt is known to have stored the message.

    ``response_code`` is the broker's last code, 10001 if no connection could be made, 10002 if no response arrived in
    time, and 10003 otherwise (the codes of ClientErrorCode.java); ``brokers`` names the brokers tried, in order.
    """

    retriable = True

    @staticmethod
    def after(topic: str, brokers: Sequence[str], last: BaseException | None, timeout_s: float) -> SendFailed:
        """Return the error for a send whose last attempt ended with *last*, or None if there was no time for one."""
        kind = SendFailed
        if last is None or isinstance(last, TimeoutError):
            kind = SendTimedOut
        elif isinstance(last, ConnectionError):
            kind = SendNotConnected
        return kind(topic, brokers, last, timeout_s)

    def __init__(self, topic: str, brokers: Sequence[str], last: BaseException | None, timeout_s: float) -> None:
        tries = f"{len(brokers)} attempt{'' if len(brokers) == 1 else 's'} at {', '.join(dict.fromkeys(brokers))}"
        reason = str(last) if last is not None else f"the {timeout_s:g} s allowed were over before the first attempt"
        super().__init__(f"sending to {topic} failed after {tries}: {reason}" if brokers else f"{topic}: {reason}")
        self.brokers = tuple(brokers)
        self.response_code = _client_code(last)


class SendTimedOut(SendFailed, TimeoutError):
    """Raised if no attempt was answered in time."""


class SendNotConnected(SendFailed, ConnectionError):
    """Raised if no broker could be reached, or the connection was lost."""


def _client_code(last: BaseException | None) -> int:
    if isinstance(last, BrokerRefused):
        return last.response_code
    if isinstance(last, ConnectFailed):
        return 10001
    return 10002 if last is None or isinstance(last, CallTimeout | ConnectionLost) else 10003


def read_send_reply(reply: Command, address: str, queue: MessageQueue, unique_ids: tuple[str, ...]) -> SendResult:
    """Decode a broker's response to a send.

    Args:
        reply: response to request 10, 310 or 320.
        address: of the broker, for errors.
        queue: requested queue; the broker may have used another one.
        unique_ids: the client's id, or the ids of all messages of a batch.

    Raises:
        BrokerRefused: the response has an error code.
        RemoteProtocolError: the response lacks a required field.
    """
    status = _STATUS.get(reply.code)
    if status is None:
        raise refused(reply, address, RequestCode.SEND_MESSAGE)
    header = reply_header(SendMessageResponse, reply, address)
    return SendResult(
        status=status,
        message_ids=unique_ids,
        offset_ids=tuple(header.msg_id.split(",")),
        queue=queue if header.queue_id == queue.queue_id else queue._replace(queue_id=header.queue_id),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region=header.msg_region or _DEFAULT_REGION,
        trace_on=header.trace_on is not False,
        recall_handle=header.recall_handle,
        inner_batch_id=header.batch_uniq_id,
    )
