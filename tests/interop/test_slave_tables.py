"""A Java slave of our broker has the tables of its master: topics, groups, offsets, delay offsets, request modes."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from harness import Driver, GantryServer, JavaBroker, create_topic
from harness.probe import committed, request
from polling import wait_until

from gantrymq.client import Client, Message
from gantrymq.loose_json import loads

pytestmark = pytest.mark.interop

SET_MESSAGE_REQUEST_MODE = 401
GROUP, COUNT, LEVEL = "CopiedGroup", 10, 1
DEADLINE_S = {"4.9.7": 60.0, "5.3.3": 150.0}  # 4.9.7 copies after 3 s, 5.3.3 after a minute


@pytest.mark.parametrize("version", ["4.9.7", pytest.param("5.3.3", marks=pytest.mark.long)])
def test_a_java_slave_copies_the_tables_of_our_broker(tmp_path: Path, topic: str, version: str) -> None:
    with GantryServer.both(tmp_path / "ours") as ours:
        create_topic(ours.namesrv, topic, 2)
        Driver("5.3.3", tmp_path, ours.namesrv).produce(topic, COUNT)
        asyncio.run(_consume_and_delay(ours.namesrv, topic))
        mode = {"topic": topic, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0}
        assert request(ours.broker_address, SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())[0]["code"] == 0
        expected = [committed(ours.broker_address, GROUP, topic, queue) for queue in range(2)]
        slave = {"brokerRole": "SLAVE", "brokerId": "1", "brokerName": socket.gethostname(), "timerWheelEnable": "true"}
        with JavaBroker(version, tmp_path / "java", ours.namesrv, settings=slave, keep=False) as broker:
            config = broker.store / "config"
            copied = _first(config, "consumerOffset.json", f"{topic}@{GROUP}", DEADLINE_S[version])
            assert copied["offsetTable"][f"{topic}@{GROUP}"] == dict(enumerate(expected))
            delays = _first(config, "delayOffset.json", "offsetTable", DEADLINE_S[version])
            assert delays["offsetTable"] == {LEVEL: 1}
            groups = _first(config, "subscriptionGroup.json", GROUP, DEADLINE_S[version])
            assert groups["subscriptionGroupTable"][GROUP]["retryMaxTimes"] == 16
            topics = _first(config, "topics.json", topic, DEADLINE_S[version])
            assert topics["topicConfigTable"][topic]["readQueueNums"] == 2
            if version != "4.9.7":
                modes = _first(config, "messageRequestMode.json", GROUP, DEADLINE_S[version])
                assert modes["messageRequestModeMap"][topic][GROUP]["mode"] == "POP"


async def _consume_and_delay(namesrv: str, topic: str) -> None:
    """Consume all messages, and one that was delayed."""
    seen = []
    async with Client(namesrv) as client, client.producer(f"{topic}-producers") as producer:
        await producer.send(Message(topic, b"later", delay_level=LEVEL))
        async with client.consumer(GROUP, topic, consume_from="first") as consumer:
            async for message in consumer:
                seen.append(message)
                if len(seen) > COUNT:
                    break


def _first(config: Path, name: str, word: str, deadline_s: float) -> dict[Any, Any]:
    """Return the content of a file of the slave once it has *word*."""

    def look() -> str:
        text = (config / name).read_text() if (config / name).exists() else ""
        return text if word in text else ""

    found: dict[Any, Any] = loads(wait_until(look, f"{word} in {name}", deadline_s).encode())
    return found
