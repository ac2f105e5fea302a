"""Headers of the pop requests.

Source: apache/rocketmq remoting/.../protocol/header/PopMessageRequestHeader.java, AckMessageRequestHeader.java,
ChangeInvisibleTimeRequestHeader.java, PeekMessageRequestHeader.java, NotificationRequestHeader.java,
PollingInfoRequestHeader.java.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.plugin.headers import Int32, Int64, RequestHeader, header_of
from gantrymq.plugin.remoting import RequestCode


@header_of(RequestCode.POP_MESSAGE)
class PopRequestHeader(RequestHeader):
    """Request 200050: pop messages."""

    consumer_group: str
    topic: str
    queue_id: Int32  # -1: all queues
    max_msg_nums: Int32
    invisible_time: Int64  # ms
    poll_time: Int64  # ms
    born_time: Int64 = 0  # ms; 0: now
    init_mode: Int32  # 0: a new group starts at the first message, 1: at the last
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


@header_of(RequestCode.ACK_MESSAGE)
class AckRequest(RequestHeader):
    """Request 200051: acknowledge a message."""

    consumer_group: str
    topic: str  # the topic that was read, possibly a retry topic
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str = ""


def ack_of(ext: Mapping[str, str] | None) -> tuple[str, str, int, int, str]:
    """Return group, topic, queue id, offset and handle of an acknowledgement: a fast path of `AckRequest`."""
    try:
        fields = ext if type(ext) is dict else {}  # another type may hold texts that are too long
        queue_id, offset = fields["queueId"], fields["offset"]
        if queue_id.isdecimal() and offset.isdecimal() and len(queue_id) < 10 and len(offset) < 19:
            return fields["consumerGroup"], fields["topic"], int(queue_id), int(offset), fields["extraInfo"]
    except KeyError:
        pass  # `AckRequest` raises the error below
    read = AckRequest.from_ext(ext)
    return read.consumer_group, read.topic, read.queue_id, read.offset, read.extra_info


@header_of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeRequest(RequestHeader):
    """Request 200053: change the invisible time of a message."""

    consumer_group: str
    topic: str  # the topic that was read, possibly a retry topic
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64  # ms
    lite_topic: str = ""


@header_of(RequestCode.PEEK_MESSAGE)
class PeekRequest(RequestHeader):
    """Request 200052: read messages without popping them."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


@header_of(RequestCode.NOTIFICATION)
class NotificationRequest(RequestHeader):
    """Request 200054: wait until a pop would find messages."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64  # ms
    born_time: Int64 = 0
    order: bool = False
    attempt_id: str | None = None


@header_of(RequestCode.POLLING_INFO)
class PollingInfoRequest(RequestHeader):
    """Request 200055: number of waiting pops."""

    consumer_group: str
    topic: str
    queue_id: Int32
