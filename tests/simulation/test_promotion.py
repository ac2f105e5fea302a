"""What waits on one broker is delivered by another one that copied its log and its tables, once and in time."""

from collections import Counter
from inspect import isawaitable
from pathlib import Path

import pytest

from gantrymq.client import Client, Message, TransactionState
from gantrymq.loose_json import dumps
from gantrymq.model.role import Role
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

SETTINGS = {
    "store": "mmap",
    "mappedFileSizeCommitLog": 1048576,
    "brokerName": "broker-a",
    "transactionCheckInterval": 10_000,
}
INVISIBLE_S = 30
LATE_MS = 3000


async def copy_log(source, target):
    """Append everything that *source* has after the end of *target*."""
    mine, other = target.log_range(), source.log_range()
    end = mine.max_offset or other.min_offset
    while end < other.max_offset:
        data = source.read_log(end, 1 << 20)
        end = target.append_raw(end, await data if isawaitable(data) else data)


def simulate_two(main):
    """Run ``main(a, b)`` with two brokers of one name; each has a name server."""

    async def run(world):
        a, b = (Cluster(world, Path(f"/{each}"), SETTINGS) for each in "ab")
        try:
            await a.start()
            await b.start()
            return await main(a, b)
        finally:
            await a.stop()
            await b.stop()
            await world.workers.close()

    return simulate(1, run, limit_s=3600)


async def take_over(a, b, epoch):
    """Copy log and tables of *a* to the replica *b*, stop *a*, and make *b* a master."""
    await copy_log(a.store.raw_log, b.store.raw_log)
    await b.broker.tables.install(await a.broker.tables.snapshot())
    await copy_log(a.store.raw_log, b.store.raw_log)
    await a.stop()
    await b.broker.role.change(Role.MASTER, epoch)


async def checked(message):
    """Commit every half message that is checked."""
    return TransactionState.COMMIT


async def send_delayed(cluster, marks):
    """Send messages that are due 10 s and 20 s from now, and some that are delivered within 5 s."""
    async with cluster.producer() as producer:
        await producer.send(Message("D", b"level" + marks, delay_level=3))
        await producer.send(Message("D", b"timer" + marks, delay_ms=20_000))
        await producer.send(Message("D", b"delivered level" + marks, delay_level=1))
        await producer.send(Message("D", b"delivered timer" + marks, delay_ms=2000))


@pytest.mark.parametrize("own_past", [False, True])
def test_delayed_and_timed_messages(own_past):
    """With *own_past*, the second broker has messages, and timer files, that are removed with its log."""

    async def main(a, b):
        clock = b.world.clock
        if own_past:
            await b.create_topic("D", 1)
            await send_delayed(b, b" of b")
            await clock.sleep(5)
        await b.broker.role.change(Role.REPLICA, 1)
        await b.store.raw_log.truncate(0)
        await a.create_topic("D", 1)
        began_ms = clock.now_ms()
        await send_delayed(a, b"")
        await clock.sleep(5)
        await take_over(a, b, 2)
        await clock.sleep(60)
        found = await b.pull("D")
        assert Counter(each.body for each in found) == Counter(
            [b"level", b"timer", b"delivered level", b"delivered timer"]
        )
        after_ms = {each.body: each.store_timestamp - began_ms for each in found}
        assert 10_000 <= after_ms[b"level"] < 10_000 + LATE_MS
        assert 20_000 <= after_ms[b"timer"] < 20_000 + LATE_MS
        await b.restart()
        assert len(await b.pull("D")) == 4

    simulate_two(main)


def test_half_messages():
    async def main(a, b):
        await b.broker.role.change(Role.REPLICA, 1)
        await a.create_topic("H", 1)
        async with Client(a.namesrv, world=a.world) as client:
            producer = client.transaction_producer("PG", checked)
            for body, state in (
                (b"committed", TransactionState.COMMIT),
                (b"rolled back", TransactionState.ROLLBACK),
                (b"undecided", TransactionState.UNKNOWN),
            ):
                async with producer.transaction(Message("H", body)) as transaction:
                    transaction.state = state
        await take_over(a, b, 2)
        assert [each.body for each in await b.pull("H")] == [b"committed"]
        async with Client(b.namesrv, world=b.world) as client:
            producer = client.transaction_producer("PG", checked)
            async with producer.transaction(Message("H", b"new")):  # a producer that sent nothing is not asked
                pass
            await b.world.clock.sleep(120)
        assert [each.body for each in await b.pull("H")] == [b"committed", b"new", b"undecided"]

    simulate_two(main)


@pytest.mark.parametrize("orderly", [False, True])
def test_popped_messages(orderly):
    """What was not acknowledged on the first broker is popped from the second one after its invisible time."""

    async def main(a, b):
        clock = b.world.clock
        await b.broker.role.change(Role.REPLICA, 1)
        await a.create_topic("P", 1)
        for body in (b"acknowledged", b"in flight"):
            await a.send("P", body)
        options = {"invisible_s": INVISIBLE_S, "consume_from": "first", "auto_ack": False, "orderly": orderly}
        async with Client(a.namesrv, world=a.world) as client:
            consumer = client.pop_consumer("CG", "P", **options)
            first, _ = await consumer.pop(2)
            popped_at = clock.monotonic()
            await consumer.ack(first)
            await a.send("P", b"new")
            await clock.sleep(2)
        await take_over(a, b, 2)
        async with Client(b.namesrv, world=b.world) as client:
            consumer = client.pop_consumer("CG", "P", **options)
            found = []
            while clock.monotonic() - popped_at < 2 * INVISIBLE_S - 5:
                popped = await consumer.pop(poll_s=1)
                found += [(each.body, clock.monotonic() - popped_at) for each in popped]
                if popped:
                    await consumer.ack(*popped)
        bodies = [body for body, _ in found]
        assert sorted(bodies) == [b"in flight", b"new"]
        if orderly:
            assert bodies == [b"in flight", b"new"]
        (after_s,) = (after_s for body, after_s in found if body == b"in flight")
        assert INVISIBLE_S - 1 <= after_s < INVISIBLE_S + 5

    simulate_two(main)


def test_request_modes():
    """The service's file is part of the snapshot, and read when the second broker becomes a master."""

    async def main(a, b):
        await b.broker.role.change(Role.REPLICA, 1)
        await a.create_topic("P", 1)
        remoting = RemotingClient(a.world)
        body = dumps({"topic": "P", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 2})
        assert (await remoting.call(a.broker_address, request(401, None, body), timeout_s=10)).code == 0
        await remoting.close()
        await take_over(a, b, 2)
        modes = b.broker.service("pop").state_texts()["messageRequestMode.json"]
        assert '"POP"' in modes

    simulate_two(main)
