"""Java brokers and ours in one set, elected by Java's controllers: each replaces the other, and logs, epochs and queues
stay equal."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from elected_set import ElectedSet
from harness import Process, create_topic
from harness.process import Event
from polling import wait_until
from test_replication import queue_files

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]


class Load:
    """An official producer with retries, and a push consumer, which go on through all elections."""

    def __init__(self, brokers: ElectedSet, running: Running, topic: str) -> None:
        self.topic, driver = topic, brokers.driver()
        self.consumer = running(driver.start("follow", topic=topic, group="readers", poll_ms=1000))
        self.consumer.wait_for(lambda p: p.of("started"), "started")
        options = {"threads": 2, "size": 300, "pause_ms": 10, "retries": 3, "timeout_ms": 4000, "poll_ms": 1000}
        self.producer = running(driver.start("stream", topic=topic, body_prefix="m", **options))

    def wait_for_more(self, count: int) -> None:
        """Wait until more messages are acknowledged."""
        wanted = len(self.acknowledged()) + count
        wait_until(lambda: len(self.acknowledged()) >= wanted, f"{count} more messages", 60, self.producer.tail)

    def acknowledged(self) -> list[Event]:
        """The messages that were acknowledged."""
        return [each for each in self.producer.of("sent") if each["status"] == "SEND_OK"]

    def stop(self) -> None:
        """Stop sending, and wait until every acknowledged message was received."""
        self.producer.close_input()
        self.producer.finish()
        wanted = {f"m-{each['t']}-{each['i']}" for each in self.acknowledged()}

        def missing() -> set[str]:
            return wanted - {str(each["body"]).rstrip(".") for each in self.consumer.of("got")}

        wait_until(lambda: not missing(), "all messages", 60, lambda: f"{len(missing())} of {len(wanted)} are missing")
        print(len(wanted), "acknowledged and received;", len(self.producer.of("failed")), "sends failed")


def stop_all(brokers: ElectedSet, *names: str) -> None:
    """Stop brokers, slaves first, and compare their queues."""
    for each in names:
        brokers.brokers[each].stop()
    assert all(queue_files(brokers.store(each)) == queue_files(brokers.store(names[0])) != {} for each in names)


def test_ours_and_a_java_broker_replace_each_other(running: Running, tmp_path: Path, topic: str) -> None:
    brokers = ElectedSet(running, tmp_path)
    brokers.start("java")
    brokers.wait_for_master("java")
    create_topic(brokers.namesrv, topic, queues=2)
    brokers.start("ours")
    load = Load(brokers, running, topic)
    load.wait_for_more(50)
    brokers.wait_for_set("java", "ours")
    load.wait_for_more(50)

    brokers.kill("java")
    assert brokers.wait_for_master("ours") == 2
    load.wait_for_more(50)
    brokers.start("java")
    brokers.wait_for_set("java", "ours")
    load.wait_for_more(50)

    brokers.elect("java")  # planned, and back
    brokers.wait_for_master("java")
    brokers.wait_for_set("java", "ours")
    load.wait_for_more(50)
    brokers.elect("ours")
    assert brokers.wait_for_master("ours") == 4
    brokers.wait_for_set("java", "ours")
    load.wait_for_more(50)
    load.stop()
    brokers.wait_for_equal(["java", "ours"])
    assert [line.split("-")[0] for line in brokers.epochs("ours").decode().split()[2:]] == ["1", "2", "3", "4"]
    stop_all(brokers, "java", "ours")


@pytest.mark.long
@pytest.mark.parametrize(
    "names", [("java1", "ours1", "java2"), ("ours1", "java1", "ours2")], ids=["two of Java", "two of ours"]
)
def test_a_set_of_three_with_three_controllers(
    running: Running, tmp_path: Path, topic: str, names: tuple[str, ...]
) -> None:
    brokers = ElectedSet(running, tmp_path, controllers=3)
    brokers.start(names[0])
    brokers.wait_for_master(names[0])
    create_topic(brokers.namesrv, topic, queues=4)
    for each in names[1:]:
        brokers.start(each)
    load = Load(brokers, running, topic)
    brokers.wait_for_set(*names)
    for number, gone in enumerate([*names, *names]):
        load.wait_for_more(30)
        standing = brokers.standing()
        assert standing is not None
        if number in (2, 4):
            brokers.restart_leader()
            load.wait_for_more(30)
        if standing.master == brokers.number(gone):
            brokers.kill(gone)
            brokers.wait_for_epoch_after(standing.epoch)
            load.wait_for_more(30)
            brokers.start(gone)
        else:
            brokers.elect(gone)
            brokers.wait_for_master(gone)
        brokers.wait_for_set(*names)
    load.wait_for_more(30)
    load.stop()
    brokers.wait_for_equal(names)
    print(brokers.standing(), brokers.epochs(names[0]).decode().split())
    stop_all(brokers, *names)


@pytest.mark.long
@pytest.mark.parametrize("first", ["java", "ours"])
def test_what_only_a_dead_master_had_is_cut(running: Running, tmp_path: Path, topic: str, first: str) -> None:
    other = "ours" if first == "java" else "java"
    brokers = ElectedSet(running, tmp_path)
    settings = {"mappedFileSizeCommitLog": str(1 << 26)}
    if first == "java":
        settings["allAckInSyncStateSet"] = "false"  # the default, which acknowledges what is lost then
    brokers.start(first, **settings)
    brokers.wait_for_master(first)
    create_topic(brokers.namesrv, topic, queues=1)
    brokers.start(other, **settings)
    brokers.wait_for_set(first, other)
    assert {brokers.send(first, topic, b"both %d" % number) for number in range(20)} == {0}
    brokers.wait_for_equal([first, other])
    brokers.brokers[other].pause()
    large = bytes(3_500_000)  # more than the system keeps for a connection
    with ThreadPoolExecutor() as threads:
        sends = [threads.submit(brokers.send, first, topic, b"lost %d" % number + large) for number in range(6)]
    codes = {each.result() for each in sends}
    assert codes == ({0} if first == "java" else {12})
    end = brokers.log_end(first)
    brokers.kill(first)
    brokers.brokers[other].resume()
    brokers.wait_for_master(other)
    assert {brokers.send(other, topic, b"new %d" % number) for number in range(20)} == {0}
    assert brokers.log_end(other) < end
    brokers.start(first, **settings)
    brokers.wait_for_set(first, other)
    assert brokers.send(other, topic, b"last") == 0
    brokers.wait_for_equal([first, other])
    assert len(brokers.log(first, brokers.log_end(first))) == brokers.log_end(first) < end
    stop_all(brokers, first, other)


@pytest.mark.long
def test_epochs_without_a_message(running: Running, tmp_path: Path, topic: str) -> None:
    brokers = ElectedSet(running, tmp_path)
    brokers.start("java")
    brokers.start("ours")
    brokers.wait_for_set("java", "ours")
    for number in range(6):  # the topic of `wait_for_master` would be a message
        name = ("ours", "java")[number % 2]
        standing = brokers.standing()
        assert standing is not None
        if standing.master != brokers.number(name):
            brokers.elect(name)
            brokers.wait_for_epoch_after(standing.epoch)
        brokers.wait_for_set("java", "ours")
    for name in ("ours", "java"):
        brokers.elect(name)
        brokers.wait_for_master(name)  # by a message
        brokers.wait_for_set("java", "ours")
    brokers.wait_for_equal(["java", "ours"], epochs=False)
    stop_all(brokers, "java", "ours")


@pytest.mark.long
@pytest.mark.parametrize(("master", "learner"), [("java", "ours"), ("ours", "java")])
def test_a_learner_copies_and_is_never_elected(
    running: Running, tmp_path: Path, topic: str, master: str, learner: str
) -> None:
    brokers = ElectedSet(running, tmp_path)
    brokers.start(master)
    brokers.wait_for_master(master)
    create_topic(brokers.namesrv, topic, queues=1)
    assert {brokers.send(master, topic, b"%d" % number) for number in range(20)} == {0}
    brokers.start(learner, asyncLearner="true")
    brokers.wait_for_equal([master, learner])
    assert brokers.standing() == (brokers.number(master), 1, (brokers.number(master),))
    assert {brokers.send(master, topic, b"%d" % number) for number in range(20)} == {0}
    brokers.wait_for_equal([master, learner])
    assert brokers.standing() == (brokers.number(master), 1, (brokers.number(master),))
    brokers.kill(master)
    wait_until(lambda: (found := brokers.standing()) is not None and found.master is None, "no master", 30)
    assert brokers.send(learner, topic) not in (0, 10, 12)
    brokers.start(master)
    epoch = brokers.wait_for_master(master)
    assert epoch > 1 and brokers.send(master, topic) == 0
    brokers.wait_for_equal([master, learner])
