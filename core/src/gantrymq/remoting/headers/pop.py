"""Headers of pop consumption. These codes exceed 32767, so they travel under JSON headers only.

Source: apache/rocketmq remoting/.../protocol/header/PopMessage*.java, AckMessageRequestHeader.java,
PeekMessageRequestHeader.java, ChangeInvisibleTime*.java, Notification*.java, PollingInfo*.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, RequestHeader, request_header, response_header

__all__ = [
    "AckMessageRequest",
    "ChangeMessageInvisibletimeRequest",
    "ChangeMessageInvisibletimeResponse",
    "NotificationRequest",
    "NotificationResponse",
    "PeekMessageRequest",
    "PollingInfoRequest",
    "PollingInfoResponse",
    "PopMessageRequest",
    "PopMessageResponse",
]


@request_header(RequestCode.POP_MESSAGE)
class PopMessageRequest(RequestHeader):
    """Messages of a topic, hidden from others until acknowledged or too old."""

    consumer_group: str
    topic: str
    queue_id: Int32  # -1: all
    max_msg_nums: Int32  # at most 32
    invisible_time: Int64  # ms
    poll_time: Int64  # ms
    born_time: Int64 = 0  # ms; 0 is replaced by now
    init_mode: Int32  # 0 from the queue's start, 1 from its end
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


@response_header(RequestCode.POP_MESSAGE, RequestCode.PEEK_MESSAGE)
class PopMessageResponse(Header):
    """What the client needs to acknowledge; a peek fills only what it has."""

    pop_time: Int64 | None = None  # ms
    invisible_time: Int64 | None = None  # ms
    revive_qid: Int32 | None = None
    rest_num: Int64 | None = None
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@request_header(RequestCode.ACK_MESSAGE)
class AckMessageRequest(RequestHeader):
    """One popped message is done."""

    consumer_group: str
    topic: str  # possibly the retry topic
    queue_id: Int32
    extra_info: str  # as POP_CK
    offset: Int64  # queue offset


@request_header(RequestCode.PEEK_MESSAGE)
class PeekMessageRequest(RequestHeader):
    """Messages, without hiding them."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


@request_header(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeMessageInvisibletimeRequest(RequestHeader):
    """Hide a popped message for longer or shorter."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64  # ms


@response_header(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeMessageInvisibletimeResponse(Header):
    """The new parts of POP_CK."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


@request_header(RequestCode.NOTIFICATION)
class NotificationRequest(RequestHeader):
    """Tell me when there is something to pop."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


@response_header(RequestCode.NOTIFICATION)
class NotificationResponse(Header):
    """Whether there is something."""

    has_msg: bool
    polling_full: bool | None = None


@request_header(RequestCode.POLLING_INFO)
class PollingInfoRequest(RequestHeader):
    """How many pops wait on this queue?"""

    consumer_group: str
    topic: str
    queue_id: Int32


@response_header(RequestCode.POLLING_INFO)
class PollingInfoResponse(Header):
    """The number of waiting pops."""

    polling_num: Int32
