"""Redelivery: the copy of a message in the group's pop retry topic.

The order of the properties follows Java's HashMap: either a map that holds the tag already and grows from 16 buckets,
or an empty map sized for the number of properties.

Source: apache/rocketmq broker/.../processor/PopReviveService.java (reviveRetry, addRetryTopicIfNotExist).
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.formats import RecordView, tags_code
from gantrymq.plugin.interfaces import BrokerConsumers, StoreMessage
from gantrymq.plugin.model import Queue, TopicConfig
from gantrymq.plugin.properties import MAX_BYTES, TAGS, java_map_order, ordered_text

_FIRST_POP_TIME: Final = "1ST_POP_TIME"
_TAGGED_BUCKETS: Final = 16


def retry_copy(record: RecordView, topic: str, pop_time: int, store_host: bytes) -> StoreMessage:
    """Return the copy of *record* for the retry topic *topic*."""
    found = dict(record.properties)
    first = [TAGS] if TAGS in found else []
    buckets = _TAGGED_BUCKETS if first else _buckets_for(len(found))
    found = {name: found[name] for name in (*first, *java_map_order(found))}
    if record.reconsume_times == 0 or _FIRST_POP_TIME not in found:
        found[_FIRST_POP_TIME] = str(pop_time)
    text = ordered_text(found, buckets)
    if len(text) > MAX_BYTES:
        del found[_FIRST_POP_TIME]  # no room in the properties
        text = ordered_text(found, buckets)
    return StoreMessage(
        topic,
        0,
        bytes(record.body),
        text,
        tags_code=tags_code(found.get(TAGS)),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=store_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
    )


def _buckets_for(count: int) -> int:
    """Return the bucket count of an empty HashMap after putMapEntries with *count* entries."""
    wanted = int(count / 0.75 + 1) if count else _TAGGED_BUCKETS
    return 1 << (wanted - 1).bit_length()


def make_retry_topic(broker: BrokerConsumers, topic: str, group: str) -> None:
    """Create a retry topic with one queue, which the group reads from the first message."""
    if broker.topics.get(topic) is None:
        broker.topics.put(TopicConfig(topic, read_queues=1, write_queues=1))
        if broker.offsets.committed(group, Queue(topic, 0)) is None:
            broker.offsets.commit(group, Queue(topic, 0), 0)
