"""A Java broker registers with our name server, and our broker with a Java name server."""

from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, route_of, wait_for_route
from harness.polling import wait_until

pytestmark = pytest.mark.interop

GONE_S = 30.0
Running = Callable[[Process], Process]


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
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


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
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


def _send_and_receive(driver: Driver, topic: str, running: Running) -> None:
    """The topic is created by the first send, so its registration is part of this."""
    sent = driver.produce(topic, 20, tags="TagA,TagB")
    assert_same_messages(sent, driver.pull(topic))
    wanted = [e for e in sent if e["tags"] == "TagA"]
    consumer = running(driver.push(topic, f"{topic}-group", sub="TagA"))
    assert_same_messages(wanted, wait_for_bodies([consumer], wanted))
    consumer.stop()
