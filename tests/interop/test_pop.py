"""Pop consumption: the official client pops on our broker; stores with unacknowledged pops move to and from Java
brokers."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, create_topic
from harness.java_servers import SMALL_STORE
from harness.pops import VERSION, Pops
from polling import wait_until

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
GROUP = "popping"
ARRIVE_S = 40.0
INVISIBLE_MS = 15_000
NAMED = {"brokerName": "broker-a"}
TIMER = {"timerWheelEnable": "true"}  # without it a Java broker pops nothing


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Return a server whose broker has the name in the receipt handles."""
    with GantryServer.both(tmp_path_factory.mktemp("ours"), settings=NAMED) as server:
        yield server


def bodies(messages: list[dict[str, object]]) -> list[str]:
    return sorted(str(each["body"]) for each in messages)


def test_a_push_consumer_in_pop_mode(ours: GantryServer, topic: str, tmp_path: Path, running: Running) -> None:
    """Each message arrives; one whose listener fails arrives again 10 s later, and then no more."""
    create_topic(ours.namesrv, topic)
    pops = running(Pops(tmp_path / "pops", ours.namesrv, ours.broker_address))
    pops.pop(topic, GROUP)  # so that the group exists
    pops.mode(topic, GROUP)
    sent = [str(each["body"]) for each in Driver(VERSION, tmp_path, ours.namesrv).produce(topic, 40, body_prefix="a")]
    pops.push(topic, GROUP, failing=sent[7])

    def received() -> list[str]:
        return sorted(str(each["body"]) for each in pops.of("received"))

    wait_until(lambda: received() == sorted([*sent, sent[7]]), "every message", ARRIVE_S, lambda: str(received()))
    again = [each for each in pops.of("received") if each["body"] == sent[7]]
    assert [each["reconsumeTimes"] for each in again] == [0, 1]
    assert all("POP_CK" in each["properties"] for each in again)


def test_pops_acknowledged_changed_and_left(ours: GantryServer, topic: str, tmp_path: Path, running: Running) -> None:
    create_topic(ours.namesrv, topic)
    pops = running(Pops(tmp_path / "pops", ours.namesrv, ours.broker_address))
    sent = [str(each["body"]) for each in Driver(VERSION, tmp_path, ours.namesrv).produce(topic, 12, body_prefix="b")]
    popped = pops.pop(topic, GROUP, invisible_ms=10_000)
    assert bodies(popped) == sorted(sent)
    by_queue: dict[str, list[str]] = {}
    for each in popped[:8]:
        by_queue.setdefault(each["handle"].split(" ")[6], []).append(each["handle"])
    for handles in by_queue.values():
        assert pops.batch_ack(topic, GROUP, handles) == "OK"
    changed, acked, *left = popped[8:]
    assert pops.ack(topic, GROUP, acked["handle"]) == "OK"
    new = pops.change(topic, GROUP, changed["handle"], 60_000)
    assert new.split(" ")[2] == "60000"
    back = pops.pop(topic, GROUP, poll_ms=13_000)
    assert bodies(back) == bodies(left)
    assert {each["reconsumeTimes"] for each in back} == {1}
    for each in back:
        assert pops.ack(topic, GROUP, each["handle"]) == "OK"
    assert pops.ack(topic, GROUP, new) == "OK"
    assert pops.pop(topic, GROUP, poll_ms=1_000) == []


def test_pops_outlive_a_killed_broker(topic: str, tmp_path: Path, running: Running) -> None:
    """Nothing is lost, nothing is redelivered early, and old handles acknowledge."""
    with GantryServer.both(tmp_path / "ours", settings=NAMED) as server:
        create_topic(server.namesrv, topic)
        pops = running(Pops(tmp_path / "pops", server.namesrv, server.broker_address))
        sent = Driver(VERSION, tmp_path, server.namesrv).produce(topic, 20, body_prefix="c")
        popped = pops.pop(topic, GROUP, invisible_ms=15_000)
        assert len(popped) == 20
        for each in popped[:5]:
            assert pops.ack(topic, GROUP, each["handle"]) == "OK"
        server.kill()
    with GantryServer.both(tmp_path / "again", store=server.store, settings=NAMED) as server:
        pops = running(Pops(tmp_path / "pops-again", server.namesrv, server.broker_address))
        assert pops.pop(topic, GROUP) == []
        for each in popped[5:10]:
            assert pops.ack(topic, GROUP, each["handle"]) == "OK"
        back = pops.pop(topic, GROUP, poll_ms=15_000)
        assert bodies(back) == bodies(popped[10:])
        assert len(sent) == 20


