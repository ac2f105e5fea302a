"""`Reader.read_back`: pages of messages, newest first, over all queues."""

import asyncio
import random
from functools import wraps

import pytest
from scripted_cluster import record

from gantrymq.client import Client, InvalidParameter, PullResult, PullStatus
from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.reading.backwards import MAX_SLICE, Backwards, each_of, first_ends, read_back
from gantrymq.model.queue import MessageQueue

QUEUES = [MessageQueue("T", "a", number) for number in range(3)]


def at_once(test):
    """Run a coroutine function as a test."""

    @wraps(test)
    def run(*arguments, **more):
        asyncio.run(test(*arguments, **more))

    return run


class Queues:
    """A `QueueReader` over lists of messages; a pull returns up to *together* entries."""

    def __init__(self, times, *, min_offset=0, together=7, bodies=None, tags=None):
        self.min_offsets = dict.fromkeys(times, min_offset)
        self.together, self.pulls = together, []
        self.kept = {
            queue: [
                next(
                    decode_messages(
                        record(
                            topic=queue.topic,
                            queue_id=queue.queue_id,
                            queue_offset=offset,
                            store_timestamp=time_ms,
                            body=(bodies or (lambda offset: b"x"))(offset),
                        ),
                        queue.broker_name,
                    )
                )
                for offset, time_ms in enumerate(stored)
            ]
            for queue, stored in times.items()
        }
        self.tags = tags or (lambda offset: True)

    async def max_offset(self, queue):
        return len(self.kept[queue])

    async def offset_for_timestamp(self, queue, time_ms):
        """As a Java broker: the last offset if all messages are older."""
        kept = self.kept[queue]
        later = [each.queue_offset for each in kept if each.store_timestamp >= time_ms]
        return later[0] if later else max(0, len(kept) - 1)

    async def pull(self, queue, offset, *, max_count=32, expression=None, expression_type=None):
        self.pulls.append((queue, offset, max_count))
        kept, least = self.kept[queue], self.min_offsets[queue]
        bounds = {"min_offset": least, "max_offset": len(kept)}
        if offset < least:
            return PullResult(PullStatus.OFFSET_ILLEGAL, (), least, **bounds)
        if offset >= len(kept):
            return PullResult(PullStatus.NO_NEW_MSG, (), offset, **bounds)
        found, at = [], offset
        scanned = min(len(kept), offset + (self.together if expression == "*" else 1000))
        while at < scanned and len(found) < min(max_count, self.together):
            if expression == "*" or self.tags(at):
                found.append(kept[at])
            at += 1
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MSG
        return PullResult(status, tuple(found), at, **bounds)


async def page(reader, ends=None, before_ms=None, **more):
    if ends is None:
        ends = await first_ends(reader, reader.kept, before_ms)
    how = {"max_count": 10, "max_bytes": 10**6, "max_scanned": 10**6, "expression": "*", "expression_type": "TAG"}
    return await read_back(reader, ends, before_ms=before_ms, **{**how, **more})


async def all_of(reader, **more):
    found, each = [], await page(reader, **more)
    while True:
        found += each.messages
        if not each.more:
            return found
        each = await page(reader, each.ends, **{**more, "before_ms": None})


def shown(messages):
    return [(each.queue_id, each.queue_offset) for each in messages]


@pytest.mark.parametrize("seed", range(20))
@at_once
async def test_every_message_comes_once_newest_first(seed):
    rng = random.Random(seed)
    times = {queue: sorted(rng.choices(range(1, 1000), k=rng.randrange(0, 120))) for queue in QUEUES}
    least = rng.choice([0, 0, 5])
    reader = Queues(times, min_offset=least, together=rng.choice([1, 7, 32]))
    found = await all_of(reader, max_count=rng.choice([1, 10, 50]), max_bytes=rng.choice([10**6, 20]))
    stored = [each.store_timestamp for each in found]
    assert stored == sorted(stored, reverse=True)
    wanted = {(queue.queue_id, offset) for queue in QUEUES for offset in range(least, len(times[queue]))}
    assert sorted(shown(found)) == sorted(wanted)


@pytest.mark.parametrize("before_ms", [1, 50, 101, 100_000])
@at_once
async def test_a_time_is_a_limit_that_is_not_included(before_ms):
    reader = Queues({QUEUES[0]: range(1, 100), QUEUES[1]: range(40, 60), QUEUES[2]: []})
    found = await all_of(reader, before_ms=before_ms)
    wanted = sorted(each for times in (range(1, 100), range(40, 60)) for each in times if each < before_ms)
    assert [each.store_timestamp for each in found] == wanted[::-1]


@pytest.mark.parametrize("every", [1, 10, 700])
@at_once
async def test_filtered_queues_are_read_in_slices_that_grow(every):
    reader = Queues({QUEUES[0]: range(1, 5000)}, tags=lambda offset: offset % every == 0)
    found = await all_of(reader, expression="A", max_count=1000)
    assert [each.queue_offset for each in found] == [each for each in range(4998, -1, -1) if each % every == 0]
    if every == 700:
        assert len(reader.pulls) < 60
        assert max(4999 - offset for _, offset, _ in reader.pulls[:2]) < MAX_SLICE


