"""The control experiment: our drivers on Java's own servers.

If these tests fail, failures of the other tests say nothing about GantryMQ.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, pull_all, wait_for_bodies, wait_for_shares
from harness import Driver, NodeDriver, Process, create_topic

pytestmark = [pytest.mark.interop, pytest.mark.long]

VERSION = "5.3.3"
Running = Callable[[Process], Process]


@pytest.fixture
def java_namesrv(java_servers: Callable[[str], tuple[str, str]]) -> str:
    return java_servers(VERSION)[0]


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_what_the_driver_sends_it_pulls(java_namesrv: str, tmp_path: Path, topic: str, mode: str) -> None:
    create_topic(java_namesrv, topic)
    driver = Driver(VERSION, tmp_path, java_namesrv)
    sent = driver.produce(topic, 40, mode, tags="TagA,TagB", keys_prefix="k")
    assert_same_messages(sent, pull_all(driver, topic, sent), same_ids=mode != "batch")


def test_the_driver_sends_to_the_chosen_queue(java_namesrv: str, tmp_path: Path, topic: str) -> None:
    create_topic(java_namesrv, topic)
    driver = Driver(VERSION, tmp_path, java_namesrv)
    sent = driver.produce(topic, 10, "queue", queue=2)
    assert {e["queueId"] for e in sent} == {2}
    assert_same_messages(sent, driver.pull(topic))


def test_two_push_consumers_share_the_queues(java_namesrv: str, tmp_path: Path, topic: str, running: Running) -> None:
    create_topic(java_namesrv, topic)
    driver = Driver(VERSION, tmp_path, java_namesrv)
    first = running(driver.push(topic, f"{topic}-group", sub="TagA || TagB"))
    second = running(driver.push(topic, f"{topic}-group", sub="TagA || TagB"))
    wait_for_shares([first, second], 4)
    sent = driver.produce(topic, 40, tags="TagA,TagB,TagC")
    wanted = [e for e in sent if e["tags"] != "TagC"]
    assert_same_messages(wanted, wait_for_bodies([first, second], wanted))
    second.close_input()
    second.finish()
    wait_for_shares([first], 4)


def test_ali_ons_sends_and_receives(java_namesrv: str, tmp_path: Path, topic: str, running: Running) -> None:
    create_topic(java_namesrv, topic)
    node = NodeDriver(tmp_path, java_namesrv)
    consumer = running(node.push(topic, f"{topic}-group", sub="TagA"))
    sent = node.produce(topic, 20, tags="TagA,TagB", keys_prefix="k")
    wanted = [e for e in sent if e["tags"] == "TagA"]
    assert_same_messages(wanted, wait_for_bodies([consumer], wanted))
