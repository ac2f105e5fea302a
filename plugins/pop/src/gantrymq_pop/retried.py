"""Messages that come back: a copy in the group's pop retry topic, given out once more.

Source: apache/rocketmq broker/.../processor/PopReviveService.java (reviveRetry, addRetryTopicIfNotExist).
"""

from __future__ import annotations

from typing import Final

from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import Broker, StoreMessage
from gantrymq.model import properties as property_text
from gantrymq.model.properties import TAGS
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig

__all__ = ["make_retry_topic", "retried"]

FIRST_POP_TIME: Final = "1ST_POP_TIME"


def retried(record: RecordView, topic: str, pop_time: int, store_host: bytes) -> StoreMessage:
    """The copy of *record* for the retry topic *topic*."""
    found = dict(record.properties)
    if record.reconsume_times == 0 or FIRST_POP_TIME not in found:
        found[FIRST_POP_TIME] = str(pop_time)
    return StoreMessage(
        topic,
        0,
        bytes(record.body),
        property_text.encode(found),
        tags_code=tags_code(found.get(TAGS)),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=store_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
    )


def make_retry_topic(broker: Broker, topic: str, group: str) -> None:
    """Create a retry topic of one queue, which the group reads from its first message."""
    if broker.topic(topic) is None:
        broker.create_topic(TopicConfig(topic, read_queues=1, write_queues=1))
        if broker.committed(group, Queue(topic, 0)) is None:
            broker.commit(group, Queue(topic, 0), 0)
