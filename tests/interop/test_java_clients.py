"""The official Java client, old and new, on our name server and broker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, leave, pull_all, queues_of, wait_for_bodies, wait_for_shares
from harness import Driver, GantryServer, Process, create_topic

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
OLD_IS_LONG = pytest.mark.parametrize("driver", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"], indirect=True)
VIP = {"com.rocketmq.sendMessageWithVIPChannel": "true"}


@pytest.fixture(params=["4.9.8", "5.3.3"])
def driver(request: pytest.FixtureRequest, ours: GantryServer, tmp_path: Path) -> Driver:
    return Driver(request.param, tmp_path, ours.namesrv)


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_each_message_sent_is_pulled_once(driver: Driver, ours: GantryServer, topic: str, mode: str) -> None:
    create_topic(ours.namesrv, topic)
    sent = driver.produce(topic, 50, mode, tags="TagA,TagB", keys_prefix="k")
    assert_same_messages(sent, pull_all(driver, topic, sent), same_ids=mode != "batch")


@OLD_IS_LONG
def test_clients_with_the_vip_channel_send_and_receive(
    driver: Driver, ours: GantryServer, topic: str, tmp_path: Path, running: Running
) -> None:
    """They send to the fast port; to a broker without one they cannot."""
    create_topic(ours.namesrv, topic)
    vip = Driver(driver.version, tmp_path / "vip", ours.namesrv, properties=VIP)
    consumer = running(vip.push(topic, f"{topic}-group"))
    sent = vip.produce(topic, 50, "sync", tags="TagA,TagB")
    assert_same_messages(sent, wait_for_bodies([consumer], sent))
    assert_same_messages(sent, driver.pull(topic))
    with GantryServer.both(tmp_path / "without", settings={"fastPortEnable": "false"}) as without:
        vip = Driver(driver.version, tmp_path / "vip-without", without.namesrv, properties=VIP)
        with pytest.raises(RuntimeError, match="ended with"):
            vip.produce(topic, 1)


def test_a_first_send_creates_the_topic(driver: Driver, topic: str) -> None:
    sent = driver.produce(topic, 8, tags="TagA")
    assert {e["queueId"] for e in sent} == {0, 1, 2, 3}
    assert_same_messages(sent, driver.pull(topic))


def test_a_chosen_queue_gets_its_messages_in_order(driver: Driver, ours: GantryServer, topic: str) -> None:
    create_topic(ours.namesrv, topic)
    sent = driver.produce(topic, 20, "queue", queue=2)
    assert [(e["queueId"], e["queueOffset"]) for e in sent] == [(2, n) for n in range(20)]
    assert_same_messages(sent, driver.pull(topic))


@pytest.mark.parametrize("size", [5_000, 200_000], ids=["compressed", "compressed-large"])
def test_long_bodies_come_back_whole(driver: Driver, ours: GantryServer, topic: str, size: int) -> None:
    create_topic(ours.namesrv, topic)
    sent = driver.produce(topic, 6, size=size)
    assert_same_messages(sent, driver.pull(topic))


def test_push_delivers_the_tags_asked_for(driver: Driver, ours: GantryServer, topic: str, running: Running) -> None:
    """Aa and BB have the same hash: the broker lets both through, and the client compares the text."""
    create_topic(ours.namesrv, topic)
    consumer = running(driver.push(topic, f"{topic}-group", sub="Aa || TagB"))
    sent = driver.produce(topic, 40, tags="Aa,BB,TagB,TagC", keys_prefix="k")
    wanted = [e for e in sent if e["tags"] in ("Aa", "TagB")]
    assert_same_messages(wanted, wait_for_bodies([consumer], wanted))


def test_a_group_goes_on_where_it_stopped(driver: Driver, ours: GantryServer, topic: str, running: Running) -> None:
    create_topic(ours.namesrv, topic)
    group = f"{topic}-group"
    before = driver.produce(topic, 20, body_prefix="before")
    consumer = running(driver.push(topic, group))
    assert_same_messages(before, leave(consumer, ours.broker_address, group, before))
    after = driver.produce(topic, 20, body_prefix="after")
    assert_same_messages(after, wait_for_bodies([running(driver.push(topic, group))], after))


@OLD_IS_LONG
def test_broadcasting_delivers_everything_to_each(
    driver: Driver, ours: GantryServer, topic: str, running: Running
) -> None:
    create_topic(ours.namesrv, topic)
    consumers = [
        running(driver.push(topic, f"{topic}-group", model="broadcasting", instance=name)) for name in ("one", "two")
    ]
    sent = driver.produce(topic, 40, tags="TagA,TagB")
    for consumer in consumers:
        assert_same_messages(sent, wait_for_bodies([consumer], sent))


@OLD_IS_LONG
@pytest.mark.parametrize("killed", [False, True], ids=["leaves", "killed"])
def test_queues_are_shared_again_when_a_consumer_joins_and_goes(
    driver: Driver, ours: GantryServer, topic: str, running: Running, killed: bool
) -> None:
    """During a rebalance a message may be delivered twice (RocketMQ promises at least once), but none is missing."""
    create_topic(ours.namesrv, topic, queues=6)
    group = f"{topic}-group"
    first = running(driver.push(topic, group))
    wait_for_shares([first], 6)
    second = running(driver.push(topic, group))
    wait_for_shares([first, second], 6)
    assert len(queues_of(first)) == len(queues_of(second)) == 3
    shared = driver.produce(topic, 60, body_prefix="shared")
    wait_for_bodies([first, second], shared)
    assert first.of("received")
    assert second.of("received")
    if killed:
        second.kill()
    else:
        second.close_input()
        second.finish()
    wait_for_shares([first], 6)
    alone = driver.produce(topic, 30, body_prefix="alone")
    wait_for_bodies([first], alone)