def test_a_java_broker_gives_back_what_was_popped_here(topic: str, tmp_path: Path, running: Running) -> None:
    with GantryServer.both(tmp_path / "ours", settings={**SMALL_STORE, **NAMED}) as server:
        create_topic(server.namesrv, topic)
        pops = running(Pops(tmp_path / "pops", server.namesrv, server.broker_address))
        Driver(VERSION, tmp_path, server.namesrv).produce(topic, 12, body_prefix="d")
        popped = pops.pop(topic, GROUP, invisible_ms=INVISIBLE_MS)
        assert len(popped) == 12
        for each in popped[:6]:
            assert pops.ack(topic, GROUP, each["handle"]) == "OK"
        assert server.stop() == 0
    with (
        JavaNameServer(VERSION, tmp_path / "namesrv") as namesrv,
        JavaBroker(
            VERSION, tmp_path / "java", namesrv.address, store=server.store, settings=TIMER, keep=False
        ) as broker,
    ):
        pops = running(Pops(tmp_path / "pops-java", namesrv.address, broker.address))
        left = popped[6:]
        if time.time() * 1000 + 2_000 < int(popped[6]["handle"].split(" ")[1]) + INVISIBLE_MS:  # it started in time
            assert pops.ack(topic, GROUP, left.pop(0)["handle"]) == "OK"
        back: list[dict[str, object]] = []
        wait_until(
            lambda: back.extend(pops.pop(topic, GROUP, invisible_ms=30_000, poll_ms=1_000)) or len(back) >= len(left),
            "messages that a Java broker gives back",
            ARRIVE_S,
        )
        assert bodies(back) == bodies(left)
        for each in back[:2]:
            assert pops.ack(topic, GROUP, str(each["handle"])) == "OK"


def test_ours_gives_back_what_was_popped_at_a_java_broker(topic: str, tmp_path: Path, running: Running) -> None:
    """The Java broker is stopped while its timer holds checkpoints and acknowledgements.

    If it were killed, it would lose the pop offsets of the last seconds and deliver those messages again.
    """
    with (
        JavaNameServer(VERSION, tmp_path / "namesrv") as namesrv,
        JavaBroker(VERSION, tmp_path / "java", namesrv.address, settings=TIMER) as broker,
    ):
        create_topic(namesrv.address, topic)
        pops = running(Pops(tmp_path / "pops-java", namesrv.address, broker.address))
        Driver(VERSION, tmp_path, namesrv.address).produce(topic, 12, body_prefix="e")
        popped = pops.pop(topic, GROUP, invisible_ms=INVISIBLE_MS)
        assert len(popped) == 12
        for each in popped[:6]:
            assert pops.ack(topic, GROUP, each["handle"]) == "OK"
        broker.stop()
    with GantryServer.both(tmp_path / "ours", store=broker.store, settings={**SMALL_STORE, **NAMED}) as server:
        pops = running(Pops(tmp_path / "pops", server.namesrv, server.broker_address))
        left = popped[6:]
        if time.time() * 1000 + 2_000 < int(popped[6]["handle"].split(" ")[1]) + INVISIBLE_MS:
            assert pops.ack(topic, GROUP, left.pop(0)["handle"]) == "OK"
        back: list[dict[str, object]] = []
        wait_until(
            lambda: back.extend(pops.pop(topic, GROUP, invisible_ms=60_000, poll_ms=1_000)) or len(back) >= len(left),
            "messages that ours gives back",
            ARRIVE_S,
        )
        assert pops.pop(topic, GROUP, poll_ms=3_000) == []
        assert bodies(back) == bodies(left)
