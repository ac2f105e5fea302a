"""Order topics: the name servers define their queues, whatever the brokers' permission."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryCluster, Process, create_topic, route_of
from harness.peers import used
from harness.probe import request
from polling import wait_until

from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig

pytestmark = pytest.mark.interop

PUT_KV_CONFIG, DELETE_KV_CONFIG = 100, 102
ORDER = "broker-a:3;broker-b:2"
QUEUES = {("broker-a", 0), ("broker-a", 1), ("broker-a", 2), ("broker-b", 0), ("broker-b", 1)}
NO_PERMISSION = 16
MARKED_S = 60.0  # brokers register every 30 s
Running = Callable[[Process], Process]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    scratch = tmp_path_factory.mktemp("order")
    with GantryCluster(scratch, namesrv_settings={"orderMessageEnable": "true"}) as servers:
        yield servers


@pytest.fixture
def ordered(cluster: GantryCluster, topic: str) -> str:
    """A topic with four queues on each broker, five of them in the order configuration."""
    for address in cluster.namesrvs:
        _put_order(address, topic, ORDER)
    create_topic(cluster.namesrvs[0], topic)
    for address in cluster.namesrvs:
        cluster.wait_for_route(topic, lambda route: "broker-a" in route and "broker-b" in route, address)
    return topic


def test_a_route_carries_the_order_configuration(cluster: GantryCluster, ordered: str) -> None:
    used("a request of the tests' own")
    for address in cluster.namesrvs:
        assert json.loads(_standard_route(address, ordered))["orderTopicConf"] == ORDER
        request(address, DELETE_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": ordered})
        assert not json.loads(_standard_route(address, ordered)).get("orderTopicConf")


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def test_a_producer_uses_the_queues_named_and_a_consumer_gets_them(
    cluster: GantryCluster, tmp_path: Path, ordered: str, running: Running, version: str
) -> None:
    driver = Driver(version, tmp_path, cluster.namesrv)
    consumer = running(driver.push(ordered, f"{ordered}-group"))
    sent = driver.produce(ordered, 40)
    assert {(e["brokerName"], e["queueId"]) for e in sent} == QUEUES
    assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_our_producer_uses_the_queues_named(cluster: GantryCluster, ordered: str) -> None:
    used("gantrymq.client")

    async def queues() -> tuple[MessageQueue, ...]:
        async with Client(cluster.namesrv) as client, client.producer("ours") as producer:
            return await producer.queues(ordered)

    assert {(queue.broker_name, queue.queue_id) for queue in asyncio.run(queues())} == QUEUES


@pytest.fixture
def b_closed(cluster: GantryCluster) -> Iterator[None]:
    """broker-b is closed for writing during the test."""
    cluster.stop_one("broker-b")
    cluster.start("broker-b", {"brokerPermission": "4"})
    for address in cluster.namesrvs:
        cluster.wait_for_route("TBW102", lambda route: "broker-a" in route and "broker-b" in route, address)
    yield
    cluster.stop_one("broker-b")
    cluster.heal()


@pytest.mark.usefixtures("b_closed")
def test_sends_to_a_queue_of_a_closed_broker_go_to_the_other_broker(
    cluster: GantryCluster, tmp_path: Path, ordered: str
) -> None:
    """The order configuration still names its queues; the broker answers 16, and the client tries the other one."""
    _wait_until_marked(cluster, ordered)
    driver = Driver("5.3.3", tmp_path, cluster.namesrv)
    sent = driver.produce(ordered, 20)
    assert {e["brokerName"] for e in sent} == {"broker-a"}
    assert_same_messages(sent, driver.pull(ordered))
    assert _refusal(cluster, ordered) == NO_PERMISSION


@pytest.mark.usefixtures("b_closed")
@pytest.mark.parametrize(("order", "code"), [(True, NO_PERMISSION), (False, None)], ids=["ordered", "other"])
def test_a_closed_broker_is_left_out_of_routes_and_refuses_order_topics_alone(
    cluster: GantryCluster, tmp_path: Path, topic: str, order: bool, code: int | None
) -> None:
    """The write bit is for routes: RocketMQ checks it in a send only if the topic is ordered."""

    async def create() -> None:
        async with Client(cluster.namesrv) as client, client.admin as admin:
            for address in await admin.masters("DefaultCluster"):
                await admin.create_topic(address, TopicConfig(topic, 4, 4, order=order))

    asyncio.run(create())
    for address in cluster.namesrvs:
        cluster.wait_for_route(topic, lambda route: '"perm":4' in route and '"perm":6' in route, address)
    sent = Driver("4.9.8", tmp_path, cluster.namesrv).produce(topic, 20)
    assert {e["brokerName"] for e in sent} == {"broker-a"}
    assert _refusal(cluster, topic) == code


def _wait_until_marked(cluster: GantryCluster, topic: str) -> None:
    """Wait until the brokers have learnt, with a registration, that the topic is ordered."""

    async def marks() -> list[bool]:
        async with Client(cluster.namesrv) as client, client.admin as admin:
            return [(await admin.topic_config(each, topic)).order for each in await admin.masters("DefaultCluster")]

    wait_until(lambda: all(asyncio.run(marks())), f"mark of {topic} at every broker", MARKED_S)


def _refusal(cluster: GantryCluster, topic: str) -> int | None:
    """Return the code with which broker-b refuses a message for its first queue, None if it accepts it."""

    async def send() -> None:
        async with Client(cluster.namesrv) as client, client.producer("ours") as producer:
            await producer.send(Message(topic, b"body"), MessageQueue(topic, "broker-b", 0))

    try:
        asyncio.run(send())
    except BrokerRefused as refused:
        return refused.response_code
    return None


def _put_order(address: str, topic: str, value: str) -> None:
    header, _ = request(address, PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": value})
    assert header["code"] == 0, header


def _standard_route(address: str, topic: str) -> str:
    return route_of(address, topic) or ""
