"""Transactions of official clients: decided at once, after a check, after a producer's death, a kill, a change of
brokers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.gantry_server import gantrymq
from harness.java_servers import SMALL_STORE
from harness.peers import used
from harness.ports import free_port
from harness.process import Process
from polling import wait_until

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
DEADLINE_S = 40.0
SOON = {"transactionCheckInterval": "700", "transactionTimeOut": "1000", "transactionCheckMax": "3"}
LATER = {**SOON, "transactionCheckInterval": "3600000"}
# A Java broker records decisions up to 3 s late. On a busy machine a check comes before that: it asks about a decided
# transaction once more and commits its message a second time.
JAVA_SOON = {
    **SMALL_STORE,
    "transactionCheckInterval": "5000",
    "transactionTimeOut": "4000",
    "transactionCheckMax": "5",
}

Start = Callable[..., Process]


@pytest.fixture
def member(running: Callable[[Process], Process], tmp_path: Path) -> Start:
    """``member(namesrv, version, topic, prefix, words)``: start a producer of the group, which sends its words."""

    def start(namesrv: str, version: str, topic: str, prefix: str, *words: str) -> Process:
        driver = Driver(version, tmp_path / prefix, namesrv)
        process = running(driver.start("decide", topic=topic, prefix=prefix, words=",".join(words) or ","))
        process.wait_for(lambda p: p.of("started"), "started")
        assert [event["status"] for event in process.of("sent")] == ["SEND_OK"] * len(words)
        return process

    return start


def bodies(namesrv: str, version: str, scratch: Path, topic: str) -> list[str]:
    """Return the messages that a consumer of an official client gets, sorted."""
    return sorted(str(event["body"]) for event in Driver(version, scratch, namesrv).pull(topic))


def undecided(scratch: Path, namesrv: str, *more: str) -> list[dict[str, object]]:
    """Return the output of our command."""
    (broker,) = gantrymq(scratch, "transactions", "list", "-n", namesrv, *more)["brokers"]
    return list(broker["transactions"])


def wait_until_decided(scratch: Path, namesrv: str) -> None:
    wait_until(lambda: not undecided(scratch, namesrv), "every transaction to be decided", DEADLINE_S)


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def test_transactions_end_as_their_producer_says(tmp_path: Path, topic: str, member: Start, version: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=SOON) as ours:
        used("gantrymq broker")
        words = ("commit", "rollback", "ask-commit", "ask-rollback", "second", "never", "commit")
        one = member(ours.namesrv, version, topic, "one", *words)
        wait_until(lambda: undecided(tmp_path, ours.namesrv, "--given-up"), "a transaction to be given up", DEADLINE_S)
        wait_until_decided(tmp_path, ours.namesrv)
        (given_up,) = undecided(tmp_path, ours.namesrv, "--given-up")
        assert (given_up["checks"], given_up["tags"], given_up["topic"]) == (3, "never", topic)
        asked = [(event["body"], event["nth"], event["counted"]) for event in one.of("asked")]
        assert sorted(asked) == [
            ("ask-commit:one-2", 1, "1"),
            ("ask-rollback:one-3", 1, "1"),
            *(("never:one-5", nth, str(nth)) for nth in (1, 2, 3)),
            *(("second:one-4", nth, str(nth)) for nth in (1, 2)),
        ]
        seen = ["ask-commit:one-2", "commit:one-0", "commit:one-6", "second:one-4"]
        assert bodies(ours.namesrv, version, tmp_path / "reader", topic) == seen
        gantrymq(tmp_path, "transactions", "resume", "-n", ours.namesrv, str(given_up["unique_id"]))
        one.wait_for(lambda p: len(p.of("asked")) > len(asked), "one more check")


def test_another_member_answers_after_a_death_and_a_kill(
    tmp_path: Path, topic: str, member: Start, running: Callable[[Process], Process]
) -> None:
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv"))
    assert isinstance(namesrv, GantryServer)
    settings = {"listenPort": str(free_port(also_below=2))}
    broker = GantryServer.broker(tmp_path / "broker", namesrv.namesrv, settings={**settings, **LATER})
    create_topic(namesrv.namesrv, topic)
    words = ("commit", "ask-commit", "ask-rollback", "ask-commit")
    member(namesrv.namesrv, JAVA, topic, "dead", *words).kill()
    wait_until(lambda: len(undecided(tmp_path, namesrv.namesrv)) == 3, "three undecided", DEADLINE_S)
    broker.kill()
    running(GantryServer.broker(tmp_path / "broker", namesrv.namesrv, settings={**settings, **SOON}))
    assert {each["checks"] for each in undecided(tmp_path, namesrv.namesrv)} == {0}
    other = member(namesrv.namesrv, "4.9.8", topic, "other")
    wait_until_decided(tmp_path, namesrv.namesrv)
    assert {event["body"] for event in other.of("asked")} == {
        "ask-commit:dead-1",
        "ask-rollback:dead-2",
        "ask-commit:dead-3",
    }
    seen = ["ask-commit:dead-1", "ask-commit:dead-3", "commit:dead-0"]
    assert bodies(namesrv.namesrv, JAVA, tmp_path / "reader", topic) == seen


def test_pending_transactions_are_checked_by_the_broker_that_takes_over(
    tmp_path: Path, topic: str, member: Start
) -> None:
    words = ("commit", "rollback", "ask-commit", "ask-rollback")
    with GantryServer.both(tmp_path / "ours", settings={**SMALL_STORE, **LATER}) as ours:
        member(ours.namesrv, JAVA, topic, "a", *words).kill()
        wait_until(lambda: len(undecided(tmp_path, ours.namesrv)) == 2, "two undecided", DEADLINE_S)
        store = ours.store
        assert ours.stop() == 0

    first = {"ask-commit:a-2", "ask-commit:b-2", "commit:a-0", "commit:b-0"}
    pending = {"ask-commit:a-2", "ask-rollback:a-3", "ask-commit:b-2", "ask-rollback:b-3"}
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=JAVA_SOON),
    ):
        b = member(namesrv.address, JAVA, topic, "b", *words)
        b.wait_for(lambda p: {e["body"] for e in p.of("asked")} >= pending, "the checks of both brokers' transactions")
        reader = tmp_path / "reader"
        wait_until(lambda: set(bodies(namesrv.address, JAVA, reader, topic)) == first, "committed messages", DEADLINE_S)
        assert {e["body"] for e in b.of("asked")} - {"commit:b-0", "rollback:b-1"} == pending
        b.kill()
        member(namesrv.address, JAVA, topic, "c", "ask-commit", "commit").kill()

    with GantryServer.both(tmp_path / "again", store=store, settings={**SMALL_STORE, **SOON}) as ours:
        d = member(ours.namesrv, JAVA, topic, "d")
        wait_until_decided(tmp_path, ours.namesrv)
        assert "ask-commit:c-0" in {event["body"] for event in d.of("asked")}
        seen = bodies(ours.namesrv, JAVA, tmp_path / "reader2", topic)
        assert set(seen) == {*first, "ask-commit:c-0", "commit:c-1"}
        assert seen.count("ask-commit:c-0") == 1
