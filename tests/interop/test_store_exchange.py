"""A store that we wrote opens in a Java broker, and the reverse."""

from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer
from harness.java_servers import SMALL_STORE
from harness.process import Event

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
# Small enough that the messages below fill several files of the log and of each queue.
SETTINGS = {**SMALL_STORE, "mappedFileSizeCommitLog": "262144", "mappedFileSizeConsumeQueue": "600"}
QUEUES = 4


def test_a_java_broker_opens_our_store_and_we_open_it_again(tmp_path: Path, topic: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        written = _write(Driver(JAVA, tmp_path / "first", server.namesrv), topic)
        store = server.store
        assert server.stop() == 0
    assert len(list((store / "commitlog").iterdir())) > 1
    assert not (store / "abort").exists()

    added = _read_and_add_with_java(tmp_path, store, topic, written)

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        _assert_all(Driver(JAVA, tmp_path / "third", server.namesrv), topic, [*written, *added])


def test_we_open_the_store_of_a_java_broker(tmp_path: Path, topic: str) -> None:
    group = f"{topic}-group"
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, settings=SETTINGS) as broker,
    ):
        driver = Driver(JAVA, tmp_path / "first", namesrv.address)
        written = _write(driver, topic)
        with driver.push(topic, group) as consumer:
            wait_for_bodies([consumer], written)
            consumer.close_input()
            consumer.finish()
        store = broker.store

    with GantryServer.both(tmp_path / "ours", store=store, settings=SETTINGS) as server:
        driver = Driver(JAVA, tmp_path / "second", server.namesrv)
        _assert_all(driver, topic, written)
        added = driver.produce(topic, 40, body_prefix="added")
        _assert_all(driver, topic, [*written, *added])
        with driver.push(topic, group) as consumer:
            # The group's progress came with the store: it gets only what is new.
            assert_same_messages(added, wait_for_bodies([consumer], added))


def _write(driver: Driver, topic: str) -> list[Event]:
    """Short, long and compressed bodies, single and in batches. A batch entry's id is the batch's, see `checks`."""
    single = driver.produce(topic, 160, tags="TagA,TagB", keys_prefix="k", size=3_000, body_prefix="single")
    packed = driver.produce(topic, 10, size=20_000, body_prefix="packed")
    batch = driver.produce(topic, 80, "batch", tags="TagA", body_prefix="batch")
    return [*single, *packed, *({**e, "msgId": None} for e in batch)]


def _read_and_add_with_java(tmp_path: Path, store: Path, topic: str, written: list[Event]) -> list[Event]:
    """Open *store* in a Java broker, find everything, add messages, and stop it cleanly."""
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS),
    ):
        driver = Driver(JAVA, tmp_path / "second", namesrv.address)
        _assert_all(driver, topic, written)
        added = driver.produce(topic, 40, body_prefix="added")
        _assert_all(driver, topic, [*written, *added])
    return added


def _assert_all(driver: Driver, topic: str, expected: list[Event]) -> None:
    """Every message is there once, in its place; each queue runs from 0 without a gap."""
    events = driver.run("pull", topic=topic)
    assert_same_messages(expected, [e for e in events if e["event"] == "received"])
    queues = [e for e in events if e["event"] == "queue"]
    assert [e["queueId"] for e in queues] == list(range(QUEUES))
    assert {e["minOffset"] for e in queues} == {0}
    assert sum(e["maxOffset"] for e in queues) == len(expected)
