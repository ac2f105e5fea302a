"""Our client through a proxy that cuts, holds, drips, delays and reorders, while broker and name server stop and start.

Every acknowledged message is stored at the place reported to its sender and was consumed, in queue order if the group
is orderly. No consumer holds more messages than the settings allow. A closed client leaves nothing open.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from chaos_rig.proxy import REORDERING, HostileProxy
from chaos_rig.scale import SEED, rounds
from harness import GantryCluster, JavaBroker, JavaNameServer, create_topic
from message_history import Place, assert_all_there, read_topic
from polling import until

from gantrymq.client import Client, ClientError, Consumer, Message, Producer, ReceivedMessage

pytestmark = pytest.mark.interop  # separate processes, although all of them are ours

TOPIC, QUEUES = "ChaosOurs", 4
PROXIED, PROXIED_JAVA = "127.0.0.3", "127.0.0.4"  # the broker's address in routes; the broker listens at 127.0.0.1
USUAL_CUTS, LONG_CUTS = 8, 80
WORK_S, CATCH_UP_S = 240.0, 150.0
SENDERS = 8
HELD_AT_MOST = 200  # of each queue
PULLED_AT_MOST = 32  # limit of one more pull
SETTINGS = {"mappedFileSizeCommitLog": str(4 * 1024**2), "brokerIP1": PROXIED}


class Work:
    """Messages sent and consumed; each is recorded once it is known to have happened."""

    def __init__(self) -> None:
        self.acknowledged: dict[Place, str] = {}
        self.failed = 0
        self.consumed: Counter[str] = Counter()
        self.in_order: Counter[str] = Counter()
        self.disorder: list[str] = []
        self.most_held = 0
        self.sending = True
        self._reached: dict[tuple[str, int], int] = {}

    async def send(self, producer: Producer, number: int) -> None:
        """Send one message at a time; a failed send may be stored or not."""
        index = 0
        while self.sending:
            body = f"{number}-{index}"
            index += 1
            try:
                found = await producer.send(Message(TOPIC, body.encode() + bytes(100)), timeout_s=5)
            except ClientError:
                self.failed += 1
            else:
                self.acknowledged[Place(found.queue.broker_name, found.queue.queue_id, found.queue_offset)] = body

    async def take(self, message: ReceivedMessage) -> None:
        """Of the concurrent group."""
        self.consumed[_body(message)] += 1

    async def take_in_order(self, message: ReceivedMessage) -> None:
        """Check the orderly group: a new message follows all earlier ones."""
        queue, offset = (message.broker_name, message.queue_id), message.queue_offset
        due = self._reached.get(queue, 0)
        if offset > due:
            self.disorder.append(f"{queue}: {offset} came when {due} was due")
        self._reached[queue] = max(due, offset + 1)
        self.in_order[_body(message)] += 1

    async def watch(self, consumers: list[Consumer]) -> None:
        """The largest number of messages held."""
        while True:
            for consumer in consumers:
                held = consumer._run.process_queues.values() if consumer._run is not None else ()
                self.most_held = max([self.most_held, *(each.count for each in held)])
            await asyncio.sleep(0)


def _body(message: ReceivedMessage) -> str:
    return message.body.rstrip(b"\0").decode()


@pytest.mark.parametrize("cuts", [USUAL_CUTS, pytest.param(LONG_CUTS, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost_and_nothing_is_left(
    tmp_path: Path, cuts: int, record_property: Callable[[str, object], None]
) -> None:
    with GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=SETTINGS) as cluster:

        def killed(name: str) -> None:
            cluster.kill(name)
            cluster.heal()

        def stopped(name: str) -> None:
            cluster.stop_one(name)
            cluster.heal()

        troubles = [partial(killed, "broker-a"), partial(killed, "namesrv-1"), partial(stopped, "broker-a")]
        said = scenario(cluster.namesrv, cluster.address("broker-a"), PROXIED, rounds(cuts), troubles)
    print(said)
    record_property("findings", said)


@pytest.mark.long
def test_the_same_holds_at_a_java_broker(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    settings = {"brokerIP1": PROXIED_JAVA}
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker("5.3.3", tmp_path / "broker", namesrv.address, settings=settings, keep=False) as broker,
    ):
        said = scenario(namesrv.address, broker.address, PROXIED_JAVA, rounds(LONG_CUTS), [])
    print(said)
    record_property("findings", said)


def scenario(namesrv: str, broker: str, proxied: str, cuts: int, troubles: list[Callable[[], None]]) -> str:
    """Send and consume through a proxy, with *troubles* between the cuts; return the lines to print."""
    host, _, port = broker.rpartition(":")
    work = Work()
    with HostileProxy((proxied, int(port)), (host, int(port)), SEED, REORDERING) as proxy:
        create_topic(namesrv, TOPIC, queues=QUEUES)
        asyncio.run(run(namesrv, proxy, work, cuts, troubles))
    assert proxy.done["cut inside a frame"] >= cuts
    assert proxy.done["reorder"] > 0
    assert len(work.acknowledged) > 20 * cuts
    again = [sum(came.values()) - len(came) for came in (work.consumed, work.in_order)]
    return (
        f"{len(work.acknowledged)} acknowledged, {work.failed} sends failed, {dict(proxy.done)}; "
        f"{again} came again, {work.most_held} of a queue held at most"
    )


async def run(namesrv: str, proxy: HostileProxy, work: Work, cuts: int, troubles: list[Callable[[], None]]) -> None:
    """The scenario, in one event loop."""
    async with Client(namesrv) as client:
        producer = client.producer("chaos")
        groups = [
            client.consumer(
                "chaos-any", TOPIC, consume_from="first", max_queue_messages=HELD_AT_MOST, pull_batch=PULLED_AT_MOST
            ),
            client.consumer(
                "chaos-order",
                TOPIC,
                consume_from="first",
                orderly=True,
                max_queue_messages=HELD_AT_MOST,
                pull_batch=PULLED_AT_MOST,
            ),
        ]
        senders = [asyncio.create_task(work.send(producer, number)) for number in range(SENDERS)]
        handlers = [
            asyncio.create_task(groups[0].run(work.take)),
            asyncio.create_task(groups[1].run(work.take_in_order)),
        ]
        watcher = asyncio.create_task(work.watch(groups))

        def faults() -> str:
            return f"{dict(proxy.done)}"

        await until(lambda: proxy.done["cut inside a frame"] >= cuts // 2, "cuts", WORK_S, faults)
        for trouble in troubles:
            await asyncio.to_thread(trouble)
            before = len(work.acknowledged)
            await until(lambda before=before: len(work.acknowledged) > before + 50, "sends to go on", WORK_S, faults)
        await until(lambda: proxy.done["cut inside a frame"] >= cuts, "cuts", WORK_S, faults)
        proxy.calm_down()
        work.sending = False
        await asyncio.gather(*senders)
        found = await read_topic(namesrv, TOPIC)
        found = {place: body.rstrip("\0") for place, body in found.items()}
        assert_all_there(work.acknowledged, found)
        wanted = set(found.values())
        for came in (work.consumed, work.in_order):
            await until(lambda came=came: wanted <= came.keys(), "the groups to catch up", CATCH_UP_S, faults)
        watcher.cancel()
        begun = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun < 20
    await asyncio.wait([*handlers, watcher])
    assert work.disorder == []
    assert watcher.cancelled()
    assert 0 < work.most_held <= HELD_AT_MOST + PULLED_AT_MOST
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert [task.get_coro() for task in left] == []
