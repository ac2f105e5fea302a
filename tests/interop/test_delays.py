"""Delay levels with official clients: on time, and once, across restarts, kills and a change of the broker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.java_servers import SMALL_STORE
from harness.peers import used
from polling import wait_until

from gantrymq.client import Client

pytestmark = pytest.mark.interop

LEVELS = "1s 4s 20s 2h"
SETTINGS = {**SMALL_STORE, "messageDelayLevel": LEVELS}
DELAYS_MS = (1000, 4000, 20_000, 7_200_000)
DEADLINE_S = 60.0
OURS_LATE_MS = 500  # on a machine that others use too
JAVA_LATE_MS = 2500  # delivery runs ten times a second, and starts a second after the broker


def bodies(driver: Driver, topic: str) -> Counter[str]:
    """Return the events of consumers of *topic*, from their start on."""
    return Counter(str(event["body"]) for event in driver.pull(topic))


def stored(namesrv: str, topic: str) -> int:
    """Return the number of messages of *topic*, read by our client, which starts faster."""

    async def ask() -> int:
        async with Client(namesrv) as client, client.reader(group="TOOLS_CONSUMER") as consumer:
            return sum([await consumer.max_offset(queue) for queue in await consumer.queues(topic)])

    used("gantrymq.client")
    return asyncio.run(ask())


def sent(prefix: str, *levels: str) -> list[str]:
    return [f"{prefix}-{index}" for index in range(len(levels))]


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def test_messages_of_an_official_client_come_at_their_time(
    version: str, ours: GantryServer, topic: str, tmp_path: Path
) -> None:
    create_topic(ours.namesrv, topic, 2)
    driver = Driver(version, tmp_path, ours.namesrv)
    consumer = driver.push(topic, f"CG_{topic}", until=6)
    driver.produce(topic, 6, levels="1,2,1,0,2,1", tags="A,B", keys_prefix="k")
    received = [event for event in consumer.finish(DEADLINE_S) if event["event"] == "received"]
    assert sorted(str(event["body"]) for event in received) == sorted(sent("message", *"121021"))
    for event in received:
        index = int(str(event["body"]).rpartition("-")[2])
        level = "121021"[index]
        waited = int(event["storeTimestamp"]) - int(event["bornTimestamp"])
        delay = {"0": 0, "1": 1000, "2": 5000}[level]
        assert delay <= waited <= delay + OURS_LATE_MS
        assert event["tags"] == "AB"[index % 2]
        assert event["keys"] == f"k{index}"
        assert event["properties"].get("DELAY", "0") == level
    assert min(received, key=lambda event: int(event["storeTimestamp"]))["body"] == "message-3"


def test_they_come_once_across_a_kill_a_restart_and_a_java_broker_that_goes_on(topic: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with GantryServer.both(tmp_path / "first", settings=SETTINGS) as server:
        store = server.store
        create_topic(server.namesrv, topic, 2)
        driver = Driver("5.3.3", tmp_path / "client1", server.namesrv)
        driver.produce(topic, 9, levels="1,2,3", body_prefix="a")
        wait_until(lambda: stored(server.namesrv, topic) >= 3, "the first level", DEADLINE_S)
        server.kill()
    with GantryServer.both(tmp_path / "second", store=store, settings=SETTINGS) as server:
        driver = Driver("4.9.8", tmp_path / "client2", server.namesrv)
        wait_until(lambda: stored(server.namesrv, topic) >= 6, "the second level", DEADLINE_S)
        found = bodies(driver, topic)
        late = time.monotonic() - began > DELAYS_MS[2] / 1000 - 2
        assert late or found == Counter(body for n, body in enumerate(sent("a", *"123123123")) if n % 3 < 2)
        driver.produce(topic, 2, levels="4", body_prefix="b")
        driver.produce(topic, 2, levels="3", body_prefix="c")
        assert server.stop() == 0
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker("5.3.3", tmp_path / "java", namesrv.address, store=store, settings=SETTINGS, keep=False),
    ):
        driver = Driver("5.3.3", tmp_path / "client3", namesrv.address)
        wait_until(lambda: stored(namesrv.address, topic) >= 11, "the third level", DEADLINE_S)
        assert bodies(driver, topic) == Counter([*sent("a", *"123123123"), *sent("c", *"33")])
        waiting = [str(event["body"]) for event in driver.pull("SCHEDULE_TOPIC_XXXX")]
        assert sorted(waiting)[-2:] == ["c-0", "c-1"]
        assert waiting.count("b-0") == 1


def test_a_java_broker_is_killed_and_ours_goes_on(topic: str, tmp_path: Path) -> None:
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker("5.3.3", tmp_path / "java", namesrv.address, settings=SETTINGS) as broker,
    ):
        driver = Driver("5.3.3", tmp_path / "client1", namesrv.address)
        driver.produce(topic, 6, levels="1,3", body_prefix="a")
        wait_until(lambda: stored(namesrv.address, topic) >= 3, "the first level", DEADLINE_S)
        store = broker.store
        broker.kill()
    with GantryServer.both(tmp_path / "ours", store=store, settings=SETTINGS) as server:
        driver = Driver("5.3.3", tmp_path / "client2", server.namesrv)
        wait_until(lambda: stored(server.namesrv, topic) >= 6, "the third level", DEADLINE_S)
        assert bodies(driver, topic) == Counter(sent("a", *"131313"))
        for event in driver.pull(topic):
            delay = DELAYS_MS[int(event["properties"]["DELAY"]) - 1]
            waited = int(event["storeTimestamp"]) - int(event["bornTimestamp"])
            assert delay <= waited <= delay + JAVA_LATE_MS
        assert server.stop() == 0
