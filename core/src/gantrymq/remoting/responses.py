"""The answers that are sent most, written from templates: a stored message, a pull, a look-up by key.

Other answers go through `command.encode`. All give the same bytes as that one would, the order of ext fields aside,
which nobody depends on.

Source of the fields: apache/rocketmq broker/.../processor/SendMessageProcessor.java, PullMessageProcessor.java,
QueryMessageProcessor.java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from gantrymq import speedups
from gantrymq.errors import LocalProtocolError
from gantrymq.remoting.codes import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON
from gantrymq.remoting.command import Command, encode, encode_head
from gantrymq.remoting.frame import MAX_FRAME_BYTES, PREFIX
from gantrymq.remoting.sends import SendCommand

__all__ = ["SendResponses", "encode_pull_head", "encode_query_head"]

_QUERY_NAMES: Final = ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset")

Stored = tuple[Any, int, int, int, int, str]  # a `PutResult`, which this floor does not know


class SendResponses:
    """Answers to messages that one broker has stored."""

    def __init__(self, packed_host: bytes, region: str, trace_on: bool) -> None:
        """Prepare the text that all answers share.

        Args:
            packed_host: of the broker, the first part of every msgId (`model.hosts`).
            region: value of MSG_REGION.
            trace_on: value of TRACE_ON.
        """
        marks = {
            "msgId": "<id>",
            "queueId": "<d>",
            "queueOffset": "<d>",
            "transactionId": "<s>",
            "MSG_REGION": region,
            "TRACE_ON": "true" if trace_on else "false",
        }
        frame = encode(Command(0, opaque=-999, flag=FLAG_RESPONSE, ext=marks))
        text = frame[8:].decode().replace("%", "%%").replace('"opaque":-999', '"opaque":%d')
        text = text.replace("<id>", packed_host.hex().upper() + "%016X", 1)  # the region, which comes last, may be like
        text = text.replace("<d>", "%d", 2).replace("<s>", "%b", 1)  # any of these
        self._template = text.encode()  # with places for log offset, queue id, queue offset, unique id and opaque
        self._prefixes: dict[int, bytes] = {}  # by length of the header
        self.frames: Callable[[Sequence[SendCommand], Sequence[Stored]], bytes] = self._frames
        if speedups.compiled is not None:
            texts = tuple(part.replace(b"%%", b"%") for part in re.split(rb"(?<!%)(?:%016X|%d|%b)", self._template))
            self.frames = speedups.compiled.AnswerWriter(SendCommand, texts, FLAG_ONEWAY)

    def _frames(self, sends: Sequence[SendCommand], results: Sequence[Stored]) -> bytes:
        """Return whole frames, their headers in JSON, for those that want an answer.

        Args:
            sends: the requests.
            results: of each: status, queue offset, log offset and what an answer does not tell.
        """
        template, prefixes = self._template, self._prefixes
        found: list[bytes] = []
        for send, result in zip(sends, results, strict=True):
            if send.flag & FLAG_ONEWAY:
                continue
            header = template % (result[2], send.queue_id, result[1], send.unique_id, send.opaque)
            length = len(header)
            prefix = prefixes.get(length)
            if prefix is None:
                prefix = prefixes[length] = PREFIX.pack(4 + length, length)
            found += (prefix, header)
        return b"".join(found)


def encode_pull_head(
    serialize: int,
    opaque: int,
    code: int,
    remark: str,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    body_length: int = 0,
    *,
    suggest_which_broker_id: int = 0,
    topic_sys_flag: int = 0,
    group_sys_flag: int = 0,
) -> bytes:
    """Return length prefix and header of the answer to a pull; *body_length* bytes of records follow.

    Args:
        code: 0, 19, 20 or 21; all of them carry the offsets.
        remark: name of the store's verdict (FOUND, OFFSET_OVERFLOW_ONE, ...).
    Raises:
        LocalProtocolError: the frame would be over the limit.
    """
    if serialize != SERIALIZE_JSON:
        ext = {
            "suggestWhichBrokerId": str(suggest_which_broker_id),
            "nextBeginOffset": str(next_begin_offset),
            "minOffset": str(min_offset),
            "maxOffset": str(max_offset),
            "topicSysFlag": str(topic_sys_flag),
            "groupSysFlag": str(group_sys_flag),
        }
        command = Command(code, opaque=opaque, flag=FLAG_RESPONSE, remark=remark, ext=ext, serialize=serialize)
        return encode_head(command, body_length)
    header = (
        _pull_template(code, remark)
        % (
            suggest_which_broker_id,
            next_begin_offset,
            min_offset,
            max_offset,
            topic_sys_flag,
            group_sys_flag,
            opaque,
        )
    ).encode()
    return _prefix(len(header), body_length) + header


def encode_query_head(
    serialize: int, opaque: int, index_timestamp: int, index_log_offset: int, body_length: int
) -> bytes:
    """Return length prefix and header of the answer to a query by key that found *body_length* bytes of records.

    Args:
        index_timestamp: ms, store time of the newest message in the index.
        index_log_offset: where that message is.
    Raises:
        LocalProtocolError: the frame would be over the limit.
    """
    if serialize != SERIALIZE_JSON:
        ext = dict(zip(_QUERY_NAMES, (str(index_timestamp), str(index_log_offset)), strict=True))
        return encode_head(Command(0, opaque=opaque, flag=FLAG_RESPONSE, ext=ext, serialize=serialize), body_length)
    header = (_query_template() % (index_timestamp, index_log_offset, opaque)).encode()
    return _prefix(len(header), body_length) + header


def _prefix(header_bytes: int, body_bytes: int) -> bytes:
    """What stands before a JSON header.

    Raises:
        LocalProtocolError: the frame would be over the limit.
    """
    length = 4 + header_bytes + body_bytes
    if length + 4 > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"a frame of {length + 4} bytes is over the limit of {MAX_FRAME_BYTES}")
    return PREFIX.pack(length, header_bytes)


@lru_cache(maxsize=1)
def _query_template() -> str:
    """The header with places for the two numbers of its ext fields, in order, and opaque."""
    return _numbers_template(0, None, _QUERY_NAMES)


@lru_cache(maxsize=256)
def _pull_template(code: int, remark: str) -> str:
    """The header with places for the six numbers of its ext fields, in order, and opaque."""
    names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag")
    return _numbers_template(code, remark, names)


def _numbers_template(code: int, remark: str | None, names: Sequence[str]) -> str:
    """A JSON header whose ext fields are numbers, with places for them, in order, and for opaque."""
    ext = dict.fromkeys(names, "<d>")
    frame = encode(Command(code, opaque=-999, flag=FLAG_RESPONSE, remark=remark, ext=ext))
    text = frame[8:].decode().replace("%", "%%")
    return text.replace('"<d>"', '"%d"').replace('"opaque":-999', '"opaque":%d')
