"""Offsets: 14, 15 (committed), 29 (by time), 30, 31 (range), 32 (earliest store time), 45 (of delay levels).

Source: apache/rocketmq broker/.../processor/ConsumerManageProcessor.java, AdminBrokerProcessor.java.
"""

from __future__ import annotations

from gantrymq.broker.consuming.query import store_time_at
from gantrymq.broker.parts import Parts
from gantrymq.broker.queue_kinds import reported_min_offset
from gantrymq.broker.wire.responses import ok, with_json
from gantrymq.errors import InvalidParameter
from gantrymq.interfaces import BoundaryType
from gantrymq.model.access import Action
from gantrymq.model.data_version import DataVersion
from gantrymq.model.queue import Queue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.offsets import (
    GetEarliestMsgStoretimeRequest,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    QueryConsumerOffsetRequest,
    SearchOffsetByTimestampRequest,
    UpdateConsumerOffsetRequest,
)
from gantrymq.remoting.serving import serves


class OffsetRequests:
    """Handlers for queries and commits of offsets."""

    def __init__(self, parts: Parts) -> None:
        self._offset_commits = parts.offset_commits
        self._store = parts.store
        self._messages = parts.messages
        self._topics = parts.topics

    @serves(RequestCode.QUERY_CONSUMER_OFFSET, action=(Action.SUB, Action.GET), topic="topic", group="consumerGroup")
    def query(self, asked: Command, connection: Connection) -> Command:
        """14: return the committed offset."""
        header = QueryConsumerOffsetRequest.from_ext(asked.ext)
        queue = Queue(header.topic, header.queue_id)
        zero_if_new = header.set_zero_if_not_found is not False
        begin = self._offset_commits.begin(header.consumer_group, queue, zero_if_new=zero_if_new)
        return ok(asked, {"offset": str(begin)})

    @serves(
        RequestCode.UPDATE_CONSUMER_OFFSET, action=(Action.SUB, Action.UPDATE), topic="topic", group="consumerGroup"
    )
    def update(self, asked: Command, connection: Connection) -> Command | None:
        """15: commit an offset; usually one-way."""
        header = UpdateConsumerOffsetRequest.from_ext(asked.ext)
        queue = Queue(header.topic, header.queue_id)
        commits = self._offset_commits
        if asked.is_oneway:
            if not commits.repeats(header.consumer_group, queue, header.commit_offset):
                commits.commit_of_client(header.consumer_group, queue, header.commit_offset)
            return None
        commits.commit_of_client(header.consumer_group, queue, header.commit_offset)
        return ok(asked, {})

    @serves(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, action=Action.GET, topic="topic")
    async def search(self, asked: Command, connection: Connection) -> Command:
        """29: return the queue offset for a store time."""
        header = SearchOffsetByTimestampRequest.from_ext(asked.ext)
        boundary = (header.boundary_type or "LOWER").upper()
        if boundary not in BoundaryType.__members__:
            raise InvalidParameter(f"boundaryType {header.boundary_type!r} is neither LOWER nor UPPER")
        queue = Queue(header.topic, header.queue_id)
        found = await self._messages.offset_at(queue, header.timestamp, BoundaryType[boundary])
        return ok(asked, {"offset": str(found)})

    @serves(RequestCode.GET_MAX_OFFSET, action=Action.GET, topic="topic")
    def max_offset(self, asked: Command, connection: Connection) -> Command:
        """30: return the next offset to be written."""
        header = GetMaxOffsetRequest.from_ext(asked.ext)
        return ok(asked, {"offset": str(self._store.bounds(Queue(header.topic, header.queue_id)).max_offset)})

    @serves(RequestCode.GET_MIN_OFFSET, action=Action.GET, topic="topic")
    def min_offset(self, asked: Command, connection: Connection) -> Command:
        """31: return the minimum offset."""
        header = GetMinOffsetRequest.from_ext(asked.ext)
        bounds = self._store.bounds(Queue(header.topic, header.queue_id))
        return ok(asked, {"offset": str(reported_min_offset(self._topics.get(header.topic), bounds))})

    @serves(RequestCode.GET_EARLIEST_MSG_STORETIME, action=Action.GET, topic="topic")
    async def earliest(self, asked: Command, connection: Connection) -> Command:
        """32: return the store time of the oldest message; -1 if there is none."""
        header = GetEarliestMsgStoretimeRequest.from_ext(asked.ext)
        queue = Queue(header.topic, header.queue_id)
        timestamp = await store_time_at(self._store, queue, self._store.bounds(queue).min_offset)
        return ok(asked, {"timestamp": str(timestamp)})

    @serves(RequestCode.GET_ALL_DELAY_OFFSET, action=Action.GET)
    def delay_offsets(self, asked: Command, connection: Connection) -> Command:
        """45: return an empty table of delay levels, which slaves copy; the plugin `schedule` has the real one."""
        return with_json(asked, {"dataVersion": DataVersion().to_json(), "offsetTable": {}})