@at_once
async def test_a_page_ends_after_a_number_of_entries_and_goes_on_there():
    reader = Queues({QUEUES[0]: range(1, 5000)}, tags=lambda offset: offset == 3)
    each = await page(reader, expression="A", max_scanned=100)
    assert each.messages == ()
    assert 100 <= each.scanned < 1000
    assert each.more
    assert [found.queue_offset for found in await all_of(reader, expression="A", max_scanned=100)] == [3]


@at_once
async def test_large_bodies_end_a_page_and_are_not_all_kept():
    reader = Queues({QUEUES[0]: range(1, 101)}, bodies=lambda offset: b"x" * 1000, together=32)
    each = await page(reader, max_bytes=3000, max_count=50)
    assert shown(each.messages) == [(0, 99), (0, 98), (0, 97)]
    assert len(await all_of(reader, max_bytes=3000, max_count=50)) == 100
    (only,) = (await page(reader, max_bytes=1)).messages
    assert only.queue_offset == 99


@at_once
async def test_chosen_queues_alone_are_read():
    reader = Queues({queue: range(1, 5) for queue in QUEUES})
    each = await page(reader, {QUEUES[1]: 2, QUEUES[2]: 0})
    assert shown(each.messages) == [(1, 1), (1, 0)]
    assert not each.more


@at_once
async def test_a_queue_that_lost_its_messages_is_exhausted():
    reader = Queues({QUEUES[0]: range(1, 50)}, min_offset=49)
    each = await page(reader, {QUEUES[0]: 20})
    assert (each.messages, each.more) == ((), False)


@at_once
async def test_a_failed_pull_is_raised_after_the_others_ended():
    class Failing(Queues):
        async def pull(self, queue, offset, **more):
            if queue == QUEUES[1]:
                raise OSError("gone")
            return await super().pull(queue, offset, **more)

    with pytest.raises(OSError, match="gone"):
        await page(Failing({queue: range(1, 9) for queue in QUEUES}))


async def taken(reading, **how):
    found = []
    while not reading.is_done:
        await each_of(reading.reads(2).values())
        found += reading.take(**how)
    return found


@pytest.mark.parametrize("seed", range(5))
@at_once
async def test_messages_of_one_time_are_in_one_order_however_they_are_read(seed):
    rng = random.Random(seed)
    times = {queue: sorted(rng.choices(range(1, 8), k=60)) for queue in QUEUES}
    reader = Queues(times, together=rng.choice([1, 7]))
    reading = Backwards(reader, lambda each: (each.store_timestamp, each.queue_offset, each.queue_id), begin_ms=3)
    for queue in QUEUES:
        reading.add(queue, 0, 60, size=rng.choice([1, 9]))
    found = await taken(reading)
    assert [ms for ms, _ in found] == [row[0] for _, row in found]
    places = [(ms, offset) for ms, (_, offset, _) in found]
    assert places == sorted(places, reverse=True)
    assert len(found) == sum(each >= 3 for kept in times.values() for each in kept)


@at_once
async def test_a_queue_whose_clock_was_set_back_stays_in_its_order():
    reader = Queues({QUEUES[0]: [10, 50, 20, 60], QUEUES[1]: [15, 40, 55, 70]})
    reading = Backwards(reader, lambda each: (each.queue_id, each.queue_offset))
    for queue in QUEUES[:2]:
        reading.add(queue, 0, 4, size=2)
    found = await taken(reading)
    assert [row for _, row in found] == [(1, 3), (0, 3), (1, 2), (1, 1), (0, 2), (0, 1), (1, 0), (0, 0)]
    assert [ms for ms, _ in found] == [70, 60, 55, 40, 20, 20, 15, 10]


@at_once
async def test_a_broker_that_is_left_out_holds_nothing_back():
    other = MessageQueue("T", "b", 0)
    reader = Queues({QUEUES[0]: range(1, 50), other: range(1, 50)})
    reading = Backwards(reader, lambda each: each.broker_name)
    reading.add(QUEUES[0], 0, 49)
    reading.add(other, 0, 49)
    slices = reading.reads()
    assert sorted(slices) == ["a", "b"]
    slices["b"].close()
    await slices["a"]
    assert reading.take() == []
    reading.leave_out({"b"})
    assert len(reading.take()) + len(await taken(reading)) == 49


def test_a_topic_is_read_back_from_a_broker(gantrymq_simulation):
    pytest.importorskip("gantrymq_storage_memory")
    pytest.importorskip("gantrymq_filter_tag")

    async def work(cluster):
        await cluster.create_topic("T", 4)
        for number in range(100):
            await cluster.put("T", b"%d" % number, queue_id=number % 3, tags="A" if number % 10 == 0 else "B")
            await cluster.world.clock.sleep(0.01)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.reader("T") as reader:
            first = await reader.read_back(max_count=40)
            rest = await reader.read_back(first.ends, max_count=1000)
            bodies = [int(each.body) for each in (*first.messages, *rest.messages)]
            assert bodies == list(range(99, -1, -1))
            assert (first.more, rest.more) == (True, False)
            tagged = await reader.read_back(expression="A", max_count=100)
            assert [int(each.body) for each in tagged.messages] == list(range(90, -1, -10))
            time_ms = first.messages[9].store_timestamp
            before = await reader.read_back(before_ms=time_ms, max_count=1)
            assert [int(each.body) for each in before.messages] == [89]
            with pytest.raises(InvalidParameter, match="max_count"):
                await reader.read_back(max_count=0)

    gantrymq_simulation(work)
