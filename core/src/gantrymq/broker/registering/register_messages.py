"""What a broker tells name servers of its topics: all of them (103), or one (217).

A name server reads frames up to 16 MiB, which some 50,000 topics fill. More are told in parts, as a RocketMQ broker
with ``enableSplitRegistration`` does: each part is a registration of its own under a version of its own, since a name
server passes over a version that it knows. A name server with ``deleteTopicWithBrokerRegistration`` takes each part
for the whole and keeps the last one only.

Source: apache/rocketmq broker/.../BrokerController.java (registerBrokerAll, registerSingleTopicAll).
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import attrs

from gantrymq import loose_json
from gantrymq.broker.identity import Identity
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest, RegisterTopicInNamesrvRequest
from gantrymq.world import World

__all__ = ["PART_BYTES", "RegisterMessages"]

PART_BYTES: Final = 8 << 20  # of the text of topics in one registration, about; half of a frame
FEW: Final = 4000  # topics that are one part, whatever their names
TOPIC_BYTES: Final = 200  # of one topic's text besides its name, which is there twice, and its attributes


class RegisterMessages:
    """The requests that tell name servers of one broker's topics as they are now."""

    def __init__(self, world: World, identity: Identity, topics: TopicTable) -> None:
        self._clock, self._workers = world.clock, world.workers
        self._identity = identity
        self._topics = topics
        self._mappings = DataVersion(timestamp=world.clock.now_ms())  # of the queue mappings we never have

    async def whole(self, known: DataVersion | None) -> AsyncIterator[tuple[Command, DataVersion]]:
        """All topics in one request (103), or in as many as they need, each with its version; made in threads.

        Args:
            known: the version that the name server has, if it was told of everything that changed since: under that it
                takes only the topics it lacks, and what an operator changed there (205) stays. None: the table's.
        """
        topics = self._topics.registered()
        parts = [topics] if len(topics) <= FEW else await self._workers.run(_parts, topics)
        for number, part in enumerate(parts):
            if number and known is None:
                self._topics.version.next(self._clock.now_ms())
            version = known or attrs.evolve(self._topics.version)
            yield await self._whole(part, version), version

    async def _whole(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> Command:
        identity = self._identity
        body = await self._workers.run(_body, topics, version.to_json(), self._mappings.to_json())
        header = RegisterBrokerRequest(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            enable_acting_master=False,
            compressed=False,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        return request(RequestCode.REGISTER_BROKER, header.to_ext(), body)

    def one(self, name: str) -> Command | None:
        """One topic (217); None for one that is gone, which only a whole registration tells."""
        topic = self._topics.registered_one(name)
        if topic is None:
            return None
        queues = {
            "brokerName": self._identity.broker_name,
            "perm": topic.perm,
            "readQueueNums": topic.read_queues,
            "topicSysFlag": topic.sys_flag,
            "writeQueueNums": topic.write_queues,
        }
        header, body = RegisterTopicInNamesrvRequest(topic=name), loose_json.dumps({"queueDatas": [queues]})
        return request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, header.to_ext(), body)


def _parts(topics: Mapping[str, TopicConfig]) -> list[dict[str, TopicConfig]]:
    """*topics* in parts of some `PART_BYTES`; one part, which may be empty, at least."""
    part, size = dict[str, TopicConfig](), 0
    parts = [part]
    for name, topic in topics.items():
        if size > PART_BYTES:
            part, size = {}, 0
            parts.append(part)
        part[name] = topic
        size += (
            TOPIC_BYTES + 2 * len(name) + sum(2 * (len(key) + len(value)) for key, value in topic.attributes.items())
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
