"""Operators' commands on elected sets of our brokers: handover, promote, demote, explain; mqadmin with a controller."""

import json
import shutil
import threading
import time

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("gantrymq_admin")

from click.testing import CliRunner
from etcd_servers import start_etcd
from harness import GantryServer, create_topic
from harness.ports import free_port
from harness.probe import request
from java_controllers import ElectedJavaBroker, start_controllers
from polling import wait_until
from test_elected_brokers_interop import SETTINGS, controller, election, etcd, wait_for_master, wait_for_set

from gantrymq.cli import main

pytestmark = pytest.mark.interop

HEADER = {"producerGroup": "p", "topic": "Orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
HEADER |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0", "properties": ""}


class Cluster:
    """A name server and brokers of one set."""

    def __init__(self, running, tmp_path, settings):
        self.running, self.tmp_path, self.settings = running, tmp_path, {**SETTINGS, **settings}
        self.namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv

    def start(self, name, **settings):
        return self.running(
            GantryServer.broker(self.tmp_path / name, self.namesrv, settings={**self.settings, **settings})
        )

    def two(self):
        one = self.start("one")
        wait_for_master(self.namesrv, one)
        create_topic(self.namesrv, "Orders", queues=1)
        two = self.start("two")
        wait_for_set(one, [1, 2])
        return one, two

    def run(self, *words):
        return CliRunner().invoke(main, ["cluster", *words, "-n", self.namesrv, "--output", "json"])

    def command(self, *words, code=0):
        """The JSON document of ``gantrymq cluster ...``, or what it says if it fails."""
        done = self.run(*words)
        print(words, done.exit_code, done.output)
        assert done.exit_code == code, done.output
        document = json.loads(done.stdout)
        return document.get("message", document)

    def sentences(self):
        done = CliRunner().invoke(main, ["cluster", "explain", "-n", self.namesrv])
        assert done.exit_code == 0, done.output
        print(done.stdout)
        return done.stdout


class Sends:
    """Sends to whichever of the brokers accepts, one after the other, until the end; notes the longest pause."""

    def __init__(self, brokers):
        self.brokers, self.acknowledged, self.longest, self.stored = brokers, [], 0.0, []
        self._end = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()

    def _run(self):
        last, number = time.monotonic(), 0
        while not self._end.is_set():
            for each in self.brokers:
                answer = request(each.broker_address, 10, HEADER, b"%d" % number)[0]
                if answer["code"] == 0:
                    now = time.monotonic()
                    self.longest, last = max(self.longest, now - last), now
                    self.acknowledged.append(number)
                    break
                if answer["code"] == 12:
                    self.stored.append(number)
            number += 1


@pytest.mark.parametrize("engine", [controller, pytest.param(etcd, marks=pytest.mark.long)])
def test_the_master_is_changed_by_commands(running, tmp_path, engine):
    cluster = Cluster(running, tmp_path, engine(running, tmp_path))
    one, two = cluster.two()
    said = cluster.sentences()
    assert f"Broker id 1 ({one.broker_address}) is the master of epoch 1, at least since 20" in said
    assert f"Broker id 2 ({two.broker_address}) is in the set, and it has everything." in said
    assert "If broker id 1 failed, broker id 2 would take over" in said
    assert "Messages are accepted." in said
    with Sends([one, two]) as sends:
        wait_until(lambda: len(sends.acknowledged) > 50, "sends")
        found = cluster.command("handover", "broker-a")
        assert (found["from"], found["to"], found["epoch"], found["accepting"]) == (1, 2, 2, True)
        count = len(sends.acknowledged)
        wait_until(lambda: len(sends.acknowledged) > count + 50, "sends")
        wait_for_set(two, [1, 2])
        assert cluster.command("handover", "broker-a", "--to", one.broker_address)["to"] == 1
        count = len(sends.acknowledged)
        wait_until(lambda: len(sends.acknowledged) > count + 50, "sends")
    print("longest pause", sends.longest, "stored only", sends.stored)
    wait_for_set(one, [1, 2])
    assert cluster.command("demote", "-b", "broker-a")["to"] == 2
    wait_for_set(two, [1, 2])
    assert "is the master already" in cluster.command("handover", "broker-a", "--to", "2", code=1)
    assert "known are: 1 (" in cluster.command("promote", "broker-a", "7", code=1)
    wait_until(lambda: cluster.run("status").exit_code == 0, "copies of the tables")
    [first, second] = cluster.command("status")["sets"][0]["copies"]
    assert (first["epoch"], first["elected_id"], first["in_sync_set"]) == (4, 2, [1, 2])
    assert (second["id"], second["in_sync"], second["following"]) == (1, True, True)


@pytest.mark.parametrize("engine", [controller, pytest.param(etcd, marks=pytest.mark.long)])
def test_a_person_elects_a_broker_that_lacks_messages(running, tmp_path, engine):
    cluster = Cluster(running, tmp_path, engine(running, tmp_path))
    one, two = cluster.two()
    assert request(one.broker_address, 10, HEADER, b"both")[0]["code"] == 0
    two.stop()
    wait_for_set(one, [1])
    assert request(one.broker_address, 10, HEADER, b"one")[0]["code"] == 0
    assert "no other member of the in-sync set is connected" in cluster.command("handover", "broker-a", code=1)
    one.stop()
    two = cluster.start("two")
    wait_until(lambda: "There is no master now" in cluster.sentences(), "no master", 20)
    wait_until(lambda: "is back; or 'gantrymq cluster promote broker-a ID" in cluster.sentences(), "what to do", 20)
    assert "Messages are refused now" in cluster.sentences()
    assert "has no master that could hand over" in cluster.command("handover", "broker-a", code=1)
    assert "in-sync set 1" in cluster.command("promote", "broker-a", "2", code=1)
    done = CliRunner().invoke(main, ["cluster", "promote", "broker-a", "2", "--unclean", "-n", cluster.namesrv])
    print(done.output)
    assert done.exit_code == 0
    assert "may lack messages that were acknowledged: they are lost (how much is not known)" in done.stderr
    assert "broker id 2" in done.stdout and "accepts messages" in done.stdout
    assert request(two.broker_address, 10, HEADER, b"two")[0]["code"] == 0
    assert "Messages are accepted." in cluster.sentences()
    cluster.start("one")
    wait_until(lambda: "They may be the last copies" in cluster.sentences(), "refusal", 20)
    assert "Broker id 1 (" in (said := cluster.sentences()) and "is not in the set: it does not follow: master" in said


@pytest.mark.parametrize("engine", [pytest.param(controller, marks=pytest.mark.long), etcd])
def test_a_replaced_broker_is_forgotten(running, tmp_path, engine):
    cluster = Cluster(running, tmp_path, engine(running, tmp_path))
    one, two = cluster.two()
    port = two.broker_address.rpartition(":")[2]
    two.kill()
    wait_for_set(one, [1])
    assert "no broker of this set has the id 7" in cluster.command("forget", "broker-a", "7", code=1)
    assert "broker id 1 is in the in-sync set 1" in cluster.command("forget", "broker-a", "1", code=1)
    three = cluster.start("new", listenPort=port, haListenPort=str(free_port()))
    wait_for_set(one, [1, 3])
    assert "Broker id 2 " in cluster.sentences()
    assert cluster.run("status").exit_code == 1
    wait_until(lambda: cluster.run("forget", "broker-a", "2").exit_code == 0, "the engine to miss it", 20)
    assert "Broker id 2 " not in cluster.sentences()
    wait_until(lambda: cluster.run("status").exit_code == 0, "a healthy set", 20)
    three.stop()  # planned: not missed
    wait_for_set(one, [1])
    wait_until(lambda: cluster.run("status").exit_code == 0, "a healthy set", 20)


def test_etcd_loses_its_data_under_a_running_set(running, tmp_path):
    [server] = start_etcd(running, tmp_path, 1)
    settings = {"electionEngine": "etcd", "etcdEndpoints": server.endpoint, "etcdLeaseSeconds": 3}
    one, two = lose_data_and_recover(running, Cluster(running, tmp_path, settings), server, tmp_path / "data0")
    one.stop()
    wait_until(lambda: request(two.broker_address, 10, HEADER, b"after")[0]["code"] == 0, "a send", 20, two.tail)


def test_controllers_lose_their_data_under_a_running_set(running, tmp_path):
    [server] = start_controllers(running, tmp_path, 1)
    cluster = Cluster(running, tmp_path, {"controllerAddr": server.address})
    one, two = lose_data_and_recover(running, cluster, server, tmp_path / "store0")
    said = cluster.sentences()
    assert "Broker id 1 (" in said and "known to the controller only" not in said
    three = cluster.start("three")  # the next id, 3, was applied for to raise the epochs
    wait_for_set(one, [1, 2, 4])
    one.stop()
    wait_until(lambda: request(two.broker_address, 10, HEADER, b"after")[0]["code"] == 0, "a send", 20, two.tail)
    wait_until(lambda: election(three)["epoch"] == 3, "the next epoch", 20, three.tail)


def lose_data_and_recover(running, cluster, server, data):
    """Wipe the engine's *data* under two brokers and end that as documented; return them, in sync again."""
    one, two = cluster.two()
    assert request(one.broker_address, 10, HEADER, b"before")[0]["code"] == 0
    server.kill()
    shutil.rmtree(data)
    running(server.again())
    said = "the engine has lost its data: it knows epochs up to 0, and this broker knows epoch 1"
    wait_until(lambda: said in cluster.run("status").output, "the state", 30, one.tail)
    wait_until(lambda: all(said in each.tail() for each in (one, two)), "the state in both logs", 30, one.tail)
    assert cluster.run("status").exit_code == 1
    assert "promote broker-a 1 --unclean'" in (explained := cluster.sentences()) and said in explained
    assert said in cluster.command("handover", "broker-a", code=1)
    assert said in cluster.command("demote", "broker-a", code=1)
    assert said in cluster.command("promote", "broker-a", "1", code=1)
    assert cluster.command("promote", "broker-a", "1", "--unclean")["epoch"] == 2
    assert request(one.broker_address, 10, HEADER, b"again")[0]["code"] == 0
    wait_for_set(one, [1, 2], 30)
    wait_until(
        lambda: cluster.run("status").exit_code == 0, "a healthy state", 30, lambda: cluster.run("status").output
    )
    return one, two


@pytest.mark.parametrize("kind", ["etcd", pytest.param("controller", marks=pytest.mark.long)])
@pytest.mark.parametrize("decided", [False, pytest.param(True, marks=pytest.mark.long)])
def test_after_a_power_cut_the_member_with_the_longest_log_is_elected(running, tmp_path, kind, decided):
    """*decided*: a person elects the first one instead."""
    settings = {"minInSyncReplicas": "2", "flushDiskType": "ASYNC_FLUSH", "flushIntervalCommitLog": "8000"}
    if kind == "etcd":
        [server] = start_etcd(running, tmp_path, 1)
        settings |= {"electionEngine": "etcd", "etcdEndpoints": server.endpoint, "etcdLeaseSeconds": 3}
    else:
        [server] = start_controllers(running, tmp_path, 1)
        settings |= {"controllerAddr": server.address}
    cluster = Cluster(running, tmp_path, settings)
    one, two = cluster.two()
    three = cluster.start("three")
    wait_for_set(one, [1, 2, 3])
    for number in range(100):
        assert request(one.broker_address, 10, HEADER, b"%d" % number + bytes(500))[0]["code"] == 0
    whole = {name: store_of(tmp_path, name).read_bytes().rstrip(b"\0") for name in ("one", "two", "three")}
    assert len(set(whole.values())) == 1
    for each in (server, one, two, three):
        each.kill()
    running(server.again())
    cut(tmp_path, "one", len(whole["one"]) - 30_000)
    cut(tmp_path, "two", len(whole["two"]) - 10_000)
    one = cluster.start("one")
    wait_until(lambda: "for broker id 2, 3, or until a person" in election(one)["problem"], "reason", 40, one.tail)
    assert "until a person elects one with" in cluster.sentences()
    if decided:
        done = cluster.run("promote", "broker-a", "1", "--unclean")
        assert "is the master" in done.output or '"to":1' in done.output, done.output
        assert election(one)["master"] == 1 and "minInSyncReplicas=2" in election(one)["problem"]
        return
    two, three = cluster.start("two"), cluster.start("three")
    wait_until(lambda: cluster.run("status").exit_code == 0, "a healthy set", 40, lambda: cluster.sentences())
    for name, each in (("one", one), ("two", two), ("three", three)):
        kept = store_of(tmp_path, name).read_bytes()[: len(whole[name])]
        assert kept == whole[name], each.tail()


def store_of(tmp_path, name):
    """The first file of a broker's log."""
    return tmp_path / name / "store" / "commitlog" / "00000000000000000000"


def cut(tmp_path, name, size):
    """Zero a log after *size* bytes, as a disk does that did not get them; the queues are newer than the log."""
    with store_of(tmp_path, name).open("r+b") as file:
        file.seek(size)
        file.write(bytes(store_of(tmp_path, name).stat().st_size - size))
    for each in ("consumequeue", "index"):
        shutil.rmtree(tmp_path / name / "store" / each, ignore_errors=True)
    for each in (("checkpoint",), ("plugins", "replication", "confirmed")):
        tmp_path.joinpath(name, "store", *each).unlink(missing_ok=True)


@pytest.mark.long
def test_a_java_broker_in_the_set(running, tmp_path):
    [found] = start_controllers(running, tmp_path, 1)
    cluster = Cluster(running, tmp_path, {"controllerAddr": found.address})
    ports = (free_port(also_below=2), free_port())
    java = running(ElectedJavaBroker(tmp_path / "java", tmp_path / "java" / "store", cluster.namesrv, [found], ports))
    wait_until(lambda: "Broker id 1" in cluster.sentences(), "master", 30, java.tail)
    create_topic(cluster.namesrv, "Orders", queues=1)
    two = cluster.start("two")
    wait_until(lambda: "is 1, 2." in cluster.sentences(), "set of two", 60, two.tail)
    said = cluster.sentences()
    assert f"Broker id 1 ({java.address}) is the master of epoch 1" in said
    assert "the master is RocketMQ's, which does not say so" in said
    assert "is RocketMQ's, which cannot hand over" in cluster.command("handover", "broker-a", code=1)
    assert "is RocketMQ's, which cannot give up by itself" in cluster.command("demote", "broker-a", code=1)
    changed = cluster.command("promote", "broker-a", two.broker_address)
    assert (changed["from"], changed["to"], changed["accepting"]) == (1, 2, True)
    wait_for_set(two, [1, 2], 60)
    assert request(two.broker_address, 10, HEADER, b"ours")[0]["code"] == 0
    assert "Broker id 1" in cluster.sentences()
    changed = cluster.command("handover", "broker-a")
    assert (changed["from"], changed["to"], changed["accepting"]) == (2, 1, None)
    wait_until(lambda: request(java.address, 10, HEADER, b"java")[0]["code"] == 0, "a send", 20, java.tail)
    wait_until(lambda: "is 1, 2." in cluster.sentences(), "set of two", 60, two.tail)
    wait_until(
        lambda: cluster.run("status").exit_code == 0, "a healthy state", 60, lambda: cluster.run("status").output
    )
    print(cluster.run("status").output)
