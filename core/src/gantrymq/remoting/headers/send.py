"""Headers of sending messages and replies.

A send header has two spellings, names (codes 10, 324) and letters (310, 320, 325); `SendMessageRequest` is both.

Source: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeader{,V2}.java, SendMessageResponseHeader.java,
ConsumerSendMsgBackRequestHeader.java.
"""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import (
    Field,
    Header,
    Int32,
    Int64,
    RequestHeader,
    fields_of,
    header_of,
    named,
    read_fields,
    write_fields,
)

__all__ = [
    "ConsumerSendMsgBackRequest",
    "SendMessageRequest",
    "SendMessageResponse",
    "read_send_header",
    "send_fields",
]

_SPELLED_IN_LETTERS: Final = (
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)


@header_of(RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE, *_SPELLED_IN_LETTERS)
class SendMessageRequest(Header):
    """What to store and where; the body of the command is the message's (or the batch's)."""

    producer_group: str
    topic: str
    default_topic: str  # whose settings an unknown topic is made from, usually TBW102
    default_topic_queue_nums: Int32
    queue_id: Int32  # negative: the broker picks one
    sys_flag: Int32
    born_timestamp: Int64  # ms
    flag: Int32  # the user's
    properties: str | None = None  # property string, `formats` knows its layout
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    bname: str | None = None

    def to_ext_v2(self) -> dict[str, str]:
        """Return the fields under their letters, in the order a Java client writes them."""
        return write_fields(self, _LETTERS)


@header_of(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequest(RequestHeader):
    """A consumer failed a message: store it again for later, or among the group's dead letters."""

    offset: Int64  # of its record in the log, bytes
    group: str
    delay_level: Int32  # 0: the broker decides; below 0: a dead letter
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


_LETTERS: Final = tuple(
    field._replace(wire=letter) for field, letter in zip(fields_of(SendMessageRequest), "abcdefghijklmn", strict=True)
)


def send_fields(code: int) -> tuple[Field, ...]:
    """The fields of a send, under the names that belong to the code of the request."""
    return _LETTERS if code in _SPELLED_IN_LETTERS else fields_of(SendMessageRequest)


def read_send_header(command: Command) -> SendMessageRequest:
    """Return the header of a send request of any code, read by the spelling that belongs to the code.

    Raises:
        RequestRefused: as `Header.from_ext`.
    """
    return read_fields(SendMessageRequest, send_fields(command.code), command.ext, command.code)


@header_of(
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)
class SendMessageResponse(Header):
    """Where the message is. `replies.SendResponses` writes the usual answer faster."""

    msg_id: str  # offset id; several joined with commas for a batch
    queue_id: Int32
    queue_offset: Int64  # of the first message of a batch
    transaction_id: str | None = None  # the UNIQ_KEY; 4.9.7 leaves it out
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = attrs.field(default=None, metadata=named("MSG_REGION"))
    trace_on: bool | None = attrs.field(default=None, metadata=named("TRACE_ON"))
