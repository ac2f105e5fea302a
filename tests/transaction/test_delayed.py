"""Transactions with delayed messages: the delay begins with the commit, and the message is delivered once."""

import asyncio

import pytest
from polling import until

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_storage_mmap")

from operator_requests import show_transaction
from store_cuts import cut

from gantrymq.client import Client
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.model.names import OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_testing import simulate_cluster
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.transaction_contract_bench import COMMIT, ROLLBACK, TOPIC, Half, TransactionBench

DELAY_MS = 10_000
SETTINGS = {
    "store": "mmap",
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 3000,
    "messageDelayLevel": "1s 10s",
}
WISHES = [{"DELAY": "2"}, {"TIMER_DELAY_MS": "10000"}, {"TIMER_DELAY_SEC": "10"}]
by_wish = pytest.mark.parametrize("wish", WISHES, ids=["level", "milliseconds", "seconds"])


def run(work, **settings):
    async def main(cluster):
        await cluster.create_topic(TOPIC, 2)
        bench = TransactionBench(cluster)
        try:
            await work(bench)
        finally:
            await bench.close()

    simulate_cluster(main, settings={**SETTINGS, **settings})


async def comes_once(bench, committed_ms, body=b"one"):
    """It is not delivered before its delay is over, then once, and not again."""
    while bench.clock.now_ms() < committed_ms + DELAY_MS - 1000:
        assert await bench.bodies() == []
        await bench.clock.sleep(0.5)
    await bench.clock.sleep(3)
    (found,) = await bench.seen()
    assert (found.body, found.queue_id) == (body, 1)
    assert DELAY_MS - 1000 <= found.store_timestamp - committed_ms <= DELAY_MS + 1100
    await bench.clock.sleep(30)
    assert await bench.bodies() == [body]


@by_wish
@pytest.mark.parametrize("restarts", [False, True])
def test_the_delay_begins_with_the_commit(wish, restarts):
    async def work(bench):
        producer = await bench.producer()
        half = await bench.half(producer, b"one", wish)
        await bench.clock.sleep(2)
        committed_ms = bench.clock.now_ms()
        assert await producer.end(half, COMMIT) == 0
        if restarts:
            await bench.clock.sleep(4)
            await bench.restart()
        await comes_once(bench, committed_ms)

    run(work)


@by_wish
def test_one_that_is_committed_when_asked(wish):
    """Through a renewed half message, and after a restart of a broker that has only half messages."""

    async def work(bench):
        producer = await bench.producer()
        await bench.half(producer, b"one", wish)
        await bench.asked([producer], 2, 60)
        await bench.restart()
        producer = await bench.producer()
        await bench.asked([producer], 1, 60)
        committed_ms = bench.clock.now_ms()
        assert await producer.end(Half.in_check(producer.asked[-1]), COMMIT, from_check=True) == 0
        await comes_once(bench, committed_ms)

    run(work)


@by_wish
def test_one_that_is_rolled_back_never_comes(wish):
    async def work(bench):
        producer = await bench.producer()
        assert await producer.end(await bench.half(producer, b"one", wish), ROLLBACK) == 0
        await bench.clock.sleep(30)
        assert await bench.bodies() == []

    run(work)


def test_delayed_and_plain_ones_that_are_committed_together():
    async def work(bench):
        producer = await bench.producer()
        wishes = [{}, *WISHES, {}]
        halves = [await bench.half(producer, b"%d" % number, wish) for number, wish in enumerate(wishes)]
        assert await asyncio.gather(*(producer.end(half, COMMIT) for half in halves)) == [0] * 5
        assert await bench.bodies() == [b"0", b"4"]
        await bench.clock.sleep(15)
        assert await bench.bodies() == [b"0", b"1", b"2", b"3", b"4"]

    run(work)


def test_one_that_is_refused_leaves_those_committed_with_it_as_they_are():
    async def work(bench):
        producer = await bench.producer()
        wishes = [{"DELAY": "2"}, {"TIMER_DELAY_SEC": "999999999"}, {"DELAY": "2"}]
        halves = [await bench.half(producer, b"%d" % number, wish) for number, wish in enumerate(wishes)]
        answers = await asyncio.gather(*(producer.end(half, COMMIT) for half in halves))
        assert [answer == 0 for answer in answers] == [True, False, True]
        await bench.clock.sleep(15)
        assert await bench.bodies() == [b"0", b"2"]

    run(work, transactionTimeOut=600_000)


def test_the_command_shows_where_it_waits_and_where_it_came():
    async def work(bench):
        producer = await bench.producer()
        half = await bench.half(producer, b"one", {"TIMER_DELAY_SEC": "10"})
        await producer.end(half, COMMIT)
        async with Client(bench.cluster.namesrv, world=bench.cluster.world) as client, client.admin as admin:
            for topic in (TIMER_TOPIC, TOPIC):
                shown = await show_transaction(admin, bench.cluster.broker_address, half.unique_id)
                assert [each["topic"] for each in shown["committed"]] == [topic]
                await bench.clock.sleep(15)

    run(work)


def test_what_waits_is_stored_as_java_stores_it():
    async def work(bench):
        producer = await bench.producer()
        half = await bench.half(producer, b"one", {"DELAY": "2"})
        await producer.end(half, COMMIT)
        found = await bench.cluster.broker.messages.get(Queue(SCHEDULE_TOPIC, 1), 0, GetLimit(1))
        (waiting,) = iter_records(found.buffers[0])
        assert (waiting.sys_flag & 12, waiting.prepared_offset) == (8, half.log_offset)
        assert waiting.properties["REAL_TOPIC"] == TOPIC
        assert "TRAN_MSG" not in waiting.properties

    run(work)


@pytest.mark.parametrize("wish", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "2000"}], ids=["level", "time"])
def test_a_power_cut_between_the_message_and_its_op_message_yields_one(tmp_path, wish):
    settings = {**SETTINGS, "transactionCheckInterval": 200, "transactionTimeOut": 100}

    def on_disk(work, **more):
        async def main():
            world = real_world()
            cluster = Cluster(world, tmp_path, {**settings, **more})
            await cluster.start()
            bench = TransactionBench(cluster)
            try:
                return await work(bench)
            finally:
                await bench.close()
                await cluster.stop()
                await world.workers.close()

        return asyncio.run(main())

    async def commit(bench):
        await bench.cluster.create_topic(TOPIC, 2)
        producer = await bench.producer()
        half = await bench.half(producer, b"one", wish)
        assert await producer.end(half, COMMIT) == 0
        op = await bench.cluster.broker.messages.get(Queue(OP_TOPIC, 0), 0, GetLimit(1))
        return half, bench.cluster.store.state().max_log_offset - op.size

    half, end = on_disk(commit, transactionCheckInterval=10**6)
    cut(tmp_path / "store", end)

    async def again(bench):
        producer = await bench.producer()
        assert await producer.end(half, COMMIT) == 0
        await until(bench.bodies, "message")
        later = await bench.half(producer, b"two", wish)  # with the same delay, it arrives after a second copy of one
        assert await producer.end(later, COMMIT) == 0

        async def later_one_is_there():
            return b"two" in await bench.bodies()

        await until(later_one_is_there, "later message")
        assert sorted(await bench.bodies()) == [b"one", b"two"]

    on_disk(again)
