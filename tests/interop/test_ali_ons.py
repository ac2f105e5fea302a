"""`ali-ons`, the JavaScript client, on our name server and broker.

What it supports: sending and waiting for the answer, tags and keys, zlib for long bodies, push consumers in
clustering (with tags) and broadcasting, sharing of queues on its own timer. It has no batches, no oneway or callback
sends, no choice of the queue and no way to create a topic.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies, wait_for_shares
from harness import Driver, GantryServer, NodeDriver, Process, create_topic

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]


@pytest.fixture
def node(ours: GantryServer, tmp_path: Path, topic: str) -> NodeDriver:
    driver = NodeDriver(tmp_path, ours.namesrv)
    create_topic(ours.namesrv, topic)
    return driver


@pytest.mark.parametrize("size", [0, 6_000], ids=["plain", "compressed"])
def test_java_pulls_what_ali_ons_sent(
    node: NodeDriver, ours: GantryServer, tmp_path: Path, topic: str, size: int
) -> None:
    """It knows only the offset id of what it sent, so ids are not compared."""
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
