"""The two answers that are sent most, written from templates: a stored message, and a pull.

Other answers go through `command.encode`. Both functions give the same bytes as that one would, the order of ext
fields aside, which nobody depends on.

Source of the fields: apache/rocketmq broker/.../processor/SendMessageProcessor.java, PullMessageProcessor.java.
"""

from __future__ import annotations

from functools import lru_cache

from gantrymq.errors import LocalProtocolError
from gantrymq.remoting.codes import FLAG_RESPONSE, SERIALIZE_JSON
from gantrymq.remoting.command import Command, encode, encode_head
from gantrymq.remoting.frame import MAX_FRAME_BYTES, PREFIX

__all__ = ["encode_pull_head", "encode_send_ok"]


def encode_send_ok(
    serialize: int,
    opaque: int,
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    transaction_id: str | None,
    region: str = "DefaultRegion",
    trace_on: bool = True,
) -> bytes:
    """Return the whole frame that says where a message was stored. Budget: 1.5 us.

    Args:
        serialize: header form of the request.
        msg_id: offset id, or several joined with commas.
        transaction_id: the message's UNIQ_KEY; left out when None.
        region: value of MSG_REGION.
        trace_on: value of TRACE_ON; a bool becomes ``true`` or ``false``.
    """
    if serialize == SERIALIZE_JSON and transaction_id is not None and transaction_id.isalnum():
        header = (_send_template(region, trace_on) % (msg_id, queue_id, queue_offset, transaction_id, opaque)).encode()
        return PREFIX.pack(4 + len(header), len(header)) + header
    ext = {
        "queueId": str(queue_id),
        "TRACE_ON": "true" if trace_on else "false",
        "MSG_REGION": region,
        "msgId": msg_id,
        "queueOffset": str(queue_offset),
    }
    if transaction_id is not None:
        ext["transactionId"] = transaction_id
    return encode(Command(0, opaque=opaque, flag=FLAG_RESPONSE, ext=ext, serialize=serialize))


@lru_cache(maxsize=64)
def _send_template(region: str, trace_on: bool) -> str:
    """The header with places for msgId, queueId, queueOffset, transactionId and opaque."""
    marks = {
        "msgId": "<s>",
        "queueId": "<d>",
        "queueOffset": "<d>",
        "transactionId": "<s>",
        "MSG_REGION": region,
        "TRACE_ON": "true" if trace_on else "false",
    }
    frame = encode(Command(0, opaque=-999, flag=FLAG_RESPONSE, ext=marks))
    text = frame[8:].decode().replace("%", "%%")
    return text.replace("<s>", "%s").replace("<d>", "%d").replace('"opaque":-999', '"opaque":%d')


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
    """Return length prefix and header of the answer to a pull; *body_length* bytes of records follow. Budget: 1.5 us.

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
    length = 4 + len(header) + body_length
    if length + 4 > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"a frame of {length + 4} bytes is over the limit of {MAX_FRAME_BYTES}")
    return PREFIX.pack(length, len(header)) + header


@lru_cache(maxsize=256)
def _pull_template(code: int, remark: str) -> str:
    """The header with places for the six numbers of its ext fields, in order, and opaque."""
    names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag")
    ext = dict.fromkeys(names, "<d>")
    frame = encode(Command(code, opaque=-999, flag=FLAG_RESPONSE, remark=remark, ext=ext))
    text = frame[8:].decode().replace("%", "%%")
    return text.replace('"<d>"', '"%d"').replace('"opaque":-999', '"opaque":%d')
