"""A reply as pushed to the requesting producer (326), and as stored. No I/O.

    324, 325   consumer -> broker     a send with a client id in the property REPLY_TO_CLIENT
    326        broker -> producer     the same header with long names, bornHost, storeHost, storeTimestamp,
                                      PUSH_REPLY_TIME

The producer finds the waiting request by the property CORRELATION_ID, which the broker does not use.

Source: apache/rocketmq broker/.../processor/ReplyMessageProcessor.java (pushReplyMessage),
remoting/.../protocol/header/ReplyMessageRequestHeader.java.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.plugin import properties as props
from gantrymq.plugin import sys_flag
from gantrymq.plugin.formats import tags_code
from gantrymq.plugin.headers import SendMessageRequest
from gantrymq.plugin.interfaces import StoreMessage
from gantrymq.plugin.model import PushedReply
from gantrymq.plugin.properties import ordered_text

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
_PUSH_REPLY_TIME = "PUSH_REPLY_TIME"

_KEPT_BITS = sys_flag.COMPRESSED | sys_flag.COMPRESSION_MASK


def pushed_reply(
    header: SendMessageRequest,
    own: Mapping[str, str],
    body: bytes | memoryview,
    born_host: bytes,
    store_host: bytes,
    now_ms: int,
) -> PushedReply:
    """Return the reply to deliver to the producer.

    Args:
        header: header of the reply.
        own: properties of the reply, including those added by the broker.
        born_host, store_host: packed addresses of the replying consumer and of this broker.
    """
    return PushedReply(
        header.producer_group,
        header.topic,
        header.default_topic,
        header.default_topic_queue_nums,
        header.queue_id,
        header.sys_flag,
        header.flag,
        header.born_timestamp,
        ordered_text({**own, _PUSH_REPLY_TIME: str(now_ms)}).decode("utf-8", "surrogatepass"),
        header.reconsume_times,
        bool(header.unit_mode),
        body,
        born_host,
        store_host,
        now_ms,
    )


def stored_reply(
    header: SendMessageRequest,
    queue_id: int,
    own: Mapping[str, str],
    body: bytes | memoryview,
    born_host: bytes,
    store_host: bytes,
) -> StoreMessage:
    """Return the message to store for a reply. It keeps the compression flags, which Java drops."""
    return StoreMessage(
        header.topic,
        queue_id,
        body,
        ordered_text(own),
        tags_code=tags_code(own.get(props.TAGS)),
        flag=header.flag,
        sys_flag=header.sys_flag & _KEPT_BITS,
        born_timestamp=header.born_timestamp,
        born_host=born_host,
        store_host=store_host,
        reconsume_times=header.reconsume_times,
        wait_stored=own.get(props.WAIT) != "false",
    )
