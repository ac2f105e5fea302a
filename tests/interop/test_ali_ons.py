"""`ali-ons`, the JavaScript client, on our name server and broker.

It supports synchronous sends, tags and keys, sharding keys, delay levels, zlib for long bodies, push consumers in
clustering (with tags) and broadcasting, sending back of failed messages, and queue sharing on its own timer. It has no
batches, no oneway or callback sends, no choice of a queue by number, no ordered consumer, no transactions, no
requests, no delay by time, no pop and no way to create a topic.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies, wait_for_shares
from harness import Driver, GantryServer, NodeDriver, Process, create_topic
from harness.process import Event

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Return a broker with short delays: this client leaves the retry delay to the broker, which starts at level 3."""
    settings = {"messageDelayLevel": "1s 2s 1s 1s 1s"}
    with GantryServer.both(tmp_path_factory.mktemp("ours"), settings=settings) as server:
        yield server


@pytest.fixture
def node(ours: GantryServer, tmp_path: Path, topic: str) -> NodeDriver:
    driver = NodeDriver(tmp_path, ours.namesrv)
    create_topic(ours.namesrv, topic)
    return driver


@pytest.mark.parametrize("size", [0, 6_000], ids=["plain", "compressed"])
def test_java_pulls_what_ali_ons_sent(
    node: NodeDriver, ours: GantryServer, tmp_path: Path, topic: str, size: int
) -> None:
    """The client knows only the offset id of a sent message, so ids are not compared."""
    sent = node.produce(topic, 20, tags="TagA,TagB", keys_prefix="k", size=size)
    assert_same_messages(sent, Driver("5.3.3", tmp_path, ours.namesrv).pull(topic), same_ids=False)


def test_ali_ons_receives_what_java_sent(
    node: NodeDriver, ours: GantryServer, tmp_path: Path, topic: str, running: Running
) -> None:
    consumer = running(node.push(topic, f"{topic}-group"))
    sent = Driver("4.9.8", tmp_path, ours.namesrv).produce(topic, 20, tags="TagA,TagB", keys_prefix="k", size=5_000)
    assert_same_messages(sent, wait_for_bodies([consumer], sent), same_ids=False)


def test_a_push_consumer_gets_the_tags_it_asked_for(node: NodeDriver, topic: str, running: Running) -> None:
    consumer = running(node.push(topic, f"{topic}-group", sub="TagA || TagC"))
    sent = node.produce(topic, 30, tags="TagA,TagB,TagC")
    wanted = [e for e in sent if e["tags"] != "TagB"]
    assert_same_messages(wanted, wait_for_bodies([consumer], wanted))


def test_broadcasting_consumers_each_get_everything(node: NodeDriver, topic: str, running: Running) -> None:
    consumers = [running(node.push(topic, f"{topic}-group", model="broadcasting")) for _ in range(2)]
    sent = node.produce(topic, 20)
    for consumer in consumers:
        assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_two_consumers_share_the_queues_until_one_leaves(node: NodeDriver, topic: str, running: Running) -> None:
    first, second = (running(node.push(topic, f"{topic}-group")) for _ in range(2))
    wait_for_shares([first, second], 4)
    sent = node.produce(topic, 20)
    wait_for_bodies([first, second], sent)
    second.close_input()
    second.finish()
    wait_for_shares([first], 4)


def test_a_sharding_key_keeps_to_one_queue_in_order(node: NodeDriver, topic: str, running: Running) -> None:
    consumer = running(node.push(topic, f"{topic}-group"))
    sent = node.produce(topic, 20, sharding_keys="one,other")
    assert all(len({e["queueId"] for e in sent[start::2]}) == 1 for start in (0, 1))
    received = wait_for_bodies([consumer], sent)
    for key in ("one", "other"):
        own = [e for e in received if e["properties"]["__SHARDING_KEY"] == key]
        assert [e["queueOffset"] for e in own] == sorted(e["queueOffset"] for e in own)
        assert len(own) == 10


def test_delay_levels(node: NodeDriver, topic: str, running: Running) -> None:
    consumer = running(node.push(topic, f"{topic}-group"))
    sent = node.produce(topic, 3, level=2)
    for event in wait_for_bodies([consumer], sent):
        assert event["storeTimestamp"] - event["bornTimestamp"] >= 2_000
        assert event["properties"]["REAL_TOPIC"] == topic


def test_a_message_refused_once_comes_again(node: NodeDriver, topic: str, running: Running) -> None:
    consumer = running(node.push(topic, f"{topic}-group", fail=1))
    sent = node.produce(topic, 3, tags="TagA", keys_prefix="k")
    again = wait_for_tries(consumer, {e["body"]: 2 for e in sent})
    assert {e["topic"] for e in again} == {topic}
    assert sorted(e["reconsumeTimes"] for e in again) == [0] * 3 + [1] * 3


def wait_for_tries(consumer: Process, times: dict[str, int]) -> list[Event]:
    """Wait until each body was delivered exactly as often as *times* says."""

    def counts(_: Process) -> list[Event]:
        received = consumer.of("received")
        bodies = [e["body"] for e in received]
        return received if {body: bodies.count(body) for body in bodies} == times else []

    return consumer.wait_for(counts, f"deliveries {times}")
