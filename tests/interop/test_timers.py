"""Messages with a delivery time: sent and recalled by the official client, delivered by either broker."""

import time
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.java_servers import SMALL_STORE
from harness.process import Event
from polling import wait_until

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
SETTINGS = {
    **SMALL_STORE,
    "recallMessageEnable": "true",
    "mappedFileSizeTimerLog": "65536",
    "timerWheelEnable": "true",
    "brokerName": "broker-a",
}
LATE_MS = 2500  # a slot is a second, and delivery takes time under load
DEADLINE_S = 40.0


def timed(driver: Driver, topic: str, plan: str, **options: str) -> list[Event]:
    """Run a plan; its "sent" events."""
    return [e for e in driver.run("timed", topic=topic, plan=plan, **options) if e["event"] == "sent"]


def arrivals(driver: Driver, topic: str, expected: set[str], later: str = "") -> dict[str, Event]:
    """Return what a consumer got, by unique id, once everything *expected* arrived; each once. *later* may have arrived
    too."""

    def all_there() -> list[Event] | None:
        got = driver.pull(topic)
        return got if expected <= {e["msgId"] for e in got} else None

    found = wait_until(all_there, "timed messages", DEADLINE_S)
    by_id = {e["msgId"]: e for e in found}
    assert len(by_id) == len(found), "one came twice"
    assert set(by_id) - {later} == expected
    return by_id


def wait_for_all(sent: list[Event]) -> None:
    """Wait until the time of the last one is past, so that one that should not arrive had its chance."""
    last_ms = max(int(e["deliverByMs"]) for e in sent) + LATE_MS
    wait_until(lambda: time.time() * 1000 > last_ms, "the time of the last one", DEADLINE_S)


def saved(store: Path) -> None:
    """Wait until the progress is saved again: later messages may arrive twice from a Java broker that takes over."""
    check = store / "config" / "timercheck"
    before = check.read_bytes()
    wait_until(lambda: check.read_bytes() != before, "a new timercheck", DEADLINE_S)


def on_time(sent: Event, got: Event) -> bool:
    """Return whether the message arrived within its second."""
    return int(sent["deliverMs"]) - 1000 <= int(got["storeTimestamp"]) <= int(sent["deliverByMs"]) + LATE_MS


def test_the_official_client_delays_and_recalls(tmp_path: Path, topic: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        create_topic(server.namesrv, topic, 2)
        driver = Driver(JAVA, tmp_path / "client", server.namesrv)
        sent = timed(driver, topic, "ms:2500,sec:3,at:4000,recall:5000,ms:300")
        kept = [e for e in sent if e["what"] != "recall"]
        assert all(e["recallHandle"] for e in sent)
        wait_for_all(sent)
        got = arrivals(driver, topic, {e["msgId"] for e in kept})
        assert all(on_time(e, got[e["msgId"]]) for e in kept)


def test_timed_messages_wait_through_a_kill(tmp_path: Path, topic: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        create_topic(server.namesrv, topic, 2)
        driver = Driver(JAVA, tmp_path / "client", server.namesrv)
        sent = timed(driver, topic, "ms:1000,ms:1500,ms:6000,recall:6000,ms:7000")
        store = server.store
        server.kill()
    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        driver = Driver(JAVA, tmp_path / "second", server.namesrv)
        wait_for_all(sent)
        arrivals(driver, topic, {e["msgId"] for e in sent if e["what"] != "recall"})


def test_a_java_broker_takes_over_what_waits_in_a_killed_broker_and_the_reverse(tmp_path: Path, topic: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        create_topic(server.namesrv, topic, 2)
        driver = Driver(JAVA, tmp_path / "first", server.namesrv)
        sent = timed(driver, topic, "ms:1000,recall:9000,ms:9000,ms:14000,ms:25000")
        store = server.store
        wait_until(lambda: driver.pull(topic), "the first one", DEADLINE_S)
        saved(store)
        server.kill()
    first, _, *due, late = sent

    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS) as broker,
    ):
        driver = Driver(JAVA, tmp_path / "second", namesrv.address)
        got = arrivals(driver, topic, {e["msgId"] for e in (first, *due)}, late["msgId"])
        assert all(int(got[e["msgId"]]["storeTimestamp"]) >= int(e["deliverMs"]) - 1000 for e in due)
        more = timed(driver, topic, "ms:10000,recall:10000")
        saved(store)
        broker.kill()

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        driver = Driver(JAVA, tmp_path / "third", server.namesrv)
        wait_for_all(more)
        arrivals(driver, topic, {e["msgId"] for e in (first, *due, late, more[0])})


def test_what_a_java_broker_delivered_before_it_was_killed_does_not_come_again(tmp_path: Path, topic: str) -> None:
    """Also not what it delivered after the last save of its progress."""
    store = tmp_path / "store"
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS) as broker,
    ):
        create_topic(namesrv.address, topic, 2)
        driver = Driver(JAVA, tmp_path / "first", namesrv.address)
        sent = timed(driver, topic, ",".join(f"ms:{5000 + 40 * number}" for number in range(400)))
        wait_until(lambda: len(driver.pull(topic)) > 50, "the first ones", DEADLINE_S)
        broker.kill()
    with GantryServer.both(tmp_path / "ours", store=store, settings=SETTINGS) as server:
        driver = Driver(JAVA, tmp_path / "second", server.namesrv)
        wait_for_all(sent)
        arrivals(driver, topic, {e["msgId"] for e in sent})
