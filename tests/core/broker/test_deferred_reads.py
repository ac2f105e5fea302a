"""Reads of pulls that wait while a few sends wait for the disk."""

from __future__ import annotations

import asyncio

import pytest
from broker_desk import pull_ext, records, run_broker, send_header

from gantrymq.broker.consuming import deferred_reads
from gantrymq.broker.consuming.deferred_reads import MOST_READS, MOST_S, PAUSE_FACTOR, DeferredReads
from gantrymq.errors import ConnectionLost
from gantrymq.model.queue import Queue
from gantrymq.plugins import Plugins
from gantrymq.world.workers import resolve_future
from gantrymq_testing.simulated import simulate


def run(main):
    async def in_world(world):
        await main(DeferredReads(world.clock), world.clock)

    simulate(1, in_world)


def test_reads_are_done_in_order_after_the_sync():
    async def main(reads, clock):
        done = []
        assert [reads.defer(lambda number=number: done.append(number)) for number in range(3)] == [True] * 3
        reads.release()
        reads.release()
        assert done == []
        await asyncio.sleep(0)
        assert done == [0, 1, 2]
        await clock.sleep(MOST_S * 2)
        reads.release()
        await asyncio.sleep(0)
        assert done == [0, 1, 2]

    run(main)


def test_reads_do_not_wait_longer_than_allowed():
    async def main(reads, clock):
        began, done = clock.monotonic(), []
        assert reads.defer(lambda: done.append(clock.monotonic() - began))
        await clock.sleep(MOST_S / 2)
        assert reads.defer(lambda: done.append(clock.monotonic() - began))
        await clock.sleep(MOST_S)
        assert done == pytest.approx([MOST_S, MOST_S], rel=0.2)

    run(main)


def test_reads_wait_for_a_limited_share_of_the_time():
    async def main(reads, clock):
        assert reads.defer(lambda: None)
        await clock.sleep(0.001)
        reads.release()
        await asyncio.sleep(0)
        assert not reads.defer(lambda: None)
        await clock.sleep(0.001 * PAUSE_FACTOR / 2)
        assert not reads.defer(lambda: None)
        await clock.sleep(0.001 * PAUSE_FACTOR)
        assert reads.defer(lambda: None)

    run(main)


def test_reads_after_one_that_fails_are_done():
    async def main(reads, clock):
        done = []
        assert reads.defer(lambda: done.append(1 / 0))
        assert reads.defer(lambda: done.append(1))
        reads.release()
        await asyncio.sleep(0)
        assert done == [1]

    run(main)


def test_no_more_reads_wait_than_allowed():
    async def main(reads, clock):
        assert all(reads.defer(lambda: None) for _ in range(MOST_READS))
        assert not reads.defer(lambda: None)

    run(main)


@pytest.fixture
def slow_disk(plugins, monkeypatch):
    """``slow_disk(main)`` runs ``await main(desk)`` against a broker whose syncs take 50 ms; reads may wait so long."""

    class SlowStore(plugins.stores["memory"]):
        def __init__(self, context):
            super().__init__(context)
            self.clock = context.world.clock
            self.puts = []

        def put(self, messages):
            self.puts += messages
            return super().put(messages)

        def sync_now(self, log_offset, *, alone):
            return False

        def flushed(self, log_offset):
            synced = asyncio.get_running_loop().create_future()
            self.clock.call_later(0.05, resolve_future(synced), None, None)
            return synced

    monkeypatch.setattr(deferred_reads, "MOST_S", 1.0)
    return lambda main: run_broker(Plugins(stores={"memory": SlowStore}), main, flushDiskType="SYNC_FLUSH")


async def appended(desk, count):
    """Wait until *count* messages were appended, and the sync of the last has begun."""
    while len(desk.server.store.puts) < count:
        await desk.clock.sleep(0.0001)


def test_a_pull_beside_a_send_is_answered_with_its_message(slow_disk):
    async def main(desk):
        await desk.send("T")
        await desk.send("T")
        await desk.heartbeat("CG")
        sent = desk.later(310, send_header("T").to_ext_v2(), b"body")
        await appended(desk, 3)
        answer = await desk.pull("T", 1)
        assert sent.done()
        assert [record.queue_offset for record in records(answer)] == [1, 2]

    slow_disk(main)


def test_a_waiting_read_does_not_repeat_the_commit_of_its_pull(slow_disk):
    async def main(desk):
        for _ in range(3):
            await desk.send("T")
        await desk.heartbeat("CG")
        place = {"consumerGroup": "CG", "topic": "T", "queueId": "0"}
        sent = desk.later(310, send_header("T").to_ext_v2(), b"body")
        await appended(desk, 4)
        pulled = desk.later(11, {**pull_ext("T", 0, commitOffset="1"), "sysFlag": str(1 | 4)})
        committed = desk.later(15, {**place, "commitOffset": "2"})
        assert (await committed).code == 0
        assert not pulled.done()
        assert [each.code for each in await asyncio.gather(sent, pulled)] == [0, 0]
        assert (await desk.ask(14, place)).ext == {"offset": "2"}

    slow_disk(main)


def test_a_waiting_read_of_a_closed_connection_takes_no_reset(slow_disk):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG")
        sent = desk.later(310, send_header("T").to_ext_v2(), b"body")
        await appended(desk, 2)
        gone = desk.peer()
        pulled = gone.later(11, pull_ext("T", 1))
        await desk.clock.sleep(0.001)
        await gone.client.close()
        await desk.clock.sleep(0.001)
        desk.tables.offsets.reset("CG", Queue("T", 0), 0)
        await sent
        await desk.clock.sleep(0.01)
        assert desk.tables.offsets.pending_reset("CG", Queue("T", 0)) == 0
        with pytest.raises(ConnectionLost):
            await pulled

    slow_disk(main)


def test_the_other_waiting_reads_are_answered_if_one_fails(slow_disk, monkeypatch):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG")
        sent = desk.later(310, send_header("T").to_ext_v2(), b"body")
        await appended(desk, 2)
        get, calls = desk.server.store.get, []

        def failing_once(*given):
            calls.append(given)
            if len(calls) == 1:
                raise RuntimeError("a damaged queue")
            return get(*given)

        monkeypatch.setattr(desk.server.store, "get", failing_once)
        failed, read = await asyncio.gather(*(desk.later(11, pull_ext("T", 0)) for _ in range(2)))
        assert sent.done()
        assert (failed.code, failed.remark) == (1, "reading T/0 failed: a damaged queue")
        assert [record.queue_offset for record in records(read)] == [0, 1]

    slow_disk(main)
