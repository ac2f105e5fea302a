"""A topic gets fewer queues while Java clients send and receive: write queues first, then read queues."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, queues_of, wait_for_bodies
from harness import Driver, GantryServer, Process, gantrymq
from harness.peers import used

from gantrymq.client import Client
from gantrymq.client.message import Message

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
BEFORE, AFTER = 16, 8
# Clients refresh routes every 30 s and rebalance every 20 s; here every second, to shorten the test.
SOON = {"rocketmq.client.rebalance.waitInterval": "1000"}
POLL_MS = 1_000
WAIT_S = 60.0


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def test_a_topic_shrinks_from_16_to_8_queues_without_loss(
    ours: GantryServer, tmp_path: Path, topic: str, running: Running, version: str
) -> None:
    driver = Driver(version, tmp_path, ours.namesrv, properties=SOON)
    _set_queues(ours, tmp_path, topic, write=BEFORE, read=BEFORE)
    consumer = running(driver.push(topic, f"{topic}-group", poll_ms=POLL_MS))
    producer = running(driver.start("produce", topic=topic, pause_ms=2, poll_ms=POLL_MS))
    _wait_for_queues_used(producer, BEFORE)
    consumer.wait_for(lambda p: queues_of(p) == set(range(BEFORE)), f"{BEFORE} queues", WAIT_S)

    _set_queues(ours, tmp_path, topic, write=AFTER, read=BEFORE)
    _wait_for_queues_used(producer, AFTER)
    wait_for_bodies([consumer], [e for e in producer.of("sent") if e["queueId"] >= AFTER])
    assert queues_of(consumer) == set(range(BEFORE))  # the messages of the upper queues were still read

    _set_queues(ours, tmp_path, topic, write=AFTER, read=AFTER)
    consumer.wait_for(lambda p: queues_of(p) == set(range(AFTER)), f"{AFTER} queues", WAIT_S)
    _wait_for_more(producer, 100)
    producer.close_input()
    producer.finish()
    assert not producer.of("error")
    sent = producer.of("sent")
    assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_our_clients_follow_a_topic_that_shrinks(ours: GantryServer, tmp_path: Path, topic: str) -> None:
    used("gantrymq.client")

    async def shrink() -> tuple[set[bytes], list[bytes]]:
        async with (
            asyncio.timeout(WAIT_S),
            Client(ours.namesrv) as client,
            client.producer("ours") as producer,
            client.reader(group="our-puller") as consumer,
        ):
            await asyncio.to_thread(_set_queues, ours, tmp_path, topic, write=BEFORE, read=BEFORE)
            bodies = [f"message {n}".encode() for n in range(48)]
            used = {(await producer.send(Message(topic, body))).queue.queue_id for body in bodies[:32]}
            assert used == set(range(BEFORE))
            await asyncio.to_thread(_set_queues, ours, tmp_path, topic, write=AFTER, read=BEFORE)
            for body in bodies[32:]:  # the old route still names the upper queues, which can still be read
                await producer.send(Message(topic, body))
            received = []
            for queue in await consumer.queues(topic):
                received += [m.body for m in (await consumer.pull(queue, 0)).messages]
            await asyncio.to_thread(_set_queues, ours, tmp_path, topic, write=AFTER, read=AFTER)
            assert [queue.queue_id for queue in await consumer.queues(topic)] == list(range(AFTER))
        async with Client(ours.namesrv) as client, client.producer("ours") as producer:
            assert [queue.queue_id for queue in await producer.queues(topic)] == list(range(AFTER))
        return set(bodies), received

    sent, received = asyncio.run(shrink())
    assert sorted(received) == sorted(sent)


def _set_queues(ours: GantryServer, scratch: Path, topic: str, *, write: int, read: int) -> None:
    numbers = ("-w", str(write), "-r", str(read))
    told = ("--fewer-queues",) if read == AFTER else ()
    gantrymq(scratch, "topic", "create", "-n", ours.namesrv, "-t", topic, *numbers, *told)


def _wait_for_queues_used(producer: Process, queues: int) -> None:
    """Wait until the last messages sent went to each of the queues 0 .. *queues* - 1, and to no other."""

    def used(process: Process) -> bool:
        last = process.of("sent")[-5 * BEFORE :]
        return len(last) == 5 * BEFORE and {e["queueId"] for e in last} == set(range(queues))

    producer.wait_for(used, f"messages to {queues} queues", WAIT_S)


def _wait_for_more(producer: Process, count: int) -> None:
    wanted = len(producer.of("sent")) + count
    producer.wait_for(lambda p: len(p.of("sent")) >= wanted, f"{wanted} messages sent", WAIT_S)
