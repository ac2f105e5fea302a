"""A Java broker registers with our name server, and our broker with a Java name server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, route_of, wait_for_route
from polling import wait_until

pytestmark = pytest.mark.interop

GONE_S = 30.0
Running = Callable[[Process], Process]


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_a_java_broker_registers_with_our_name_server(
    tmp_path: Path, topic: str, running: Running, version: str
) -> None:
    with (
        GantryServer.name_server(tmp_path / "ours") as server,
        JavaBroker(version, tmp_path / "java", server.namesrv) as broker,
    ):
        _send_and_receive(Driver("5.3.3", tmp_path, server.namesrv), topic, running)
        broker.stop()
        wait_until(lambda: route_of(server.namesrv, topic) is None, "route gone", GONE_S)


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_our_broker_registers_with_a_java_name_server(
    tmp_path: Path, topic: str, running: Running, version: str
) -> None:
    with (
        JavaNameServer(version, tmp_path / "java") as namesrv,
        GantryServer.broker(tmp_path / "ours", namesrv.address) as broker,
    ):
        wait_for_route(namesrv.address)
        _send_and_receive(Driver("4.9.8", tmp_path, namesrv.address), topic, running)
        assert broker.stop() == 0
        wait_until(lambda: route_of(namesrv.address, topic) is None, "route gone", GONE_S)


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_our_broker_tells_a_java_name_server_more_topics_than_a_frame_holds(tmp_path: Path, version: str) -> None:
    names = [f"T{number:05d}{'x' * 90}" for number in range(60_000)]
    folder = tmp_path / "ours" / "store" / "config"
    folder.mkdir(parents=True)
    topics = {name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in names}
    (folder / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    with JavaNameServer(version, tmp_path / "java") as namesrv, GantryServer.broker(tmp_path / "ours", namesrv.address):
        for name in names[:: len(names) // 20]:
            assert route_of(namesrv.address, name) is not None


def _send_and_receive(driver: Driver, topic: str, running: Running) -> None:
    """The first send creates the topic, so its registration is part of this test."""
    sent = driver.produce(topic, 20, tags="TagA,TagB")
    assert_same_messages(sent, driver.pull(topic))
    wanted = [e for e in sent if e["tags"] == "TagA"]
    consumer = running(driver.push(topic, f"{topic}-group", sub="TagA"))
    assert_same_messages(wanted, wait_for_bodies([consumer], wanted))
    consumer.stop()
