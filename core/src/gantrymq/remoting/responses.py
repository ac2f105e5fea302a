"""Templates for the most frequent responses (stored messages, pulls, queries by key), and responses written in slices.

Other responses are encoded by `command.encode`. The templates give the same bytes, except for the order of ext fields,
on which no client depends.

The JSON of responses that grow with topics, groups, queues or clients is written in slices of the event loop
(`SlicedResponses`): a response of 40,000 queues takes a second to write, and no step of the loop may take longer than
20 ms. Tables may change between two slices: the body's generators take a copy of the names first, and leave out what
was deleted.

Source of the fields: apache/rocketmq broker/.../processor/SendMessageProcessor.java, PullMessageProcessor.java,
QueryMessageProcessor.java.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gantrymq import speedups
from gantrymq.errors import ConnectionLost, FormatError, LocalProtocolError, RequestRefused
from gantrymq.loose_json import Entries, RawJson, dumps, dumps_in_slices
from gantrymq.remoting.codes import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON, request_name
from gantrymq.remoting.command import Command, encode, encode_head, response_to
from gantrymq.remoting.frame import MAX_FRAME_BYTES, PREFIX
from gantrymq.remoting.sends import SendCommand
from gantrymq.world import Clock
from gantrymq.world.clock import TimeSlices

_QUERY_NAMES: Final = ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset")

Stored = tuple[Any, int, int, int, int, str]  # a `PutResult`, which this layer cannot import


class SendResponses:
    """Encoder of the responses to stored sends of one broker."""

    def __init__(self, packed_host: bytes, region: str, trace_on: bool) -> None:
        """Prepare the template of all responses.

        Args:
            packed_host: address of the broker, the first part of each msgId (`model.hosts`).
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
        text = text.replace(
            "<id>", packed_host.hex().upper() + "%016X", 1
        )  # only the first: the region, which comes later,
        text = text.replace("<d>", "%d", 2).replace("<s>", "%b", 1)  # may contain the same text
        self._template = text.encode()  # log offset, queue id, queue offset, unique id, opaque
        self._prefixes: dict[int, bytes] = {}  # by length of the header
        self.frames: Callable[[Sequence[SendCommand], Sequence[Stored]], bytes] = self._frames
        if speedups.compiled is not None:
            texts = tuple(part.replace(b"%%", b"%") for part in re.split(rb"(?<!%)(?:%016X|%d|%b)", self._template))
            self.frames = speedups.compiled.AnswerWriter(SendCommand, texts, FLAG_ONEWAY)

    def _frames(self, sends: Sequence[SendCommand], results: Sequence[Stored]) -> bytes:
        """Return the frames, with JSON headers, of the responses to all sends that are not oneway.

        Args:
            sends: the requests.
            results: for each request: status, queue offset, log offset and fields that the response does not contain.
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
    """Return length prefix and header of a pull response; *body_length* bytes of records follow.

    Args:
        code: 0, 19, 20 or 21; all of them carry the offsets.
        remark: name of the store's status (FOUND, OFFSET_OVERFLOW_ONE, ...).
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
    """Return length prefix and header of the response to a query by key with *body_length* bytes of records.

    Args:
        index_timestamp: ms, store time of the newest message in the index.
        index_log_offset: log offset of that message.
    Raises:
        LocalProtocolError: the frame would be over the limit.
    """
    if serialize != SERIALIZE_JSON:
        ext = dict(zip(_QUERY_NAMES, (str(index_timestamp), str(index_log_offset)), strict=True))
        return encode_head(Command(0, opaque=opaque, flag=FLAG_RESPONSE, ext=ext, serialize=serialize), body_length)
    header = (_query_template() % (index_timestamp, index_log_offset, opaque)).encode()
    return _prefix(len(header), body_length) + header


def _prefix(header_bytes: int, body_bytes: int) -> bytes:
    """Return the prefix of a frame with a JSON header.

    Raises:
        LocalProtocolError: the frame would be over the limit.
    """
    length = 4 + header_bytes + body_bytes
    if length + 4 > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"a frame of {length + 4} bytes is over the limit of {MAX_FRAME_BYTES}")
    return PREFIX.pack(length, header_bytes)


@lru_cache(maxsize=1)
def _query_template() -> str:
    """Return the header with placeholders for its two numbers, in order, and opaque."""
    return _numbers_template(0, None, _QUERY_NAMES)


@lru_cache(maxsize=256)
def _pull_template(code: int, remark: str) -> str:
    """Return the header with placeholders for its six numbers, in order, and opaque."""
    names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag")
    return _numbers_template(code, remark, names)


def _numbers_template(code: int, remark: str | None, names: Sequence[str]) -> str:
    """Return a JSON header with placeholders for the numbers in its ext fields, in order, and for opaque."""
    ext = dict.fromkeys(names, "<d>")
    frame = encode(Command(code, opaque=-999, flag=FLAG_RESPONSE, remark=remark, ext=ext))
    text = frame[8:].decode().replace("%", "%%")
    return text.replace('"<d>"', '"%d"').replace('"opaque":-999', '"opaque":%d')


MAX_AT_ONCE: Final = 4  # responses written at the same time; each adds a slice to every iteration of the loop
MAX_ITEMS: Final = 64  # of a slice
MAX_BODY_BYTES: Final = MAX_FRAME_BYTES - 64 * 1024  # the rest is for the header


class SlicedResponses:
    """Creates the long responses of one server, a few at a time; the others wait in the order of their requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)

    async def make(
        self,
        request: Command,
        connection: object,
        body: Entries | Mapping[str, Any],
        ext: dict[str, str] | None = None,
    ) -> Command:
        """Return a success response with the JSON *body*; the members of a mapping are sorted.

        Raises:
            ConnectionLost: the connection closed meanwhile. The rest of the body was not created.
            RequestRefused: code 1, the body does not fit into a frame.
        """
        async with self._turns:
            slices = TimeSlices(self._clock, MAX_ITEMS)

            async def item_done() -> None:
                await slices.item_done()
                if getattr(connection, "closed", False):
                    raise ConnectionLost(f"the peer of {request_name(request.code)} has closed the connection")

            members = body if isinstance(body, Entries) else Entries.of(body)
            try:
                written = await dumps_in_slices(members, item_done, max_bytes=MAX_BODY_BYTES)
            except FormatError as error:
                raise RequestRefused(
                    1, f"{request_name(request.code)}: the response does not fit into a frame ({error}); ask for a part"
                ) from error
            return response_to(request, 0, None, ext, written)


def queue_texts(topic: str, broker_name: str) -> Callable[[int], RawJson]:
    """Return a function that returns the JSON object of a topic's queue, twenty times as fast as `loose_json.dumps`."""
    before = f'{{"brokerName":{dumps(broker_name).decode()},"queueId":'
    after = f',"topic":{dumps(topic).decode()}}}'
    return lambda queue_id: RawJson(f"{before}{queue_id}{after}")
