"""The official admin tool reads answers about 5,000 topics of 8 queues, 2,000 groups and 40,000 offsets."""

import asyncio
from pathlib import Path

import pytest
from harness import GantryServer, MqAdmin

from gantrymq.client import Client, Message
from gantrymq.formats.config import (
    CONSUMER_OFFSETS,
    GROUPS,
    TOPICS,
    ConsumerOffsetsFile,
    GroupsFile,
    TopicsFile,
    pretty,
)
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig

pytestmark = [pytest.mark.interop, pytest.mark.long]

QUEUES = 8
TOPIC_NAMES = [f"Large{number:04}" for number in range(5000)]
GROUP_NAMES = [f"large-group-{number}" for number in range(2000)]
TIMEOUT_MS = "60000"
SETTINGS = {"brokerName": "broker-a", "store": "memory"}


def write_tables(config: Path) -> None:
    """Each topic has committed offsets of one group."""
    topics = {name: TopicConfig(name, QUEUES, QUEUES) for name in TOPIC_NAMES}
    groups = {name: GroupConfig(name) for name in GROUP_NAMES}
    offsets = {
        f"{name}@{GROUP_NAMES[number % len(GROUP_NAMES)]}": dict.fromkeys(range(QUEUES), 1)
        for number, name in enumerate(TOPIC_NAMES)
    }
    config.mkdir(parents=True)
    (config / TOPICS).write_text(TopicsFile(topics).to_text())
    (config / GROUPS).write_text(pretty(GroupsFile(groups).to_json()))
    (config / CONSUMER_OFFSETS).write_text(pretty(ConsumerOffsetsFile(offsets).to_json()))


async def send_to_each_queue(namesrv: str) -> None:
    """Send one message to each queue; the tool shows only queues of which a message was consumed."""
    async with Client(namesrv) as client:
        producer = client.producer("large-producers")
        for begin in range(0, len(TOPIC_NAMES), 50):
            names = TOPIC_NAMES[begin : begin + 50]
            queues = [MessageQueue(name, "broker-a", queue_id) for name in names for queue_id in range(QUEUES)]
            await asyncio.gather(*(producer.send(Message(queue.topic, b"x"), queue) for queue in queues))


def test_mqadmin_reads_the_statistics_and_topics_of_a_large_broker(tmp_path: Path) -> None:
    write_tables(tmp_path / "store" / "config")
    with (
        GantryServer.both(tmp_path / "server", store=tmp_path / "store", settings=SETTINGS) as server,
        MqAdmin("5.3.3", tmp_path, server.namesrv) as tool,
    ):
        asyncio.run(send_to_each_queue(server.namesrv))
        stats = tool.run("brokerConsumeStats", "-b", server.broker_address, "-t", TIMEOUT_MS)
        rows = [line.split() for line in stats.splitlines() if line.startswith("Large")]
        assert {(row[0], row[1], int(row[3])) for row in rows} == {
            (name, GROUP_NAMES[number % len(GROUP_NAMES)], queue_id)
            for number, name in enumerate(TOPIC_NAMES)
            for queue_id in range(QUEUES)
        }
        assert "Diff Total: 0" in stats
        listed = tool.run("topicList", "-n", server.namesrv)
        assert set(TOPIC_NAMES) <= set(listed.split())
