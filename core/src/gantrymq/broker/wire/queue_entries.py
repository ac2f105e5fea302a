"""Raw queue entries (321).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (queryConsumeQueue).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gantrymq.broker.parts import Parts
from gantrymq.errors import InvalidParameter, RequestRefused
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.formats.tags_code import delay_levels_of, tags_code_of
from gantrymq.interfaces import GetLimit, GetResult
from gantrymq.loose_json import Items
from gantrymq.model.access import Action
from gantrymq.model.queue import Queue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.groups import QueryConsumeQueueRequest
from gantrymq.remoting.serving import serves

MAX_ENTRIES = 1000  # per response; RocketMQ has no limit


class QueueEntryRequests:
    """Handler for queue entries."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._topics = parts.topics
        self._sliced = parts.sliced_responses.make
        self._clients = parts.clients
        self._levels_ms = delay_levels_of(parts.settings)

    @serves(RequestCode.QUERY_CONSUME_QUEUE, action=Action.GET, topic="topic", group="consumerGroup")
    async def entries(self, asked: Command, connection: Connection) -> Command:
        """321: return up to *count* entries from *index* on, with the subscription of a given group.

        Entries are derived from the records they point at, so entries without a record are omitted.
        """
        header = QueryConsumeQueueRequest.from_ext(asked.ext)
        topic = self._topics.get(header.topic or "")
        if topic is None or not 0 <= header.queue_id < max(topic.read_queues, topic.write_queues):
            raise RequestRefused(1, f"{header.queue_id}@{header.topic} is not exist!")
        if header.index < 0 or header.count < 0:
            raise InvalidParameter(f"index {header.index} and count {header.count} may not be negative")
        queue = Queue(topic.name, header.queue_id)
        bounds = self._store.bounds(queue)
        found = [
            {
                "eval": False,
                "physicOffset": record.log_offset,
                "physicSize": record.total_size,
                "tagsCode": tags_code_of(record.topic, record.properties, record.store_timestamp, self._levels_ms),
            }
            async for record in self._records(queue, header.index, min(header.count, MAX_ENTRIES))
        ]
        body: dict[str, Any] = {"maxQueueIndex": bounds.max_offset, "minQueueIndex": bounds.min_offset}
        if header.consumer_group:
            online = self._clients.consumer_group(header.consumer_group)
            subscription = online.subscriptions.get(topic.name) if online is not None else None
            body["filterData"] = "null" if subscription else f"{header.consumer_group}@{topic.name} is not online!"
            if subscription is not None:
                body["subscriptionData"] = subscription.to_json()
        return await self._sliced(asked, connection, {**body, "queueData": Items(found)})

    async def _records(self, queue: Queue, queue_offset: int, count: int) -> AsyncIterator[RecordView]:
        while count > 0:
            found = self._store.get(queue, queue_offset, GetLimit(count), None)
            result = found if isinstance(found, GetResult) else await found
            for buffer in result.buffers:
                for record in iter_records(buffer):
                    yield record
            if not result.count:
                return
            count -= result.count
            queue_offset = result.next_offset
