"""Official clients fail messages: redelivery after growing delays, and dead letters at the end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.gantry_server import gantrymq
from harness.java_servers import SMALL_STORE
from harness.peers import used
from polling import wait_until

from gantrymq.client import Client
from gantrymq.model.names import SCHEDULE_TOPIC

pytestmark = pytest.mark.interop

DEADLINE_S = 75.0  # a client whose heartbeat collided with another of its own gets nothing until the next, 30 s later
LEVELS_S = (1, 1, 1, 2, 2, 3)  # level 3 is the first that a broker chooses
OFTEN = {"rocketmq.client.rebalance.waitInterval": "1000"}  # a client reads its retry topic from then on
VERSIONS = [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"]


SETTINGS = {"messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS_S)}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    with GantryServer.both(tmp_path_factory.mktemp("ours"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(params=VERSIONS)
def driver(request: pytest.FixtureRequest, broker: GantryServer, tmp_path: Path) -> Driver:
    used("gantrymq broker")
    return Driver(request.param, tmp_path, broker.namesrv, properties=OFTEN)


def dead_letters(namesrv: str, scratch: Path, group: str) -> list[dict[str, Any]]:
    """Return the state of *group*, which may not exist yet."""
    try:
        found = gantrymq(scratch, "group", "dlq", "list", group, "-n", namesrv)
    except RuntimeError:
        return []
    return list(found["letters"])


def test_a_failing_message_is_delayed_longer_each_time_and_becomes_a_dead_letter(
    broker: GantryServer, driver: Driver, topic: str, tmp_path: Path
) -> None:
    """The dead letter is sent again by command, and consumed by a consumer that succeeds."""
    group = f"payers{topic}"
    driver.produce(topic, 2, tags="fail2,fail9", keys_prefix="k", body_prefix="m")
    with driver.start("retry", topic=topic, group=group, max_times=3) as consumer:
        dead = wait_until(lambda: dead_letters(broker.namesrv, tmp_path, group), "a dead letter", DEADLINE_S)
        tried = consumer.of("tried")
        by_key = {key: [e for e in tried if e["keys"] == key] for key in ("k0", "k1")}
        assert [(e["times"], e["good"]) for e in by_key["k0"]] == [(0, False), (1, False), (2, True)]
        assert [(e["times"], e["good"]) for e in by_key["k1"]] == [(0, False), (1, False), (2, False), (3, False)]
        assert {e["topic"] for e in tried} == {topic}
        for events in by_key.values():
            waited = [after["at"] - before["at"] for before, after in pairwise(events)]
            assert all(ms >= due * 1000 for ms, due in zip(waited, LEVELS_S[2:], strict=False)), waited
    (letter,) = dead
    assert (letter["origin_topic"], letter["reconsume_times"], letter["keys"]) == (topic, 4, "k1")
    assert letter["why"] == "failed 4 times and was sent back"
    with driver.push(topic, group, until=1) as better:
        done = gantrymq(tmp_path, "group", "dlq", "resend", group, "--all", "-n", broker.namesrv)
        assert (done["resent"], done["left_out"]) == (1, 0)
        (again,) = wait_until(lambda: better.of("received"), "the message that was sent again", DEADLINE_S)
    assert (again["topic"], again["body"], again["keys"], again["tags"]) == (topic, "m-1", "k1", "fail9")
    assert (again["reconsumeTimes"], again["msgId"]) == (0, letter["message_id"])


def test_a_delay_level_that_the_consumer_chooses(broker: GantryServer, driver: Driver, topic: str) -> None:
    driver.produce(topic, 1, tags="fail1")
    with driver.start("retry", topic=topic, group=f"payers{topic}", level=6) as consumer:
        first, second = wait_until(
            lambda: tried if len(tried := consumer.of("tried")) == 2 else None, "two tries", DEADLINE_S
        )
    assert second["at"] - first["at"] >= LEVELS_S[5] * 1000


def test_a_negative_level_is_a_dead_letter_at_once(
    broker: GantryServer, driver: Driver, topic: str, tmp_path: Path
) -> None:
    group = f"payers{topic}"
    driver.produce(topic, 1, tags="fail1")
    with driver.start("retry", topic=topic, group=group, level=-1) as consumer:
        (letter,) = wait_until(lambda: dead_letters(broker.namesrv, tmp_path, group), "a dead letter", DEADLINE_S)
        assert len(consumer.of("tried")) == 1
    assert letter["reconsume_times"] == 1


def test_retries_and_dead_letters_of_groups_in_namespaces(broker: GantryServer, topic: str, tmp_path: Path) -> None:
    """The first kind is part of the names of topic, group, retry topic and dead letter topic; the second of none."""
    used("gantrymq broker")
    with ExitStack() as stack:
        consumers = []
        for number, second in (("4.9.8", False), ("5.3.3", False), ("5.3.3", True)):
            name = f"{topic}-{number.replace('.', '')}{'v2' if second else ''}"
            prefix, flags = ("", ("--v2",)) if second else ("shop%", ())
            create_topic(broker.namesrv, prefix + name, 1)
            driver = Driver(number, tmp_path / name, broker.namesrv, properties=OFTEN)
            inside = {"topic": name, "group": f"of-{name}", "namespace": "shop", "max_times": 1}
            consumers.append((name, prefix, stack.enter_context(driver.start("retry", *flags, **inside))))
        for name, prefix, _ in consumers:
            for tag in ("fail1", "fail9"):
                words = ("-t", prefix + name, "--tags", tag, "--body", tag, "--keys", tag, "-n", broker.namesrv)
                gantrymq(tmp_path, "message", "send", *words)
        for name, prefix, consumer in consumers:
            (letter,) = wait_until(
                partial(dead_letters, broker.namesrv, tmp_path, f"{prefix}of-{name}"),
                f"dead letter of {name}",
                DEADLINE_S,
            )
            assert (letter["origin_topic"], letter["keys"], letter["reconsume_times"]) == (prefix + name, "fail9", 2)
            tried = consumer.of("tried")
            assert sorted((e["keys"], e["times"], e["good"]) for e in tried) == [
                ("fail1", 0, False),
                ("fail1", 1, True),
                ("fail9", 0, False),
                ("fail9", 1, False),
            ]
            assert {e["topic"] for e in tried} == {name}


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_dead_letters_of_a_java_broker_are_listed_and_sent_again(
    java_servers: Callable[[str], Any], topic: str, tmp_path: Path, version: str
) -> None:
    """To the group and to the topic, by our command."""
    used("gantrymq command")
    servers = java_servers(version)
    driver, group = Driver("5.3.3", tmp_path, servers.namesrv, properties=OFTEN), f"payers{topic}"
    create_topic(servers.namesrv, topic)
    driver.produce(topic, 2, tags="fail1", keys_prefix="k", body_prefix="m")
    with driver.start("retry", topic=topic, group=group, level=-1) as consumer:
        wait_until(lambda: len(consumer.of("tried")) == 2, "two failures", DEADLINE_S)

        def both() -> list[dict[str, Any]] | None:
            try:
                found = gantrymq(tmp_path, "group", "dlq", "list", group, "-n", servers.namesrv)
            except RuntimeError:
                return None
            return list(found["letters"]) if found["dead_letters"] == 2 else None

        letters = wait_until(both, "two dead letters", DEADLINE_S)
        assert {(each["origin_topic"], each["reconsume_times"]) for each in letters} == {(topic, 1)}
    shown = gantrymq(tmp_path, "group", "dlq", "show", group, "1", "-n", servers.namesrv)
    assert (shown["keys"], shown["why"]) == (letters[1]["keys"], "failed 1 time and was sent back")
    with driver.push(topic, group) as better:
        assert gantrymq(tmp_path, "group", "dlq", "resend", group, "0", "-n", servers.namesrv)["resent"] == 1
        done = gantrymq(tmp_path, "group", "dlq", "resend", group, "1", "--to", "topic", "-n", servers.namesrv)
        assert done["by_topic"] == {topic: 1}
        received = wait_until(
            lambda: got if len(got := better.of("received")) == 2 else None, "both messages", DEADLINE_S, better.tail
        )
    assert {(e["topic"], e["keys"], e["tags"], e["reconsumeTimes"]) for e in received} == {
        (topic, "k0", "fail1", 0),
        (topic, "k1", "fail1", 0),
    }


def sent_back(namesrv: str) -> int:
    """Return how many messages were delayed so far."""

    async def ask() -> int:
        async with Client(namesrv) as client, client.admin as admin:
            (address,) = await admin.masters()
            return sum(queue.max_offset for queue in (await admin.topic_stats(address, SCHEDULE_TOPIC)).values())

    return asyncio.run(ask())


def tries(namesrv: str, scratch: Path, topic: str, delayed: int) -> list[int]:
    """Let a consumer fail until the store has delayed *delayed* messages; return the attempts."""
    driver = Driver("5.3.3", scratch, namesrv, properties=OFTEN)
    with driver.start("retry", topic=topic, group=f"payers{topic}", max_times=4) as consumer:
        wait_until(lambda: sent_back(namesrv) == delayed, f"{delayed} delays", DEADLINE_S, consumer.tail)
        return [event["times"] for event in consumer.of("tried")]


@pytest.mark.long
def test_a_java_broker_goes_on_in_the_middle_of_the_tries_and_ours_again(topic: str, tmp_path: Path) -> None:
    """One message fails on our broker, on a Java broker, and on ours again, where it becomes a dead letter.

    Both brokers are stopped, not killed: a killed Java broker loses the group offsets of the last seconds, and one that
    opens a killed store delivers again the delayed messages of the last seconds.
    """
    settings = {**SMALL_STORE, **SETTINGS}
    group = f"payers{topic}"
    with GantryServer.both(tmp_path / "ours", settings=settings) as server:
        create_topic(server.namesrv, topic, 1)
        Driver("5.3.3", tmp_path, server.namesrv).produce(topic, 1, tags="fail9", body_prefix="m")
        assert tries(server.namesrv, tmp_path / "first", topic, 2) == [0, 1]
        assert server.stop() == 0
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker("5.3.3", tmp_path / "java", namesrv.address, store=server.store, settings=settings) as broker,
    ):
        assert tries(namesrv.address, tmp_path / "second", topic, 4) == [2, 3]
        broker.stop()
    with GantryServer.both(tmp_path / "again", store=server.store, settings=settings) as server:
        driver = Driver("5.3.3", tmp_path / "third", server.namesrv, properties=OFTEN)
        with driver.start("retry", topic=topic, group=group, max_times=4) as consumer:
            (letter,) = wait_until(
                partial(dead_letters, server.namesrv, tmp_path, group), "a dead letter", DEADLINE_S, consumer.tail
            )
            assert [event["times"] for event in consumer.of("tried")] == [4]
    assert (letter["origin_topic"], letter["reconsume_times"]) == (topic, 5)
