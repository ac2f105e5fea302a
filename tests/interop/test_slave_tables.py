"""A slave has the tables of its master: topics, groups, offsets, delay offsets, request modes.

A Java slave of our broker, and our slave of a Java broker.
"""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.probe import committed, request
from polling import until, wait_until

from gantrymq.client import Client, Message, ReceivedMessage
from gantrymq.loose_json import loads

pytestmark = pytest.mark.interop

SET_MESSAGE_REQUEST_MODE = 401
GROUP, COUNT, LEVEL = "CopiedGroup", 10, 1
DEADLINE_S = {"4.9.7": 60.0, "5.3.3": 150.0}  # 4.9.7 copies after 3 s, 5.3.3 after a minute
OURS_S = 30.0  # the master's address comes with a registration, and offsets wait for the copy of the log
SOON_S = 20.0


@pytest.mark.parametrize("version", ["4.9.7", pytest.param("5.3.3", marks=pytest.mark.long)])
def test_a_java_slave_copies_the_tables_of_our_broker(tmp_path: Path, topic: str, version: str) -> None:
    with GantryServer.both(tmp_path / "ours") as ours:
        create_topic(ours.namesrv, topic, 2)
        Driver("5.3.3", tmp_path, ours.namesrv).produce(topic, COUNT)
        asyncio.run(_consume_and_delay(ours.namesrv, ours.broker_address, topic))
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


@pytest.mark.parametrize(
    "version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", pytest.param("5.5.0", marks=pytest.mark.long)]
)
def test_our_slave_copies_the_tables_of_a_java_broker(tmp_path: Path, topic: str, version: str) -> None:
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker(version, tmp_path / "java", namesrv.address, keep=False) as master,
    ):
        create_topic(namesrv.address, topic, 2)
        Driver("5.3.3", tmp_path, namesrv.address).produce(topic, COUNT)
        asyncio.run(_consume_and_delay(namesrv.address, master.address, topic))
        expected = [committed(master.address, GROUP, topic, queue) for queue in range(2)]
        if version != "4.9.7":
            mode = {"topic": topic, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0}
            assert request(master.address, SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())[0]["code"] == 0
        slave = {"brokerRole": "SLAVE", "brokerId": "1", "mappedFileSizeCommitLog": "1048576"}
        with GantryServer.broker(tmp_path / "ours", namesrv.address, settings=slave) as ours:
            config = ours.store / "config"
            copied = _first(config, "consumerOffset.json", f"{topic}@{GROUP}", OURS_S)
            wait_until(
                lambda: [committed(ours.broker_address, GROUP, topic, queue) for queue in range(2)] == expected,
                f"offsets {expected}",
                OURS_S,
                lambda: str(copied),
            )
            groups = _first(config, "subscriptionGroup.json", GROUP, OURS_S)
            assert groups["subscriptionGroupTable"][GROUP]["retryMaxTimes"] == 16
            topics = _first(config, "topics.json", topic, OURS_S)
            assert topics["topicConfigTable"][topic]["readQueueNums"] == 2
            delays = _first(config, "delayOffset.json", f"{LEVEL}:", OURS_S)
            assert delays["offsetTable"] == {LEVEL: 1}
            if version != "4.9.7":
                modes = _first(config, "messageRequestMode.json", GROUP, OURS_S)
                assert modes["messageRequestModeMap"][topic][GROUP]["mode"] == "POP"
            create_topic(namesrv.address, f"{topic}b", 3)
            _first(config, "topics.json", f"{topic}b", SOON_S)


async def _consume_and_delay(namesrv: str, broker: str, topic: str) -> None:
    """Consume all messages, and one that was delayed; their offsets are stored when this returns."""
    seen = []

    async def take(message: ReceivedMessage) -> None:
        seen.append(message)

    async with Client(namesrv) as client, client.producer(f"{topic}-producers") as producer:
        await producer.send(Message(topic, b"later", delay_level=LEVEL))
        async with client.consumer(GROUP, topic, consume_from="first") as consumer:
            run = asyncio.create_task(consumer.run(take))
            await until(lambda: len(seen) > COUNT, "messages")
            await until(lambda: _stored(broker, topic) == COUNT + 1, "stored offsets")
        await run


def _stored(broker: str, topic: str) -> int:
    return sum(committed(broker, GROUP, topic, queue) or 0 for queue in range(2))


def _first(config: Path, name: str, word: str, deadline_s: float) -> dict[Any, Any]:
    """Return the content of a file of the slave once it has *word*."""

    def look() -> str:
        text = (config / name).read_text() if (config / name).exists() else ""
        return text if word in text else ""

    found: dict[Any, Any] = loads(wait_until(look, f"{word} in {name}", deadline_s).encode())
    return found
