"""Our commands for operators on Java brokers 4.9.7 and 5.3.3."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from harness import Driver, Process, create_topic
from polling import wait_until

from gantrymq.cli import main

pytestmark = pytest.mark.interop

PROGRESS_S = 60.0


class Cluster:
    """A Java name server and broker, and our commands on them."""

    def __init__(self, namesrv: str, broker: str) -> None:
        self.namesrv = namesrv
        self.broker = broker

    def command(self, *words: str, code: int = 0) -> Any:
        """Return the JSON output of one command, or its error output if the exit code is not 0."""
        done = CliRunner().invoke(main, [*words, "-n", self.namesrv, "--output", "json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if code == 0 else done.stderr


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def java(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]]) -> Cluster:
    return Cluster(*java_servers(request.param))


def test_groups_come_and_go(java: Cluster) -> None:
    assert java.command("group", "create", "-g", "OurGroup", "-r", "3")["brokers"] == [java.broker]
    (found,) = [each for each in java.command("group", "list")["groups"] if each["group"] == "OurGroup"]
    assert (found["retry_max_times"], found["clients"]) == (3, 0)
    assert java.command("group", "delete", "-g", "OurGroup")["brokers"] == [java.broker]
    assert "there is no group OurGroup" in java.command("group", "delete", "-g", "OurGroup", code=1)
    assert "no member of group OurGroup is online" in java.command("group", "clients", "-g", "OurGroup", code=1)


def test_clients_and_progress_of_a_group(
    java: Cluster, topic: str, tmp_path_factory: pytest.TempPathFactory, running: Callable[[Process], Process]
) -> None:
    create_topic(java.namesrv, topic, 4)
    driver = Driver("5.3.3", tmp_path_factory.mktemp("driver"), java.namesrv)
    group = f"{topic}-group"
    running(driver.push(topic, group, sub="TagA || TagB"))
    driver.produce(topic, 12, tags="TagA,TagB")
    found = java.command("group", "clients", "-g", group)
    assert [each["language"] for each in found["clients"]] == ["JAVA"]
    assert {"topic": topic, "expression": "TagA || TagB", "type": "TAG"} in found["subscriptions"]

    def consumed() -> list[dict[str, Any]]:
        queues: list[dict[str, Any]] = java.command("group", "progress", "-g", group, "-t", topic)["queues"]
        return queues if sum(each["committed"] for each in queues) == 12 else []

    queues = wait_until(consumed, f"progress of {group}", PROGRESS_S)
    assert sum(each["max_offset"] for each in queues) == 12
    assert sum(each["behind"] for each in queues) == 0


def test_settings_of_a_broker(java: Cluster) -> None:
    try:
        java.command("broker", "config", "set", "brokerPermission=6", "traceOn=false")
        (shown,) = java.command("broker", "config", "get", "traceOn", "brokerPermission")["brokers"]
        assert shown == {"broker": java.broker, "settings": {"brokerPermission": "6", "traceOn": "false"}}
    finally:  # other tests share it
        java.command("broker", "config", "set", "traceOn=true")


def test_a_broker_cleans_up(java: Cluster) -> None:
    found = java.command("broker", "clean", "log", "queues", "topics")["cleaned"]
    assert [(each["broker"], each["what"], each["said"]) for each in found] == [
        (java.broker, what, "") for what in ("log", "queues", "topics")
    ]


def test_a_cluster_shows_its_brokers(java: Cluster) -> None:
    (cluster,) = java.command("cluster")["clusters"]
    (broker,) = cluster["brokers"]
    assert (broker["role"], broker["address"], broker["problem"]) == ("master", java.broker, None)
    assert broker["version"].startswith("V")


def test_a_cluster_is_measured(java: Cluster) -> None:
    modes = [word for mode in ("sync", "async", "oneway", "batch") for word in ("--mode", mode)]
    sent = java.command("bench", "produce", *modes, "--in-flight", "4", "--count", "128")
    assert [cell["messages"] for cell in sent["cells"]] == [128] * 4
    assert [broker["flush"] for broker in sent["clusters"][0]["brokers"]] == ["ASYNC_FLUSH"]
    (read,) = java.command("bench", "consume", "--count", "600", "--single", "20")["cells"]
    assert read["messages"] >= 599
    assert 0 < read["p50_ms"] <= read["max_ms"]


def test_where_a_pull_ends(java: Cluster, topic: str) -> None:
    create_topic(java.namesrv, topic, 2)
    java.command("message", "send", "-t", topic, "--body", "only one", "--queue", "0")
    done = CliRunner().invoke(main, ["message", "pull", "-t", topic, "-n", java.namesrv, "--from-offset", "7"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "offset 7 is beyond the end of " in done.stderr
    assert java.command("message", "pull", "-t", topic, "--from-time", "-10m")["body"] == "only one"


def test_names_of_mqadmin(java: Cluster, topic: str) -> None:
    assert java.command("updateTopic", "-t", topic, "-b", java.broker, "-r", "2", "-w", "2")["brokers"] == [java.broker]
    wait_until(lambda: topic in java.command("topicList")["topics"], topic, PROGRESS_S)
    sent = java.command("sendMessage", "-t", topic, "-p", "hello", "-k", "a")
    assert java.command("queryMsgById", "-i", sent["offset_id"])["body"] == "hello"
    assert len(java.command("topicStatus", "-t", topic)["queues"]) == 2
    assert java.command("getBrokerConfig", "-b", java.broker)["brokers"][0]["broker"] == java.broker


def test_a_group_that_is_offline_goes_on_where_it_is_told(
    java: Cluster, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    create_topic(java.namesrv, topic, 2)
    driver = Driver("5.3.3", tmp_path_factory.mktemp("driver"), java.namesrv)
    driver.produce(topic, 10)
    group, copy = f"{topic}-group", f"{topic}-copy"
    java.command("group", "create", "-g", group)

    def places(name: str) -> list[int]:
        queues = java.command("group", "progress", "-g", name, "-t", topic)["queues"]
        return [each["committed"] for each in queues]

    for to, there in (("latest", 5), ("earliest", 0), ("3", 3), ("2020-01-01", 0), ("4", 4)):
        found = java.command("group", "reset", group, "-t", topic, "--to", to)
        assert [each["after"] for each in found["queues"]] == [there] * 2
        assert places(group) == [there] * 2
    java.command("group", "clone", group, copy, "-t", topic)
    assert places(copy) == [4, 4]


def test_members_that_are_online_read_again_what_they_are_told(
    java: Cluster, topic: str, tmp_path_factory: pytest.TempPathFactory, running: Callable[[Process], Process]
) -> None:
    """At a broker 4.9.7 the members reset their offsets themselves, which takes 30 s; the test does not wait for it."""
    create_topic(java.namesrv, topic, 2)
    driver = Driver("5.3.3", tmp_path_factory.mktemp("driver"), java.namesrv)
    group = f"{topic}-group"
    sent = driver.produce(topic, 10)
    consumer = running(driver.push(topic, group))

    def read(times: int) -> bool:
        queues = java.command("group", "progress", "-g", group, "-t", topic)["queues"]
        return len(consumer.of("received")) >= times * len(sent) and sum(each["committed"] for each in queues) == 10

    wait_until(lambda: read(1), f"progress of {group}", PROGRESS_S)
    found = java.command("group", "reset", group, "-t", topic, "--to", "earliest")
    assert (found["online"], found["read_again"]) == (1, 10)
    if found["by"] == ["broker"]:
        wait_until(lambda: read(2), f"messages for {group} again", PROGRESS_S)
    else:
        assert found["by"] == ["members"]
