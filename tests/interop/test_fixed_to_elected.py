"""Brokers of fixed roles become brokers of elected roles, and the reverse, with all their data, ours and Java's."""

from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest
from elected_set import ElectedSet
from harness import Process, create_topic
from harness.process import Event
from polling import wait_until
from test_replication import log_files

pytestmark = [pytest.mark.interop, pytest.mark.long]

Running = Callable[[Process], Process]
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "brokerId": "0"}
EPOCH_0 = "1\n0\n0-0\n"  # as docs/operations/elected-masters.md tells


class Content:
    """What was sent, in all periods."""

    def __init__(self, brokers: ElectedSet, topic: str) -> None:
        self.brokers, self.topic, self._periods = brokers, topic, 0
        self.sent: list[Event] = []

    def send(self, count: int = 100) -> None:
        """Send with the official client; every message is acknowledged."""
        self._periods += 1
        options = {"keys_prefix": f"k{self._periods}-", "body_prefix": f"b{self._periods}-", "size": 2000}
        events = self.brokers.driver().run("produce", topic=self.topic, count=count, mode="sync", **options)
        sent = [each for each in events if each["event"] == "sent"]
        assert {each["status"] for each in sent} == {"SEND_OK"} and len(sent) == count
        self.sent += sent

    def check(self) -> None:
        """Read everything with the official client."""
        found = {each["msgId"] for each in self.brokers.driver().pull(self.topic)}
        assert {each["msgId"] for each in self.sent} <= found


def fixed_pair(brokers: ElectedSet, content: Content, master: str, slave: str) -> None:
    """Let a master and a slave of fixed roles store messages; both are killed, so that neither stop is clean."""
    brokers.fixed(master, **SYNC)
    create_topic(brokers.namesrv, content.topic, queues=2)
    brokers.fixed(slave, brokerRole="SLAVE", brokerId="1")
    wait_until(lambda: brokers.send(master, "TBW102") == 0, "slave in sync", 60, brokers.brokers[slave].tail)
    content.send()

    def equal() -> bool:
        return log_files(brokers.store(master)) == log_files(brokers.store(slave))

    wait_until(equal, "equal logs", 30)


def begins_with(brokers: ElectedSet, name: str, before: dict[str, bytes]) -> bool:
    """Whether the log of a broker begins with what it was *before*."""
    now = log_files(brokers.store(name))
    return all(now[file].startswith(data) for file, data in before.items())


def elected_pair(
    brokers: ElectedSet,
    content: Content,
    master: str,
    slave: str,
    *,
    slave_first: bool = False,
    same_epochs: bool = True,
) -> None:
    """Elect the former master, and start the former slave, which keeps its log; kill it at several moments before."""
    before = log_files(brokers.store(slave))
    if slave_first:
        brokers.start(slave)
        sleep(12)  # real time: a controller looks for a master every 5 s
        assert brokers.send(slave, content.topic) not in (0, 10, 12)
        brokers.kill(slave)
    brokers.start(master)
    brokers.wait_for_master(master)
    for seconds in (0.0, 0.1, 0.3, 0.8):
        brokers.start(slave)
        sleep(seconds)  # real time: another moment of the kill
        brokers.kill(slave)
    brokers.start(slave)
    brokers.wait_for_set(master, slave)
    assert begins_with(brokers, slave, before)
    said = "".join(each.read_text() for each in (brokers.store(slave).parent).glob("*/gantrymq-broker.err"))
    assert "this log is equal to the master's up to" in said
    content.send()
    brokers.wait_for_equal([master, slave], epochs=same_epochs)
    brokers.kill(master)
    brokers.wait_for_master(slave)
    content.send()
    content.check()
    brokers.start(master)
    brokers.wait_for_set(master, slave)
    brokers.wait_for_equal([master, slave], epochs=same_epochs)


def test_there_and_back_and_there_again(running: Running, tmp_path: Path, topic: str) -> None:
    brokers = ElectedSet(running, tmp_path)
    content = Content(brokers, topic)
    fixed_pair(brokers, content, "ours1", "ours2")
    brokers.kill("ours1")
    brokers.kill("ours2")
    elected_pair(brokers, content, "ours1", "ours2")

    brokers.brokers["ours1"].stop()  # ours2 is the master
    brokers.brokers["ours2"].stop()
    before = log_files(brokers.store("ours1"))
    brokers.fixed("ours2", **SYNC)
    brokers.fixed("ours1", brokerRole="SLAVE", brokerId="1")
    wait_until(lambda: brokers.send("ours2", "TBW102") == 0, "slave in sync", 60, brokers.brokers["ours1"].tail)
    assert not any((brokers.store(each) / "epochFileCheckpoint").exists() for each in ("ours1", "ours2"))
    content.send()
    content.check()
    assert begins_with(brokers, "ours1", before)
    brokers.brokers["ours1"].stop()
    brokers.brokers["ours2"].stop()
    elected_pair(brokers, content, "ours2", "ours1", slave_first=True)
    assert brokers.epochs("ours1").split()[2] == b"0-0"


@pytest.mark.parametrize("begins", ["file", "no file"])
def test_a_java_master_and_our_slave(running: Running, tmp_path: Path, topic: str, begins: str) -> None:
    brokers = ElectedSet(running, tmp_path)
    content = Content(brokers, topic)
    fixed_pair(brokers, content, "java", "ours")
    brokers.kill("ours")
    brokers.brokers["java"].stop()
    if begins == "file":
        (brokers.store("java") / "epochFileCheckpoint").write_text(EPOCH_0)
    # Without the file, Java's list begins with the first election, ours with an epoch 0.
    elected_pair(brokers, content, "java", "ours", same_epochs=begins == "file")


def test_the_store_of_a_java_master_with_our_broker(running: Running, tmp_path: Path, topic: str) -> None:
    brokers = ElectedSet(running, tmp_path)
    content = Content(brokers, topic)
    fixed_pair(brokers, content, "java", "ours2")
    brokers.kill("ours2")
    brokers.kill("java")
    brokers.store("java").rename(tmp_path / "moved")
    (tmp_path / "ours1").mkdir()
    (tmp_path / "moved").rename(brokers.store("ours1"))
    elected_pair(brokers, content, "ours1", "ours2")


def test_our_master_and_an_empty_java_slave(running: Running, tmp_path: Path, topic: str) -> None:
    brokers = ElectedSet(running, tmp_path)
    content = Content(brokers, topic)
    brokers.fixed("ours")
    create_topic(brokers.namesrv, topic, queues=2)
    content.send()
    brokers.brokers["ours"].stop()
    brokers.start("ours")
    brokers.wait_for_master("ours")
    brokers.start("java")
    brokers.wait_for_set("ours", "java")
    content.send()
    brokers.wait_for_equal(["ours", "java"])
    assert brokers.epochs("java").split()[2] == b"0-0"
    brokers.kill("ours")
    brokers.wait_for_master("java")
    content.send()
    content.check()
    brokers.start("ours")
    brokers.wait_for_set("ours", "java")
    brokers.wait_for_equal(["ours", "java"])
