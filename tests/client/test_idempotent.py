"""Business effects exactly once: duplicates from redelivery, rebalance and producer retry, on a virtual clock.

The business change is a row in a table without a key, so that every effect is visible.
"""

import asyncio
import contextlib
import sqlite3

import pytest

from gantrymq.client import Client, Message, SqliteRecords, idempotent
from gantrymq.client.sending.encoded_message import prepare_batch
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"


class Shop:
    """The business changes, in a file that outlives every member."""

    def __init__(self, folder):
        self.path = folder / "shop.db"
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            file.execute("CREATE TABLE done (number INTEGER, member TEXT)")
        self._stores = []

    def once(self, cluster, **more):
        """Records as of a separate process, with their own connections and cache."""
        self._stores.append(SqliteRecords(self.path))
        return idempotent(self._stores[-1], "billing", world=cluster.world, **more)

    def effects(self):
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            return [row[0] for row in file.execute("SELECT number FROM done ORDER BY number")]

    def records(self):
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            return file.execute("SELECT count(*) FROM gantrymq_consumed").fetchone()[0]

    def close(self):
        for store in self._stores:
            store.close()


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path)
    yield made
    made.close()


def done(message, connection, member="one"):
    connection.execute("INSERT INTO done VALUES (?, ?)", (int(message.body), member))


@contextlib.asynccontextmanager
async def consumer(cluster, instance_name="one", **more):
    async with Client(cluster.namesrv, world=cluster.world, instance_name=instance_name) as client:
        yield client.consumer("billing", TOPIC, **{"consume_from": "first", **more})


async def send(cluster, count):
    for number in range(count):
        await cluster.send(TOPIC, f"{number}".encode())


@pytest.fixture
def as_java(monkeypatch):
    """Batches as Java's client sends them: with an id of their own, which brokers append to every message's."""

    def with_id(messages, ids, max_bytes, plain=None, *, inner=False):
        return prepare_batch(messages, ids, max_bytes, plain, inner=True)

    monkeypatch.setattr("gantrymq.client.producing.send_modes.prepare_batch", with_id)


@contextlib.asynccontextmanager
async def running(member, handler, **more):
    task = asyncio.create_task(member.run(handler, **more))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_a_message_that_is_refused_after_its_commit_has_one_effect(shop):
    """The change is committed, then the handler raises: the broker redelivers."""

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await send(cluster, 20)
        once, tries = shop.once(cluster), []
        inner = once(done)

        async def handle(message):
            tries.append((int(message.body), message.reconsume_times))
            await inner(message)
            if message.reconsume_times == 0:
                raise RuntimeError("after the commit")

        async with consumer(cluster) as member, running(member, handle):
            await cluster.world.clock.sleep(30)
        assert sorted(tries) == sorted((n, times) for n in range(20) for times in (0, 1))
        assert (once.consumed, once.duplicates) == (20, 20)

    simulate_cluster(work)
    assert shop.effects() == list(range(20))


def test_a_change_that_failed_is_made_when_the_message_comes_again(shop):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await send(cluster, 10)
        once = shop.once(cluster)

        @once
        def handle(message, connection):
            done(message, connection)
            if message.reconsume_times < 2:
                raise RuntimeError("before the commit")

        async with consumer(cluster) as member, running(member, handle):
            await cluster.world.clock.sleep(60)
        assert (once.consumed, once.duplicates) == (10, 0)

    simulate_cluster(work)
    assert shop.effects() == list(range(10))


def test_a_message_in_hand_for_too_long_is_given_to_two_and_done_by_one(shop):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await send(cluster, 1)
        once, begun = shop.once(cluster), []

        @once
        async def handle(message, connection):
            begun.append(message.reconsume_times)
            await connection.run(lambda own: done(message, own))
            await cluster.world.clock.sleep(100)

        async with consumer(cluster, consume_timeout_s=60) as member, running(member, handle):
            await cluster.world.clock.sleep(400)
        assert begun == [0]  # the copy arrived meanwhile, waited for the first to commit, and was a duplicate
        assert (once.consumed, once.duplicates) == (1, 1)

    simulate_cluster(work)
    assert shop.effects() == [0]


def test_nack_after_the_commit_in_a_loop(shop):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await send(cluster, 10)
        once, seen = shop.once(cluster), 0
        async with consumer(cluster, auto_ack=False) as member:
            async for message in member:
                async with once.attempt(message) as connection:
                    if connection is not None:
                        await connection.run(lambda own, message=message: done(message, own))
                if message.reconsume_times == 0:
                    await member.nack(message, delay_level=1)
                else:
                    member.ack(message)
                if (seen := seen + 1) == 20:
                    break
        assert (once.consumed, once.duplicates) == (10, 10)

    simulate_cluster(work)
    assert shop.effects() == list(range(10))


