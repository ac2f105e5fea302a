"""Registration requests for name servers: all topics (103), or one topic (217).

A name server reads frames up to 16 MiB, which hold about 50,000 topics. More topics are split, like by a RocketMQ
broker with ``enableSplitRegistration``: each part is a registration with its own version, since a name server ignores
a version that it knows. A name server with ``deleteTopicWithBrokerRegistration`` treats each part as complete and
keeps only the last one.

Source: apache/rocketmq broker/.../BrokerController.java (registerBrokerAll, registerSingleTopicAll).
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import attrs

from gantrymq import loose_json
from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest, RegisterTopicInNamesrvRequest
from gantrymq.remoting.listeners import text_of_addresses
from gantrymq.world import World

PART_BYTES: Final = 8 << 20  # approximate size of the topics in one registration; half of a frame
FEW: Final = 4000  # never split this number of topics
_TOPIC_BYTES: Final = 200  # size of one topic without its name, which occurs twice, and its attributes


class RegisterMessages:
    """Creates registration requests from the current topics."""

    def __init__(self, world: World, identity: BrokerIdentity, topics: TopicTable) -> None:
        self._clock, self._workers = world.clock, world.workers
        self.identity = identity
        self._topics = topics
        self._mappings = DataVersion(timestamp=world.clock.now_ms())  # of queue mappings, which do not exist here

    async def whole(self, known: DataVersion | None) -> AsyncIterator[tuple[Command, DataVersion]]:
        """Iterate over the requests (103) that register all topics, with their versions. They are encoded in threads.

        Args:
            known: the version that the name server has, if it knows all later changes. With the same version it adds
                only missing topics and keeps changes of operators (205). None: use the table's version.
        """
        topics = self._topics.registered()
        parts = [topics] if len(topics) <= FEW else await self._workers.run(_parts, topics)
        for number, part in enumerate(parts):
            if number and known is None:
                self._topics.version.next(self._clock.now_ms())
            version = known or attrs.evolve(self._topics.version)
            yield await self._whole(part, version), version

    async def _whole(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> Command:
        identity = self.identity
        body = await self._workers.run(_body, topics, version.to_json(), self._mappings.to_json())
        header = RegisterBrokerRequest(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            heartbeat_timeout_millis=identity.heartbeat_timeout_ms,
            enable_acting_master=identity.heartbeat_timeout_ms is not None,
            compressed=False,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
            listener_addrs=text_of_addresses(identity.listeners) or None,
        )
        return request(RequestCode.REGISTER_BROKER, header.to_ext(), body)

    def one(self, name: str) -> Command | None:
        """Return the request for one topic (217), or None if it was deleted, which needs a full registration."""
        topic = self._topics.registered_one(name)
        if topic is None:
            return None
        queues = {
            "brokerName": self.identity.broker_name,
            "perm": topic.perm,
            "readQueueNums": topic.read_queues,
            "topicSysFlag": topic.sys_flag,
            "writeQueueNums": topic.write_queues,
            **({"attributes": topic.attributes} if topic.attributes else {}),  # GantryMQ's own, for `withDetails`
        }
        header, body = RegisterTopicInNamesrvRequest(topic=name), loose_json.dumps({"queueDatas": [queues]})
        return request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, header.to_ext(), body)


def _parts(topics: Mapping[str, TopicConfig]) -> list[dict[str, TopicConfig]]:
    """Split *topics* into parts of about `PART_BYTES`; there is at least one part, which may be empty."""
    part, size = dict[str, TopicConfig](), 0
    parts = [part]
    for name, topic in topics.items():
        if size > PART_BYTES:
            part, size = {}, 0
            parts.append(part)
        part[name] = topic
        size += (
            _TOPIC_BYTES + 2 * len(name) + sum(2 * (len(key) + len(value)) for key, value in topic.attributes.items())
        )
    return parts


def _body(topics: Mapping[str, TopicConfig], version: dict[str, Any], mapping_version: dict[str, Any]) -> bytes:
    return loose_json.dumps_plain(
        {
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "dataVersion": version,
                "mappingDataVersion": mapping_version,
                "topicConfigTable": {name: topic.to_json() for name, topic in topics.items()},
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            },
        }
    )
