"""Headers of sending messages and replies.

A send header has two spellings, names (codes 10, 324) and letters (310, 320, 325); `SendMessageRequest` is both.

Source: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeader{,V2}.java, SendMessageResponseHeader.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import (
    Header,
    Int32,
    Int64,
    explain,
    header_of,
    named,
    to_bool,
    to_int32,
    to_int64,
)

__all__ = [
    "SendMessageRequest",
    "SendMessageResponse",
    "read_send_header",
]

_SMALL: Final = {str(number): number for number in range(-1, 1024)}  # the numbers that send headers are full of


@header_of(RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
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


@header_of(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
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


_LETTERS: Final = frozenset(_SendMessageLetters.codes)


def read_send_header(command: Command) -> SendMessageRequest:
    """Return the header of a send request of any code, read by the spelling that belongs to the code.

    Raises:
        RefusedWith: as `Header.from_ext`.
    """
    if command.code in _LETTERS:
        return SendMessageRequest.from_ext_v2(command.ext, command.code)
    return SendMessageRequest.from_ext(command.ext, command.code)


@header_of(
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