@pytest.mark.parametrize("seed", range(4))
def test_queues_that_move_with_messages_in_hand(shop, seed):
    """Three members join in turn; handlers take longer than a queue's new member waits for its former one."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 6)
        await send(cluster, 60)
        clock, random = cluster.world.clock, cluster.world.random
        members = [consumer(cluster, name) for name in ("one", "two", "three")]
        once, given = shop.once(cluster, cache_size=0), []
        inner = once(done)

        async def handle(message):
            given.append(int(message.body))
            await clock.sleep(random.uniform(0, 3))
            await inner(message)
            await clock.sleep(random.uniform(0, 3))

        async with contextlib.AsyncExitStack() as stack:
            for member in members:
                joined = await stack.enter_async_context(member)
                await stack.enter_async_context(running(joined, handle, concurrency=10))
                await clock.sleep(2)
            await clock.sleep(120)
        assert (once.consumed, once.duplicates) == (60, len(given) - 60)
        assert len(given) > 60  # some were delivered twice

    simulate_cluster(work, seed=seed)
    assert shop.effects() == list(range(60))


def test_a_member_that_is_gone_before_its_progress_was_stored(shop):
    """Messages consumed since then are delivered to the next member, which does not have them in its cache."""

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await send(cluster, 30)
        async with consumer(cluster, commit_every_s=3600) as first:
            async with running(first, shop.once(cluster)(done)):
                await cluster.world.clock.sleep(3)
            for held in first._run.process_queues.values():  # as after kill -9: no offset is stored
                held.drop()
        again = shop.once(cluster)
        async with consumer(cluster) as member, running(member, again(done)):
            await cluster.world.clock.sleep(30)
        assert (again.consumed, again.duplicates) == (0, 30)

    simulate_cluster(work)
    assert shop.effects() == list(range(30))


def test_a_message_that_its_producer_sent_twice(shop):
    """A connection broke before the answer: the second attempt has the same unique id, and is stored as well."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 4)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.producer("shop") as producer:
            queues = await producer.queues(TOPIC)
            for number in range(12):
                first = await producer.send(Message(TOPIC, b"%d" % number), queues[number % 4])
                again = Message(TOPIC, b"%d" % number, system_properties={"UNIQ_KEY": first.message_id})
                second = await producer.send(again, queues[(number + 1) % 4])
                assert second.message_id == first.message_id
        once = shop.once(cluster)
        async with consumer(cluster) as member, running(member, once(done), concurrency=8):
            await cluster.world.clock.sleep(30)
        assert (once.consumed, once.duplicates) == (12, 12)

    simulate_cluster(work)
    assert shop.effects() == list(range(12))


def test_messages_of_a_batch_that_fail_and_come_back_are_not_taken_for_each_other(shop, as_java):
    """Redelivered messages all have the id of the batch."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.producer("shop") as producer:
            await producer.send_batch([Message(TOPIC, b"%d" % n) for n in range(20)])
        once, ids = shop.once(cluster), set()

        @once
        def handle(message, connection):
            ids.add(message.message_id)
            done(message, connection)
            if int(message.body) % 3 == message.reconsume_times:
                raise RuntimeError("not yet")

        async with consumer(cluster) as member, running(member, handle):
            await cluster.world.clock.sleep(300)
        assert len(ids) == 1

    simulate_cluster(work)
    assert shop.effects() == list(range(20))


@pytest.mark.parametrize("fails", [False, True])
def test_a_batch_that_its_producer_sent_twice(shop, as_java, fails):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        batch = [Message(TOPIC, b"%d" % n, system_properties={"UNIQ_KEY": f"ID{n}"}) for n in range(20)]
        async with Client(cluster.namesrv, world=cluster.world) as client, client.producer("shop") as producer:
            for queue in await producer.queues(TOPIC):
                await producer.send_batch(batch, queue)
        once = shop.once(cluster)

        @once
        def handle(message, connection):
            done(message, connection)
            if fails and int(message.body) % 3 == message.reconsume_times:
                raise RuntimeError("not yet")

        async with consumer(cluster) as member, running(member, handle):
            await cluster.world.clock.sleep(300)
        assert (once.consumed, once.duplicates) == (20, 20)

    simulate_cluster(work)
    assert shop.effects() == list(range(20))


def test_records_are_forgotten_after_their_time(shop):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        once = shop.once(cluster, keep_s=3600)
        async with consumer(cluster) as member, running(member, once(done)):
            await send(cluster, 10)
            await cluster.world.clock.sleep(5)
            assert shop.records() == 10
            await cluster.world.clock.sleep(3600)
            await cluster.send(TOPIC, b"10")
            await cluster.world.clock.sleep(5)
            assert shop.records() == 1
            await cluster.world.clock.sleep(3600)
            assert await once.prune() == 1

    simulate_cluster(work)
    assert shop.effects() == list(range(11))
