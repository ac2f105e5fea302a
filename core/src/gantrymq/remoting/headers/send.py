"""Headers of sending: messages, replies, send-back, recall, ends of transactions.

A send header has two spellings, names (codes 10, 324) and letters (310, 320, 325); `SendMessageRequest` is both.

Source: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeader{,V2}.java, SendMessageResponseHeader.java,
ConsumerSendMsgBackRequestHeader.java, EndTransactionRequestHeader.java, ReplyMessageRequestHeader.java,
RecallMessageRequestHeader.java, CheckTransactionStateRequestHeader.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import (
    REQUEST_HEADERS,
    Header,
    Int32,
    Int64,
    RequestHeader,
    explain,
    named,
    request_header,
    response_header,
    to_bool,
    to_int32,
    to_int64,
)

__all__ = [
    "CheckTransactionStateRequest",
    "ConsumerSendMsgBackRequest",
    "EndTransactionRequest",
    "PushReplyMessageRequest",
    "RecallMessageRequest",
    "RecallMessageResponse",
    "ResumeCheckHalfMessageRequest",
    "SendMessageRequest",
    "SendMessageResponse",
    "read_send_header",
]

_SMALL: Final = {str(number): number for number in range(-1, 1024)}  # the numbers that send headers are full of


@request_header(RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
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

    @classmethod
    def from_ext_v2(cls, ext: Mapping[str, str] | None, code: int | None = None) -> Self:
        """Read the letters. Budget: 1.5 us. Raises as `Header.from_ext`, naming the letter."""
        fields = {} if ext is None else ext
        get, small = fields.get, _SMALL.get
        self = cls.__new__(cls)
        try:
            self.producer_group = fields["a"]
            self.topic = fields["b"]
            self.default_topic = fields["c"]
            text = fields["d"]
            number = small(text)
            self.default_topic_queue_nums = to_int32(text) if number is None else number
            text = fields["e"]
            number = small(text)
            self.queue_id = to_int32(text) if number is None else number
            text = fields["f"]
            number = small(text)
            self.sys_flag = to_int32(text) if number is None else number
            text = fields["g"]
            self.born_timestamp = int(text) if len(text) < 19 and text.isdecimal() else to_int64(text)
            text = fields["h"]
            number = small(text)
            self.flag = to_int32(text) if number is None else number
            self.properties = get("i")
            text = get("j", "0")
            self.reconsume_times = 0 if text == "0" or not text else to_int32(text)
            text = get("k", "false")
            self.unit_mode = text != "false" and to_bool(text)
            text = get("l", "")
            self.max_reconsume_times = to_int32(text) if text else None
            text = get("m", "false")
            self.batch = text != "false" and to_bool(text)
            self.bname = get("n")
        except (KeyError, ValueError):
            raise explain(_SendMessageLetters, fields, code) from None
        return self

    def to_ext_v2(self) -> dict[str, str]:
        """Return the fields under their letters, in the order a Java client writes them."""
        ext = {
            "a": self.producer_group,
            "b": self.topic,
            "c": self.default_topic,
            "d": str(self.default_topic_queue_nums),
            "e": str(self.queue_id),
            "f": str(self.sys_flag),
            "g": str(self.born_timestamp),
            "h": str(self.flag),
        }
        if self.properties is not None:
            ext["i"] = self.properties
        ext["j"] = str(self.reconsume_times)
        ext["k"] = "true" if self.unit_mode else "false"
        if self.max_reconsume_times is not None:
            ext["l"] = str(self.max_reconsume_times)
        ext["m"] = "true" if self.batch else "false"
        if self.bname is not None:
            ext["n"] = self.bname
        return ext


@request_header(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
class _SendMessageLetters(Header):
    """The letters and their kinds, for refusals; `SendMessageRequest.from_ext_v2` reads them."""

    a: str
    b: str
    c: str
    d: Int32
    e: Int32
    f: Int32
    g: Int64
    h: Int32
    i: str | None = None
    j: Int32 = 0
    k: bool = False
    l: Int32 | None = None  # noqa: E741
    m: bool = False
    n: str | None = None


for _code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
    REQUEST_HEADERS[_code] = SendMessageRequest

_LETTERS: Final = frozenset(
    (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
)


def read_send_header(command: Command) -> SendMessageRequest:
    """Return the header of a send request of any code, read by the spelling that belongs to the code.

    Raises:
        RefusedWith: as `Header.from_ext`.
    """
    if command.code in _LETTERS:
        return SendMessageRequest.from_ext_v2(command.ext, command.code)
    return SendMessageRequest.from_ext(command.ext, command.code)


@response_header(
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)
class SendMessageResponse(Header):
    """Where the message is. `replies.SendOk` writes the usual answer faster."""

    msg_id: str  # offset id; several joined with commas for a batch
    queue_id: Int32
    queue_offset: Int64  # of the first message of a batch
    transaction_id: str | None = None  # the UNIQ_KEY; 4.9.7 leaves it out
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = attrs.field(default=None, metadata=named("MSG_REGION"))
    trace_on: bool | None = attrs.field(default=None, metadata=named("TRACE_ON"))


@request_header(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequest(RequestHeader):
    """A message that a consumer could not handle."""

    offset: Int64  # log offset
    group: str
    delay_level: Int32  # 0: by the number of tries; negative: to the dead letters
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


@request_header(RequestCode.END_TRANSACTION)
class EndTransactionRequest(RequestHeader):
    """How a half message ends."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64  # queue offset of the half message
    commit_log_offset: Int64  # log offset of the half message
    commit_or_rollback: Int32  # 8 commit, 12 roll back, 0 not known
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


@request_header(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransactionStateRequest(RequestHeader):
    """Broker to producer: what became of this half message?"""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@request_header(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessageRequest(RequestHeader):
    """Check a half message again that was given up."""

    topic: str | None = None
    msg_id: str | None = None


@request_header(RequestCode.RECALL_MESSAGE)
class RecallMessageRequest(RequestHeader):
    """Take back a message that is not due yet."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


@response_header(RequestCode.RECALL_MESSAGE)
class RecallMessageResponse(Header):
    """The unique id of what was taken back."""

    msg_id: str


@request_header(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class PushReplyMessageRequest(RequestHeader):
    """Broker to client: the reply to a request message."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str  # ip:port
    store_host: str  # ip:port
    store_timestamp: Int64
