"""The official Go client on our name server and broker.

`GANTRYMQ_INTEROP_CONTROL=5.3.3` runs the same tests on Java's servers of that version, to check the tests themselves.

Not supported by this client: assigned queues of its pull consumer, delay by time, recall, pop. Its own function
creates replies without a body, so the driver sets the body.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from checks import assert_same_messages, position, pull_all, wait_for_bodies
from harness import Driver, GantryServer, GoDriver, Process, create_topic

pytestmark = pytest.mark.interop

CONTROL = os.environ.get("GANTRYMQ_INTEROP_CONTROL")
SOON = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}
Running = Callable[[Process], Process]


class Servers(NamedTuple):
    """Return the servers under test: ours, or Java's in a control run."""

    namesrv: str
    broker: str


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, java_servers: Callable[[str], tuple[str, str]]
) -> Iterator[Servers]:
    if CONTROL:
        yield Servers(*java_servers(CONTROL))
        return
    with GantryServer.both(tmp_path_factory.mktemp("ours"), settings=SOON) as server:
        yield Servers(server.namesrv, server.broker_address)


@pytest.fixture
def go(servers: Servers, tmp_path: Path, topic: str) -> GoDriver:
    driver = GoDriver(tmp_path, servers.namesrv)
    create_topic(servers.namesrv, topic)
    return driver


@pytest.fixture
def java(servers: Servers, tmp_path: Path) -> Driver:
    return Driver("5.3.3", tmp_path, servers.namesrv)


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_java_pulls_what_go_sent(go: GoDriver, java: Driver, topic: str, mode: str) -> None:
    """The messages of a batch of this client have no ids."""
    sent = go.produce(topic, 20, mode, tags="TagA,TagB", keys_prefix="k")
    assert_same_messages(sent, pull_all(java, topic, sent), same_ids=mode != "batch")


def test_long_bodies_are_compressed(go: GoDriver, java: Driver, topic: str) -> None:
    sent = go.produce(topic, 5, size=6_000)
    assert_same_messages(sent, java.pull(topic))


def test_go_receives_what_java_sent(go: GoDriver, java: Driver, topic: str, running: Running) -> None:
    consumer = running(go.push(topic, f"{topic}-group"))
    sent = java.produce(topic, 20, tags="TagA,TagB", keys_prefix="k", size=5_000)
    assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_a_push_consumer_gets_the_tags_it_asked_for(go: GoDriver, topic: str, running: Running) -> None:
    consumer = running(go.push(topic, f"{topic}-group", sub="TagA || TagC"))
    sent = go.produce(topic, 30, tags="TagA,TagB,TagC")
    wanted = [e for e in sent if e["tags"] != "TagB"]
    assert_same_messages(wanted, wait_for_bodies([consumer], wanted))


def test_broadcasting_consumers_each_get_everything(go: GoDriver, topic: str, running: Running) -> None:
    consumers = [running(go.push(topic, f"{topic}-group", model="broadcasting")) for _ in range(2)]
    sent = go.produce(topic, 20)
    for consumer in consumers:
        assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_a_pull_consumer_polls_everything(go: GoDriver, topic: str) -> None:
    sent = go.produce(topic, 20, tags="TagA,TagB")
    wanted = [e for e in sent if e["tags"] == "TagA"]
    events = go.run("pull", topic=topic, group=f"{topic}-group", sub="TagA", until=len(wanted))
    assert_same_messages(wanted, [e for e in events if e["event"] == "received"])


def test_an_ordered_consumer_gets_each_queue_in_order_past_failures(go: GoDriver, topic: str, running: Running) -> None:
    """Each message is refused once, and redelivered before the next one."""
    consumer = running(go.push(topic, f"{topic}-group", ordered="yes", fail=1))
    sent = go.produce(topic, 30, "ordered")
    wait_for_times(consumer, {e["body"]: 2 for e in sent})
    for queue in {e["queueId"] for e in sent}:
        expected = [offset for each, offset in map(position, sent) if each == queue for _ in range(2)]
        assert [e["queueOffset"] for e in consumer.of("received") if e["queueId"] == queue] == expected


def test_delay_levels(go: GoDriver, topic: str, running: Running) -> None:
    consumer = running(go.push(topic, f"{topic}-group"))
    sent = go.produce(topic, 5, level=2)
    for event in wait_for_bodies([consumer], sent):
        assert event["storeTimestamp"] - event["bornTimestamp"] >= 5_000
        assert event["properties"]["REAL_TOPIC"] == topic
    assert len(consumer.of("received")) == 5


def test_a_refused_message_comes_again_and_ends_as_a_dead_letter(
    go: GoDriver, java: Driver, topic: str, running: Running
) -> None:
    group = f"{topic}-group"
    consumer = running(go.push(topic, group, fail=9, next_level=1, max_reconsume=2))
    sent = go.produce(topic, 3, tags="TagA", keys_prefix="k")
    wait_for_times(consumer, {e["body"]: 3 for e in sent})
    tries = [(e["body"], e["reconsumeTimes"]) for e in consumer.of("received")]
    assert sorted(tries) == [(e["body"], times) for e in sent for times in range(3)]
    dead = consumer.wait_for(lambda _: found if len(found := java.pull(f"%DLQ%{group}")) == 3 else [], "dead letters")
    assert_same_messages([{**e, "queueOffset": None} for e in sent], dead)
    assert {(e["reconsumeTimes"], e["properties"]["RETRY_TOPIC"]) for e in dead} == {(3, topic)}


def test_transactions_are_committed_rolled_back_and_checked(
    go: GoDriver, java: Driver, topic: str, running: Running
) -> None:
    """The producer answers the first check of each with "unknown"."""
    consumer = running(java.push(topic, f"{topic}-group"))
    events = go.run("transact", topic=topic, decide="commit,rollback,ask,commit,ask", answers="unknown,commit")
    sent = [e for e in events if e["event"] == "sent"]
    visible = [e for e in sent if not e["body"].startswith("rollback")]
    arrived = wait_for_bodies([consumer], visible)
    assert sorted(e["body"] for e in arrived) == sorted(e["body"] for e in visible)
    asked = [e["body"] for e in events if e["event"] == "asked"]
    assert {body: asked.count(body) for body in asked} == {"ask2": 2, "ask4": 2}


def test_a_check_may_be_answered_with_a_rollback(go: GoDriver, java: Driver, topic: str) -> None:
    events = go.run("transact", topic=topic, decide="ask,commit", answers="rollback")
    assert [e["body"] for e in events if e["event"] == "asked"] == ["ask0"]
    assert [e["body"] for e in java.pull(topic)] == ["commit1"]


def test_go_asks_and_is_answered(go: GoDriver, topic: str, running: Running) -> None:
    running(go.push(topic, f"{topic}-group", answer="answer to "))
    events = go.run("request", topic=topic, count=2)
    answers = [e["body"] for e in events if e["event"] == "answered"]
    assert answers == [f"answer to question{i}" for i in range(2)]


def wait_for_times(consumer: Process, times: dict[str, int]) -> None:
    """Wait until each body was delivered exactly as often as *times* says."""

    def counts(_: Process) -> bool:
        bodies = [e["body"] for e in consumer.of("received")]
        return {body: bodies.count(body) for body in bodies} == times

    consumer.wait_for(counts, f"deliveries {times}")
