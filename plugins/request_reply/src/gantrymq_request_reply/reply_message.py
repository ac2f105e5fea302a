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

from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props
from gantrymq.model import sys_flag
from gantrymq.model.hosts import host_text
from gantrymq.model.property_order import ordered_text
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.send import SendMessageRequest

__all__ = ["REPLY_TO_CLIENT", "push_request", "stored_reply"]

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"

_KEPT_BITS = sys_flag.COMPRESSED | sys_flag.COMPRESSION_MASK


def push_request(
    header: SendMessageRequest,
    own: Mapping[str, str],
    body: bytes | memoryview,
    born_host: bytes,
    store_host: bytes,
    now_ms: int,
) -> Command:
    """Return the request that pushes a reply to its producer.

    Args:
        header: header of the reply.
        own: properties of the reply, including those added by the broker.
        born_host, store_host: packed addresses of the replying consumer and of this broker.
    """
    text = ordered_text({**own, PUSH_REPLY_TIME: str(now_ms)}).decode("utf-8", "surrogatepass")
    fields = {
        "producerGroup": header.producer_group,
        "topic": header.topic,
        "defaultTopic": header.default_topic,
        "defaultTopicQueueNums": str(header.default_topic_queue_nums),
        "queueId": str(header.queue_id),
        "sysFlag": str(header.sys_flag),
        "bornTimestamp": str(header.born_timestamp),
        "flag": str(header.flag),
        "properties": text,
        "reconsumeTimes": str(header.reconsume_times),
        "unitMode": "true" if header.unit_mode else "false",
        "bornHost": host_text(born_host),
        "storeHost": host_text(store_host),
        "storeTimestamp": str(now_ms),
    }
    return request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, body)


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
