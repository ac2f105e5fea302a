"""Every kind of message through brokers that are killed, with a Java member and one of ours in the same group.

Plain messages, batches, delays by level, delays to the millisecond, transactions (committed, rolled back, and decided
by a check) and retries. After 20 kills (-9), the group has consumed every acknowledged message; a delayed message and a
transaction are stored once in their topic; no rolled-back message is there; the number of retries stored twice is at
most the number that can have been in progress when the broker was killed.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from chaos_rig.scale import rounds
from harness import Driver, GantryCluster, create_topic
from harness.process import Process
from message_history import read_topic
from polling import until

from gantrymq.client import (
    Client,
    ClientError,
    Message,
    Producer,
    ReceivedMessage,
    ReconsumeLater,
    TransactionProducer,
    TransactionState,
)

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES, GROUP = "ChaosKinds", 8, "chaos-kinds"
KILLS = 20
MORE = 150  # acknowledged messages between two kills
CONCURRENCY = 16  # of our member
SendOne = Callable[[str], Awaitable[list[str]]]  # sends a body; returns the bodies of the resulting messages
PROGRESS_S, ALL_CAME_S = 120.0, 240.0
SETTINGS = {
    "mappedFileSizeCommitLog": str(4 * 1024**2),
    "transactionCheckInterval": "3000",
    "transactionTimeOut": "1000",
    "messageDelayLevel": "1s 2s 3s 5s",
}


class Work:
    """Bodies sent, by kind, and bodies consumed by the group."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()  # must be delivered
        self.rolled_back: set[str] = set()  # these must not
        self.decided: dict[str, TransactionState] = {}  # the answer to a check
        self.consumed: Counter[str] = Counter()
        self.failed_sends = 0
        self.sending = True

    def check(self, message: ReceivedMessage) -> TransactionState:
        return self.decided.get(message.body.decode(), TransactionState.ROLLBACK)

    async def send(self, kind: str, send_one: SendOne) -> None:
        """Send messages one at a time, each in one attempt, until `sending` ends."""
        number = 0
        while self.sending:
            number += 1
            body = f"{kind}-{number}"
            try:
                sent = await send_one(body)
            except ClientError:
                self.failed_sends += 1
                await asyncio.sleep(0)
            else:
                self.acknowledged.update(sent)

    async def take(self, message: ReceivedMessage) -> None:
        """Our member: fails every tenth message once."""
        body = message.body.decode()
        if body.endswith("0") and message.reconsume_times == 0:
            raise ReconsumeLater(1)
        self.consumed[body] += 1


def senders(producer: Producer) -> dict[str, SendOne]:
    """The send function of each kind."""

    async def plain(body: str) -> list[str]:
        await producer.send(Message(TOPIC, body.encode()))
        return [body]

    async def batch(body: str) -> list[str]:
        bodies = [f"{body}.{part}" for part in range(3)]
        await producer.send_batch([Message(TOPIC, each.encode()) for each in bodies])
        return bodies

    async def level(body: str) -> list[str]:
        await producer.send(Message(TOPIC, body.encode(), delay_level=1 + len(body) % 4))
        return [body]

    async def timer(body: str) -> list[str]:
        await producer.send(Message(TOPIC, body.encode(), delay_ms=1500 + 100 * (int(body.rpartition("-")[2]) % 30)))
        return [body]

    return {"plain": plain, "batch": batch, "level": level, "timer": timer}


async def transactions(producer: TransactionProducer, work: Work) -> None:
    """Commit two of four, roll one back, and leave one to a check, which commits it."""
    number = 0
    while work.sending:
        number += 1
        body = f"transaction-{number}"
        work.decided[body] = TransactionState.ROLLBACK if number % 4 == 1 else TransactionState.COMMIT
        try:
            async with producer.transaction(Message(TOPIC, body.encode())) as transaction:
                transaction.state = TransactionState.UNKNOWN if number % 4 == 0 else work.decided[body]
        except ClientError:
            work.failed_sends += 1
            await asyncio.sleep(0)
        else:
            (work.rolled_back if number % 4 == 1 else work.acknowledged).add(body)


async def scenario(cluster: GantryCluster, java: Process, kills: int) -> Work:
    """Send, consume and kill; return when the group has consumed everything."""
    work = Work()
    async with Client(cluster.namesrv) as client:
        consumer = client.consumer(GROUP, TOPIC, consume_from="first")
        consuming = asyncio.create_task(consumer.run(work.take, concurrency=CONCURRENCY))
        await consumer.wait_assigned()
        producer = client.producer("chaos-kinds-senders", retries=0)
        paying = client.transaction_producer("chaos-kinds-payers", work.check, retries=0)
        sending = [asyncio.create_task(work.send(kind, one)) for kind, one in senders(producer).items()]
        sending.append(asyncio.create_task(transactions(paying, work)))
        for _ in range(kills):
            wanted = len(work.acknowledged) + MORE
            await until(lambda w=wanted: len(work.acknowledged) >= w, f"{MORE} more messages", PROGRESS_S)
            cluster.kill("broker-a")
            await asyncio.to_thread(cluster.start, "broker-a")
        work.sending = False
        await asyncio.gather(*sending)

        def came() -> set[str]:
            return work.consumed.keys() | {event["body"] for event in java.of("got")}

        try:
            await until(lambda: work.acknowledged <= came(), "end of consumption", ALL_CAME_S)
        except AssertionError:
            missing = sorted(work.acknowledged - came())
            raise AssertionError(f"{len(missing)} of {len(work.acknowledged)} never came: {missing[:10]}") from None
        assert not consuming.done()
        assert not work.rolled_back & came()
        await consumer.close()
        with contextlib.suppress(asyncio.CancelledError):
            await consuming
    return work


def test_no_kind_of_message_is_lost_or_doubled_by_kills(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kills = rounds(KILLS)
    with GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=SETTINGS) as cluster:
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        driver = Driver("5.3.3", tmp_path / "java", cluster.namesrv)
        with driver.start("follow", topic=TOPIC, group=GROUP, listener="concurrent", poll_ms=5000) as java:
            java.wait_for(lambda p: p.of("started"), "started")
            work = asyncio.run(scenario(cluster, java, kills))
            taken = len(java.of("got"))
        found = Counter(asyncio.run(read_topic(cluster.namesrv, TOPIC)).values())
        retried = Counter(asyncio.run(read_topic(cluster.namesrv, f"%RETRY%{GROUP}")).values())
    assert work.acknowledged <= found.keys()
    assert not work.rolled_back & found.keys()
    doubled = {body: count for body, count in found.items() if count > 1}
    assert not doubled, f"{len(doubled)} lie in {TOPIC} more than once: {sorted(doubled.items())[:10]}"
    again = sum(count - 1 for count in retried.values())
    kinds = Counter(body.partition("-")[0] for body in work.acknowledged)
    said = (
        f"{kills} kills; acknowledged {dict(kinds)}, {work.failed_sends} sends failed; Java's member took "
        f"{taken}, ours {work.consumed.total()}; {len(retried)} retried, {again} of them stored again"
    )
    print(said)
    record_property("findings", said)
    assert taken
    assert work.consumed
    assert again <= kills * CONCURRENCY
