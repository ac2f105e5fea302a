"""Two brokers and two name servers of ours; one of them is killed while clients send and receive."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryCluster, Process, gantrymq, route_of
from harness.cluster import BROKERS
from harness.peers import used
from harness.process import Event

from gantrymq.client import Client
from gantrymq.client.message import Message

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
QUEUES = 4
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    with GantryCluster(tmp_path_factory.mktemp("several")) as cluster:
        yield cluster


@pytest.fixture
def cluster(servers: GantryCluster) -> GantryCluster:
    """Restart the servers that the previous test stopped."""
    servers.heal()
    return servers


@pytest.fixture
def driver(cluster: GantryCluster, tmp_path: Path) -> Driver:
    return Driver("5.3.3", tmp_path, cluster.namesrv)


@pytest.fixture
def on_both(cluster: GantryCluster, tmp_path: Path, topic: str) -> str:
    """A topic with four queues on each broker, created by our own command."""
    made = gantrymq(tmp_path, *_topic_create(cluster, topic))
    assert len(made["brokers"]) == 2
    for address in cluster.namesrvs:
        cluster.wait_for_route(topic, _names_both, address)
    return topic


def test_a_topic_created_by_cluster_is_on_both_brokers(cluster: GantryCluster, tmp_path: Path, on_both: str) -> None:
    used("gantrymq command")
    for address in cluster.namesrvs:
        route = gantrymq(tmp_path, "topic", "route", "-n", address, "-t", on_both)
        assert [each["broker"] for each in route["brokers"]] == list(BROKERS)
        assert [(each["broker"], each["write_queues"]) for each in route["queues"]] == [
            ("broker-a", QUEUES),
            ("broker-b", QUEUES),
        ]


def test_a_producer_spreads_over_both_brokers(driver: Driver, on_both: str) -> None:
    sent = driver.produce(on_both, 80, tags="TagA,TagB", keys_prefix="k")
    assert {(e["brokerName"], e["queueId"]) for e in sent} == {(b, q) for b in BROKERS for q in range(QUEUES)}
    assert min(sum(e["brokerName"] == broker for e in sent) for broker in BROKERS) >= 30
    assert_same_messages(sent, driver.pull(on_both))


def test_a_broker_killed_under_load_fails_no_send_and_loses_nothing(
    cluster: GantryCluster, driver: Driver, on_both: str, running: Running
) -> None:
    """A message whose response was lost may be stored twice (RocketMQ promises at least once), but none is missing."""
    producer = running(driver.start("produce", topic=on_both, retries=2, pause_ms=0))
    _wait_for_more(producer, 300)
    cluster.kill("broker-a")
    before = len(producer.of("sent"))
    _wait_for_more(producer, 300)
    assert {e["brokerName"] for e in producer.of("sent")[before + 50 :]} == {"broker-b"}
    for address in cluster.namesrvs:
        cluster.wait_for_route(on_both, lambda route: "broker-a" not in route, address)

    cluster.heal()
    sent = _finish(producer)
    assert {e["status"] for e in sent} == {"SEND_OK"}
    _assert_all_there(sent, driver.pull(on_both))


def test_our_producer_goes_on_when_a_broker_is_killed(cluster: GantryCluster, tmp_path: Path, on_both: str) -> None:
    async def send_and_read() -> tuple[list[bytes], list[bytes], str]:
        async with asyncio.timeout(DEADLINE_S), Client(cluster.namesrv) as client, client.producer("ours") as producer:
            bodies = [f"message {n}".encode() for n in range(200)]
            for n, body in enumerate(bodies):
                if n == 100:
                    cluster.kill("broker-b")
                result = await producer.send(Message(on_both, body))
            await asyncio.to_thread(cluster.heal)
            return bodies, await _read_all(cluster.namesrv, on_both), result.queue.broker_name

    sent, received, last_broker = asyncio.run(send_and_read())
    assert last_broker == "broker-a"
    assert set(received) == set(sent)


def test_clients_go_on_and_new_ones_start_with_one_name_server_dead(
    cluster: GantryCluster, driver: Driver, tmp_path: Path, on_both: str, running: Running
) -> None:
    """A new client 5.3.3 tries one name server per call: its first call may fail, the next one uses the other."""
    consumer = running(driver.push(on_both, f"{on_both}-group"))
    producer = running(driver.start("produce", topic=on_both, pause_ms=5))
    _wait_for_more(producer, 50)
    cluster.kill("namesrv-1")
    _wait_for_more(producer, 50)

    new_topic = f"{on_both}New"
    gantrymq(tmp_path, *_topic_create(cluster, new_topic))
    cluster.wait_for_route(new_topic, _names_both, cluster.namesrvs[1])
    old = Driver("4.9.8", tmp_path / "old", cluster.namesrv)
    new = old.produce(new_topic, 40)
    assert {e["brokerName"] for e in new} == set(BROKERS)
    assert_same_messages(new, old.pull(new_topic))
    assert sorted(asyncio.run(_read_all(cluster.namesrv, new_topic))) == sorted(str(e["body"]).encode() for e in new)
    _send_with_a_new_producer(driver, new_topic, running)

    sent = _finish(producer)
    assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_a_name_server_that_comes_back_learns_all_routes(cluster: GantryCluster, on_both: str) -> None:
    used("gantrymq command")
    cluster.kill("namesrv-2")
    assert route_of(cluster.namesrvs[1], on_both) is None
    cluster.start("namesrv-2")
    cluster.wait_for_route(on_both, _names_both, cluster.namesrvs[1])


def test_without_any_name_server_the_command_says_so(tmp_path: Path) -> None:
    used("gantrymq command")
    with pytest.raises(RuntimeError, match="no name server answers at 127.0.0.1:1, 127.0.0.1:2"):
        gantrymq(tmp_path, "topic", "list", "-n", "127.0.0.1:1;127.0.0.1:2")


def _send_with_a_new_producer(driver: Driver, topic: str, running: Running) -> None:
    producer = running(driver.start("produce", topic=topic, pause_ms=1))
    _wait_for_more(producer, 20)
    producer.close_input()
    producer.wait_for(lambda p: p.of("done"), "end", DEADLINE_S)
    assert [(e["index"], "RemotingConnectException" in e["message"]) for e in producer.of("error")] in ([], [(0, True)])


def _topic_create(cluster: GantryCluster, topic: str) -> list[str]:
    queues = str(QUEUES)
    return ["topic", "create", "-n", cluster.namesrv, "-c", "DefaultCluster", "-t", topic, "-r", queues, "-w", queues]


def _names_both(route: str) -> bool:
    return all(name in route for name in BROKERS)


def _wait_for_more(producer: Process, count: int) -> None:
    """Wait until the producer has sent *count* more messages."""
    wanted = len(producer.of("sent")) + count
    producer.wait_for(lambda p: len(p.of("sent")) >= wanted, f"{wanted} messages sent", DEADLINE_S)


def _finish(producer: Process) -> list[Event]:
    """Stop the producer and return its sent messages; a send that failed after its retries is an error."""
    producer.close_input()
    producer.finish()
    assert not producer.of("error")
    return producer.of("sent")


def _assert_all_there(sent: list[Event], received: list[Event]) -> None:
    """Check that every acknowledged message is at its position, and that only sent messages are there."""
    places = {(e["brokerName"], e["queueId"], e["queueOffset"]): e["bodySha256"] for e in received}
    told = {(e["brokerName"], e["queueId"], e["queueOffset"]): e["bodySha256"] for e in sent}
    assert told.items() <= places.items()
    assert set(places.values()) == set(told.values())


async def _read_all(namesrv: str, topic: str) -> list[bytes]:
    """Return the bodies of all messages of *topic*, read with our own client."""
    used("gantrymq.client")
    found: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S), Client(namesrv) as client, client.reader(group="our-puller") as consumer:
        for queue in await consumer.queues(topic):
            position, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while position < end:
                result = await consumer.pull(queue, position)
                found.extend(m.body for m in result.messages)
                position = result.next_offset
    return found
