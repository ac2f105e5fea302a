"""Entries that wait in memory: when they are written, in which order, and what readers see meanwhile."""

import pytest

from gantrymq.formats.queue_entry import ENTRY
from gantrymq.interfaces import Bounds, GetLimit
from gantrymq.model.queue import Queue
from gantrymq.testing.store_contract_bench import START_MS, bodies, message
from gantrymq_storage_mmap.queues import flush as queue_flush
from gantrymq_storage_mmap.queues import tails as queue_tails
from gantrymq_storage_mmap.queues.flush import AGE_TICKS

T0 = Queue("T", 0)
BIG = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 8000}


def numbered(first, end, queue_id=0):
    return [message(queue_id=queue_id, body=b"%d" % n) for n in range(first, end)]


def written(rig, queue_id=0):
    """How many entries are in the queue's first file."""
    path = rig.queue(queue_id=queue_id)
    return sum(1 for _, size, _ in ENTRY.iter_unpack(path.read_bytes()) if size) if path.exists() else 0


def ticks(bench, count):
    for _ in range(count):
        bench.store._queue_flusher._tick()


def test_a_published_entry_is_visible_before_it_is_written(rig):
    async def case(bench):
        await bench.add(*numbered(0, 3))
        assert not rig.queue().exists()
        assert bench.store.bounds(T0) == Bounds(0, 3)
        assert bodies(await bench.read_all(T0)) == [b"0", b"1", b"2"]
        assert bench.store.queues() == [T0]

    rig.run(case)
    assert written(rig) == 3


@pytest.mark.parametrize("window", [0, 1 << 20], ids=["cold", "hot"])
def test_one_get_spans_what_is_in_the_file_and_what_is_in_memory(rig, window):
    async def case(bench):
        await bench.add(*numbered(0, 5))
        rig.write_queues(bench)
        await bench.add(*numbered(5, 9))
        for first in range(9):
            for count in (1, 3, 30):
                got = await bench.get(T0, first, GetLimit(max_count=count))
                assert got.next_offset == min(9, first + count)
        assert bodies(await bench.read_all(T0)) == [b"%d" % n for n in range(9)]
        assert written(rig) == 5

    rig.run(case, hotReadWindow=window, **BIG)


def test_an_entry_is_written_when_it_has_waited_long_enough_and_takes_younger_ones_along(rig):
    async def case(bench):
        await bench.add(*numbered(0, 2))
        ticks(bench, AGE_TICKS)
        await bench.add(*numbered(2, 3), *numbered(0, 1, queue_id=1))
        assert written(rig) == 0
        ticks(bench, 1)
        assert (written(rig), written(rig, 1)) == (3, 0)
        ticks(bench, AGE_TICKS)
        assert written(rig, 1) == 1

    rig.run(case, **BIG)


def test_beyond_the_bound_the_queue_that_waited_longest_is_written_first(rig, monkeypatch):
    monkeypatch.setattr(queue_tails, "MOST_ENTRIES", 6)

    async def case(bench):
        await bench.add(*numbered(0, 3), *numbered(0, 1, 1), *numbered(0, 2, 2))
        assert [written(rig, n) for n in range(3)] == [0, 0, 0]
        await bench.add(*numbered(1, 2, 1))
        assert [written(rig, n) for n in range(3)] == [3, 0, 0]
        await bench.add(*numbered(3, 7))
        assert [written(rig, n) for n in range(3)] == [3, 2, 0]
        assert bench.store._queues.tails.entries == 6

    rig.run(case, **BIG)


def test_many_queues_are_written_slice_by_slice(rig, monkeypatch):
    monkeypatch.setattr(queue_flush, "SLICE_QUEUES", 2)
    monkeypatch.setattr(queue_flush, "PAUSE_S", 0.0)

    async def case(bench):
        flusher = bench.store._queue_flusher
        for n in range(5):
            await bench.add(*numbered(0, 1, n))
        flusher._thorough_at -= 3600
        ticks(bench, 1)
        assert sum(written(rig, n) for n in range(5)) == 2
        assert not (rig.root / "checkpoint").exists()
        ticks(bench, 1)  # leaves the slices alone
        assert sum(written(rig, n) for n in range(5)) == 2
        while flusher._slice_timer is not None:
            await rig.clock.sleep(0)
        assert sum(written(rig, n) for n in range(5)) == 5
        assert (rig.root / "checkpoint").exists()

    rig.run(case, **BIG)


def test_the_checkpoint_does_not_pass_an_entry_that_came_during_the_slices(rig, monkeypatch):
    monkeypatch.setattr(queue_flush, "SLICE_QUEUES", 1)
    monkeypatch.setattr(queue_flush, "PAUSE_S", 0.0)

    async def case(bench):
        flusher = bench.store._queue_flusher
        await bench.add(*numbered(0, 1), *numbered(0, 1, 1))
        flusher._thorough_at -= 3600
        ticks(bench, 1)
        rig.clock.now += 5000
        await bench.add(*numbered(0, 1, 2))
        while flusher._slice_timer is not None:
            await rig.clock.sleep(0)
        assert [written(rig, n) for n in range(3)] == [1, 1, 0]
        assert int.from_bytes((rig.root / "checkpoint").read_bytes()[8:16], "big") == START_MS

    rig.run(case, **BIG)


def test_the_checkpoint_stays_while_a_queue_cannot_be_written(rig):
    async def case(bench):
        await bench.add(message())
        rig.faults.failing["pwrite"], rig.faults.only = rig.NO_SPACE, "consumequeue"
        bench.store._queue_flusher._thorough_at -= 3600
        ticks(bench, 2)
        assert not (rig.root / "checkpoint").exists()
        rig.faults.failing.clear()
        ticks(bench, 1)
        assert (rig.root / "checkpoint").exists()
        assert written(rig) == 1

    rig.run(case)


def test_what_waited_when_the_process_was_killed_is_rebuilt(rig):
    async def case(bench):
        await bench.add(*numbered(0, 3))
        rig.write_queues(bench)
        await bench.add(*numbered(3, 5), *numbered(0, 1, 1))

    rig.kill(case)

    async def after(bench):
        assert (bench.report.clean, bench.report.entries_rebuilt) == (False, 3)
        assert bodies(await bench.read_all(T0)) == [b"%d" % n for n in range(5)]
        assert bodies(await bench.read_all(Queue("T", 1))) == [b"0"]

    rig.run(after)


def test_a_dropped_topic_takes_its_waiting_entries_along(rig):
    async def case(bench):
        await bench.add(message("Gone"), message("Stays"), message("Gone"))
        bench.store.put([message("Gone")])
        end = bench.store.state().max_log_offset
        bench.store.drop("Gone")
        bench.store.publish(end)
        assert bench.store._queues.tails.entries == 1
        ticks(bench, AGE_TICKS + 1)
        assert not rig.queue("Gone").exists()
        (result,) = await bench.add(message("Gone", body=b"anew"))
        assert result.queue_offset == 0
        assert bodies(await bench.read_all(Queue("Gone", 0))) == [b"anew"]

    rig.run(case)
