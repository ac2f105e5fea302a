"""Topic administration: 17, 18 (create), 21, 351 (read), 202 (statistics), 215 (delete).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Any

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import ITEMS_TOGETHER, ok, page, with_json
from gantrymq.errors import InvalidParameter, TopicNotExist
from gantrymq.loose_json import Entries, RawJson
from gantrymq.model import names
from gantrymq.model.access import Action, Requirement, requirements
from gantrymq.model.data_version import DataVersion
from gantrymq.model.json_members import objects_in, text_in
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.bodies import members_of, object_body_of
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.topics import (
    CreateTopicRequest,
    DeleteTopicInBrokerRequest,
    GetAllTopicConfigRequest,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
)
from gantrymq.remoting.responses import queue_texts
from gantrymq.remoting.serving import serves
from gantrymq.world.clock import TimeSlices

log = logging.getLogger(__name__)


def attribute_changes(text: str | None) -> dict[str, str]:
    """Parse ``+name=value,-name``.

    Raises:
        InvalidParameter: an item has another form.
    """
    changes: dict[str, str] = {}
    for piece in (text or "").split(","):
        if not piece.strip():
            continue
        name, mark, value = piece.strip().partition("=")
        if not name.startswith(("+", "-")) or (name.startswith("+") and not mark):
            raise InvalidParameter(f"attributes: {piece!r} is neither +name=value nor -name")
        changes[name] = value
    return changes


def _created_topics(asked: Command) -> Sequence[Requirement]:
    """Access rule of 18: the topics in the body."""
    configs = objects_in(object_body_of(asked), "topicConfigList")
    return requirements(Action.CREATE, topics=[text_in(each, "topicName", "") for each in configs])


class TopicRequests:
    """Handlers for the topic table."""

    def __init__(self, parts: Parts) -> None:
        self._check_role = parts.roles.check_tables
        self._world = parts.world
        self._identity = parts.identity
        self._store = parts.store
        self._messages = parts.messages
        self._topics = parts.topics
        self._delete_topic = parts.delete_topic
        self._put_tps = parts.stats.topic_put_tps
        self._sliced = parts.sliced_responses.make
        self._saved = parts.state.saved
        self._told = parts.registration.told

    @serves(RequestCode.UPDATE_AND_CREATE_TOPIC, action=Action.CREATE, topic="topic")
    async def create(self, asked: Command, connection: Connection) -> Command:
        """17: create or change one topic."""
        self._check_role()
        header = CreateTopicRequest.from_ext(asked.ext)
        if header.topic_filter_type not in ("SINGLE_TAG", "MULTI_TAG"):
            raise InvalidParameter(f"topicFilterType {header.topic_filter_type!r} is neither SINGLE_TAG nor MULTI_TAG")
        topic = TopicConfig(
            header.topic,
            header.read_queue_nums,
            header.write_queue_nums,
            header.perm,
            header.topic_filter_type,
            header.topic_sys_flag or 0,
            header.order,
        )
        self._update(topic, attribute_changes(header.attributes))
        await self._saved()
        await self._told()
        return ok(asked)

    @serves(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, access=_created_topics)
    async def create_many(self, asked: Command, connection: Connection) -> Command:
        """18: create or change several; all names are checked before the first is applied."""
        self._check_role()
        wanted = objects_in(object_body_of(asked), "topicConfigList")
        with members_of("topicConfigList"):
            topics = [TopicConfig.from_json(each) for each in wanted]
        for topic in topics:
            names.check_topic(topic.name)
            self._topics.check_own(topic.name, "changed")
        slices = TimeSlices(self._world.clock, ITEMS_TOGETHER)
        for topic in topics:
            self._update(topic, topic.attributes)
            await slices.item_done()
        await self._saved()
        await self._told()
        return ok(asked)

    @serves(RequestCode.GET_ALL_TOPIC_CONFIG, action=Action.GET)
    async def all_configs(self, asked: Command, connection: Connection) -> Command:
        """21: return all topics, or a page of them."""
        header = GetAllTopicConfigRequest.from_ext(asked.ext)
        listed: Iterable[str] = self._topics.view
        ext = {}
        if header.topic_seq is not None:
            listed, total = page(
                listed, header.topic_seq, header.max_topic_num, header.data_version, self._topics.version
            )
            ext["totalTopicNum"] = str(total)
        body = {
            "dataVersion": self._topics.version.to_json(),
            "mappingDataVersion": DataVersion().to_json(),
            "topicConfigTable": Entries(self._configs(sorted(listed))),
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
        return await self._sliced(asked, connection, body, ext)

    def _configs(self, listed: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over the topics with these names, except for those deleted meanwhile."""
        for name in listed:
            topic = self._topics.view.get(name)
            if topic is not None:
                yield name, topic.to_json()

    @serves(RequestCode.GET_TOPIC_CONFIG, action=Action.GET, topic="topic")
    def config(self, asked: Command, connection: Connection) -> Command:
        """351: return one topic."""
        header = GetTopicConfigRequest.from_ext(asked.ext)
        return with_json(asked, self._required(header.topic).to_json())

    @serves(RequestCode.GET_TOPIC_STATS_INFO, action=Action.GET, topic="topic")
    async def stats(self, asked: Command, connection: Connection) -> Command:
        """202: return offsets and last update time of a topic's queues."""
        topic = self._required(GetTopicStatsInfoRequest.from_ext(asked.ext).topic)
        body = {"offsetTable": Entries(self._queues(topic)), "topicPutTps": self._put_tps(topic.name)}
        return await self._sliced(asked, connection, body)

    async def _queues(self, topic: TopicConfig) -> AsyncGenerator[tuple[RawJson, RawJson], None]:
        text_of = queue_texts(topic.name, self._identity.broker_name)
        async for queue, min_offset, max_offset, updated_ms in self._messages.statistics(topic):
            yield (
                text_of(queue.queue_id),
                RawJson(
                    f'{{"lastUpdateTimestamp":{updated_ms},"maxOffset":{max_offset},"minOffset":{max(0, min_offset)}}}'
                ),
            )

    @serves(RequestCode.DELETE_TOPIC_IN_BROKER, action=Action.DELETE, topic="topic")
    async def delete(self, asked: Command, connection: Connection) -> Command:
        """215: delete a topic with its queues and committed offsets."""
        self._check_role()
        await self._delete_topic(DeleteTopicInBrokerRequest.from_ext(asked.ext).topic)
        return ok(asked)

    def _update(self, topic: TopicConfig, changes: dict[str, str]) -> None:
        """Apply a change. If fewer read queues hide messages, as in RocketMQ, log a warning."""
        before = self._topics.view.get(topic.name)
        self._topics.update(topic, changes)
        gone = range(topic.read_queues, before.read_queues if before is not None else 0)
        bounds = [self._store.bounds(Queue(topic.name, queue_id)) for queue_id in gone]
        if held := sum(each.max_offset - max(0, each.min_offset) for each in bounds):
            log.warning(
                "topic %s has %d read queues instead of %d now: %d messages in queues %d to %d are in no consumer's "
                "reach until it has as many again",
                *(topic.name, topic.read_queues, gone.stop, held, gone.start, gone.stop - 1),
            )

    def _required(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise TopicNotExist(f"No topic in this broker. topic: {name}; see: gantrymq topic list")
        return topic
