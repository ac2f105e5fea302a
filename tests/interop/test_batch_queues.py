"""Topics with batch queues (queue.type=BatchCQ) and ext files: Java's client on our server, and stores in both
directions."""

from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.java_servers import SMALL_STORE
from harness.process import Event

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
# So small that the messages below fill several files of the log, of a batch queue and of the ext files.
SETTINGS = {
    **SMALL_STORE,
    "mapperFileSizeBatchConsumeQueue": "92",
    "mappedFileSizeConsumeQueue": "600",
    "enableConsumeQueueExt": "true",
    "mappedFileSizeConsumeQueueExt": "128",
}
QUEUES = 2


def test_java_s_client_sends_batches_to_batch_queues_and_both_brokers_serve_them(tmp_path: Path, topic: str) -> None:
    plain = f"{topic}-plain"
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        create_topic(server.namesrv, topic, QUEUES, attributes="+queue.type=BatchCQ")
        driver = Driver(JAVA, tmp_path / "first", server.namesrv)
        written = _write(driver, topic, "ours")
        ordinary = driver.produce(plain, 60, tags="TagA,TagB", body_prefix="plain")
        _assert_all(driver, topic, written)
        with driver.push(topic, f"{topic}-group") as consumer:
            assert_same_messages(written, wait_for_bodies([consumer], written), same_ids=False)
        store = server.store
        assert server.stop() == 0
    assert len(list((store / "batchconsumequeue" / topic / "0").iterdir())) > 1
    assert not (store / "consumequeue" / topic).exists()
    assert len(list((store / "consumequeue_ext" / plain / "0").iterdir())) > 1

    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS),
    ):
        driver = Driver(JAVA, tmp_path / "second", namesrv.address)
        _assert_all(driver, topic, written)
        _assert_tagged(driver, plain, ordinary)
        written += _write(driver, topic, "java")
        ordinary += driver.produce(plain, 60, tags="TagA,TagB", body_prefix="more")
        _assert_all(driver, topic, written)

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        driver = Driver(JAVA, tmp_path / "third", server.namesrv)
        _assert_all(driver, topic, written)
        _assert_tagged(driver, plain, ordinary)
        _assert_all(driver, topic, [*written, *_write(driver, topic, "last")])


def _write(driver: Driver, topic: str, prefix: str) -> list[Event]:
    """Batches of several sizes, and single messages between them."""
    found: list[Event] = []
    for size in (1, 3, 10):
        batches = driver.produce(topic, 30, "batch", batch=size, size=400, body_prefix=f"{prefix}-batch{size}")
        found += [{**event, "msgId": None} for event in batches]
        found += driver.produce(topic, 4, tags="TagA", keys_prefix=prefix, body_prefix=f"{prefix}-single{size}")
    return found


def _assert_all(driver: Driver, topic: str, expected: list[Event]) -> None:
    """Check that every message is there once, at its offset, and that each queue runs from 0 without a gap."""
    events = driver.run("pull", topic=topic)
    assert_same_messages(expected, [e for e in events if e["event"] == "received"])
    queues = [e for e in events if e["event"] == "queue"]
    assert [e["queueId"] for e in queues] == list(range(QUEUES))
    assert {e["minOffset"] for e in queues} == {0}
    assert sum(e["maxOffset"] for e in queues) == len(expected)


def _assert_tagged(driver: Driver, topic: str, expected: list[Event]) -> None:
    """A consumer with a tag gets the messages with that tag."""
    tagged = [event for event in expected if event["tags"] == "TagA"]
    assert 0 < len(tagged) < len(expected)
    assert_same_messages(tagged, driver.pull(topic, sub="TagA"))
    assert_same_messages(expected, driver.pull(topic))
