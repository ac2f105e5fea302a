"""Ordered consumers of the official clients: no message overtakes another, even if consumers or brokers fail."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, GantryServer, Process, create_topic
from harness.gantry_server import gantrymq
from harness.peers import used
from harness.ports import free_port
from harness.process import Event
from polling import wait_until

from gantrymq.broker.tables import locks
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
DEADLINE_S = 60.0
VERSIONS = [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"]
FAILED = {"4.9.8": 2, "5.3.3": 3}  # maximum attempts before a consumer gives up a message
QUEUES = 4
OFTEN = {
    "rocketmq.client.rebalance.waitInterval": "1000",
    "rocketmq.client.rebalance.lockInterval": "1000",
    "rocketmq.client.unlockDelayTimeMills": "1000",
}


def assert_each_after_those_before_it(tried: list[Event]) -> None:
    """Check that no message of a queue is consumed before all earlier ones were done, by any consumer."""
    done: dict[object, int] = defaultdict(int)
    for event in sorted(tried, key=lambda event: event["at"]):
        queue = event["queue"]
        assert event["offset"] <= done[queue], event
        if event["good"] and event["offset"] == done[queue]:
            done[queue] += 1


def assert_no_overtaking(tried: list[Event], messages: int) -> None:
    """Check that each queue is read without a gap; after a step back it continues from there."""
    by_queue: dict[object, list[Event]] = defaultdict(list)
    for event in sorted(tried, key=lambda event: event["at"]):
        by_queue[event["queue"]].append(event)
    reached = 0
    for events in by_queue.values():
        at = -1
        for event in events:
            assert event["offset"] <= at + 1, events
            at = event["offset"] if event["good"] else event["offset"] - 1
        reached += max(event["offset"] for event in events) + 1
    assert reached == messages


def good(consumers: list[Process]) -> set[object]:
    return {e["body"] for each in consumers for e in each.of("tried") if e["good"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    with GantryServer.both(tmp_path_factory.mktemp("ours")) as server:
        yield server


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failing_message_blocks_its_queue_and_then_becomes_a_dead_letter(
    server: GantryServer, tmp_path: Path, topic: str, version: str
) -> None:
    used("gantrymq broker")
    driver, group = Driver(version, tmp_path, server.namesrv, properties=OFTEN), f"payers{topic}"
    create_topic(server.namesrv, topic)
    driver.produce(topic, 6, mode="queue", queue=0, tags="ok,fail2,ok,fail9,ok,ok")
    with driver.start(
        "retry", topic=topic, group=group, listener="orderly", max_times=2, suspend_ms=100, level=0
    ) as consumer:
        wait_until(lambda: len(good([consumer])) == 5, "five messages", DEADLINE_S, consumer.tail)
        tried = [(e["offset"], e["times"], e["good"]) for e in consumer.of("tried")]
        assert tried == [
            (0, 0, True),
            (1, 0, False),
            (1, 1, False),
            (1, 2, True),
            (2, 0, True),
            (3, 0, False),
            (3, 1, False),
            (3, 2, False),
            (4, 0, True),
            (5, 0, True),
        ]
        listed = gantrymq(tmp_path, "group", "dlq", "list", group, "-n", server.namesrv)
        (letter,) = listed["letters"]
        assert (letter["origin_topic"], letter["reconsume_times"], letter["tags"]) == (topic, FAILED[version], "fail9")
        assert "in order" in letter["why"]
        with pytest.raises(RuntimeError, match="consumes in order"):
            gantrymq(tmp_path, "group", "dlq", "resend", group, "0", "-n", server.namesrv)
        done = gantrymq(tmp_path, "group", "dlq", "resend", group, "0", "--to", "topic", "-n", server.namesrv)
        assert done["by_topic"] == {topic: 1}
        again = wait_until(
            lambda: [e for e in consumer.of("tried") if e["body"] == "message-3"][3:], "the letter again", DEADLINE_S
        )
        assert again[0]["times"] == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_joins_and_one_is_killed(
    gantrymq_broker_factory: Callable[..., RunningBroker],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    running: Running,
    version: str,
) -> None:
    """Locks of the dead consumer expire before another one gets its queues."""
    lapse_ms, first, later = 5000, 800, 480
    messages = first + later
    monkeypatch.setattr(locks, "LOCK_MS", lapse_ms)
    broker = gantrymq_broker_factory()
    used("gantrymq broker")
    broker.create_topic("Orders", QUEUES)
    driver = Driver(version, tmp_path, broker.namesrv, properties=OFTEN)
    driver.produce("Orders", first)
    options = {"topic": "Orders", "group": "payers", "listener": "orderly", "work_ms": 40}
    consumers = [running(driver.start("retry", **options))]
    wait_until(lambda: len(good(consumers)) > 20, "the first messages", DEADLINE_S)
    consumers.append(running(driver.start("retry", **options)))
    wait_until(lambda: len(good(consumers[1:])) > 20, "messages of the second consumer", DEADLINE_S)
    killed, other = consumers
    # Much of every queue must be left when the first one is killed.
    driver.produce("Orders", later, body_prefix="later")
    done = len(killed.of("tried"))
    wait_until(lambda: len(killed.of("tried")) > done, "a message of the first consumer", DEADLINE_S, killed.tail)
    killed.kill()
    queues = {event["queue"] for event in killed.of("tried")[-2:]}
    last = max(event["at"] for event in killed.of("tried"))
    wait_until(lambda: len(good(consumers)) == messages, "all messages", DEADLINE_S, other.tail)
    tried = [event for each in consumers for event in each.of("tried")]
    assert_no_overtaking(tried, messages)
    taken = [event["at"] for event in other.of("tried") if event["queue"] in queues and event["at"] > last]
    assert min(taken) - last > lapse_ms - 1500  # the last renewal came up to a second before the end


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_is_restarted_among_two_consumers(tmp_path: Path, running: Running, version: str) -> None:
    """A restart clears the locks, as in a Java broker; no message overtakes another.

    For a moment two consumers may have one queue, as with a Java broker: the first does not know yet that its lock is
    gone.
    """
    messages, port = 200, free_port(also_below=2)
    used("gantrymq broker")
    names = running(GantryServer.name_server(tmp_path / "names"))
    settings = {"listenPort": str(port), "defaultTopicQueueNums": str(QUEUES)}
    broker = running(GantryServer.broker(tmp_path / "broker", names.namesrv, settings=settings))
    driver = Driver(version, tmp_path, names.namesrv, properties=OFTEN)
    driver.produce("Orders", messages)
    options = {"topic": "Orders", "group": "payers", "listener": "orderly", "work_ms": 25}
    consumers = [running(driver.start("retry", **options)) for _ in range(2)]
    wait_until(lambda: all(len(good([each])) > 10 for each in consumers), "messages of both", DEADLINE_S)
    broker.stop()
    running(GantryServer.broker(tmp_path / "broker", names.namesrv, settings=settings))
    wait_until(lambda: len(good(consumers)) == messages, "all messages", DEADLINE_S, consumers[0].tail)
    assert_each_after_those_before_it([event for each in consumers for event in each.of("tried")])
