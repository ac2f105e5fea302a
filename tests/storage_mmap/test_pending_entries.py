"""Entries waiting in memory: time and order of their writes, and reads meanwhile."""

import pytest

from gantrymq.interfaces import Bounds, GetLimit
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.queues import pending_entries
from gantrymq_storage_mmap.queues.pending_entries import AGE_TICKS
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES
from gantrymq_testing.store_contract_bench import bodies, message

T0 = Queue("T", 0)
BIG = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 8000}


def numbered(first, end, queue_id=0):
    return [message(queue_id=queue_id, body=b"%d" % n) for n in range(first, end)]


def written(rig, queue_id=0):
    """How many entries are in the queue's first file."""
    path = rig.queue(queue_id=queue_id)
    return sum(1 for _, size, _ in ENTRY.iter_unpack(path.read_bytes()) if size) if path.exists() else 0


@pytest.fixture(autouse=True)
def as_long_as_it_takes(monkeypatch):
    """On a busy machine a slice may be over after its first segmented file."""
    monkeypatch.setattr(pending_entries, "MAX_SLICE_S", 3600.0)


def ticks(bench, count):
    for _ in range(count):
        bench.store._entry_writer._tick()


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
    monkeypatch.setattr(pending_entries, "MOST_WAITING_BYTES", 6 * ENTRY_BYTES)

    async def case(bench):
        await bench.add(*numbered(0, 3), *numbered(0, 1, 1), *numbered(0, 2, 2))
        assert [written(rig, n) for n in range(3)] == [0, 0, 0]
        await bench.add(*numbered(1, 2, 1))
        assert [written(rig, n) for n in range(3)] == [3, 0, 0]
        await bench.add(*numbered(3, 7))
        assert [written(rig, n) for n in range(3)] == [3, 2, 0]
        assert bench.store._queues.pending.waiting_bytes == 6 * ENTRY_BYTES

    rig.run(case, **BIG)


def test_many_queues_are_written_slice_by_slice(rig, monkeypatch):
    monkeypatch.setattr(pending_entries, "SLICE_FILES", 2)
    monkeypatch.setattr(pending_entries, "PAUSE_S", 0.0)

    async def case(bench):
        writer = bench.store._entry_writer
        for n in range(5):
            await bench.add(*numbered(0, 1, n))
        ticks(bench, AGE_TICKS + 1)
        assert sum(written(rig, n) for n in range(5)) == 2
        ticks(bench, 1)  # leaves the slices alone
        assert sum(written(rig, n) for n in range(5)) == 2
        while writer._slice_timer is not None:
            await rig.clock.sleep(0)
        assert sum(written(rig, n) for n in range(5)) == 5

    rig.run(case, **BIG)


def test_slices_leave_alone_what_came_meanwhile(rig, monkeypatch):
    monkeypatch.setattr(pending_entries, "SLICE_FILES", 1)
    monkeypatch.setattr(pending_entries, "PAUSE_S", 0.0)

    async def case(bench):
        await bench.add(*numbered(0, 1), *numbered(0, 1, 1))
        ticks(bench, AGE_TICKS + 1)
        await bench.add(*numbered(0, 1, 2))
        while bench.store._entry_writer._slice_timer is not None:
            await rig.clock.sleep(0)
        assert [written(rig, n) for n in range(3)] == [1, 1, 0]

    rig.run(case, **BIG)


def test_writing_alone_reports_nothing_as_durable(rig):
    async def case(bench):
        await bench.add(*numbered(0, 3))
        ticks(bench, AGE_TICKS + 1)
        assert written(rig) == 3
        queue, pending = bench.store._queues.get(T0), bench.store._queues.pending
        assert (queue.unwritten, len(queue.tail), list(pending.unsynced)) == (0, 3 * ENTRY_BYTES, [queue])
        assert pending.kept_bytes == 3 * ENTRY_BYTES
        assert not (rig.root / "checkpoint").exists()
        await rig.checkpoint(bench)
        assert (len(queue.tail), list(pending.unsynced), pending.kept_bytes) == (0, [], 0)
        assert bodies(await bench.read_all(T0)) == [b"0", b"1", b"2"]

    rig.run(case, **BIG)


def test_what_is_appended_while_a_checkpoint_is_under_way_stays_in_memory(rig):
    async def case(bench):
        queue = await started(rig, bench)
        await bench.add(*numbered(3, 5))
        bench.store._entry_writer._pending.write(queue)
        bench.store._queues.pending.synced(queue, 3 * ENTRY_BYTES)
        assert (queue.tail_start, queue.end) == (3 * ENTRY_BYTES, 5 * ENTRY_BYTES)
        assert bench.store._queues.pending.kept_bytes == 2 * ENTRY_BYTES
        assert bodies(await bench.read_all(T0)) == [b"%d" % n for n in range(5)]

    rig.run(case, **BIG)


def test_what_was_not_durable_when_a_sync_failed_is_written_again_and_waits_till_then(rig):
    async def case(bench):
        queue, pending = await started(rig, bench), bench.store._queues.pending
        rig.patch(rig.queue(), 0, bytes(3 * ENTRY_BYTES))
        assert pending.waiting_bytes == 0
        pending.rewrite()
        assert (pending.waiting_bytes, queue.unwritten) == (3 * ENTRY_BYTES, 3 * ENTRY_BYTES)
        await bench.add(*numbered(3, 4))
        rig.write_queues(bench)
        assert written(rig) == 4

    rig.run(case, **BIG)


async def started(rig, bench):
    """The queue of three messages, which are written and not durable."""
    await bench.add(*numbered(0, 3))
    rig.write_queues(bench)
    return bench.store._queues.get(T0)


def test_a_row_that_failed_is_left_out_until_it_is_tried_again(rig):
    async def case(bench):
        pending = bench.store._queues.pending
        await bench.add(*numbered(0, 1), *numbered(0, 1, 1))
        rig.faults.failing["create"], rig.faults.only = rig.NO_SPACE, "consumequeue/T/0"
        ticks(bench, AGE_TICKS + 1)
        assert [written(rig, n) for n in range(2)] == [0, 1]
        assert (pending.full, pending.waiting_bytes) == (True, ENTRY_BYTES)
        assert pending.due(1 << 30, 10) == []
        rig.faults.failing.clear()
        pending.retry()
        assert (pending.full, pending.refusal, written(rig)) == (False, None, 1)

    rig.run(case, **BIG)


def test_what_waited_when_the_process_was_killed_is_rebuilt(rig):
    async def case(bench):
        await bench.add(*numbered(0, 3))
        await rig.checkpoint(bench)
        await bench.add(*numbered(3, 5), *numbered(0, 1, 1))

    rig.kill(case)

    async def after(bench):
        assert (bench.report.clean, bench.report.entries_rebuilt) == (False, 3)
        assert bodies(await bench.read_all(T0)) == [b"%d" % n for n in range(5)]
        assert bodies(await bench.read_all(Queue("T", 1))) == [b"0"]

    rig.run(after)


def test_a_dropped_topic_takes_its_waiting_entries_along(rig):
    async def case(bench):
        await bench.add(message("IsExpired"), message("Stays"), message("IsExpired"))
        bench.store.put([message("IsExpired")])
        end = bench.store.state().max_log_offset
        bench.store.drop("IsExpired")
        bench.store.publish(end)
        assert bench.store._queues.pending.waiting_bytes == ENTRY_BYTES
        ticks(bench, AGE_TICKS + 1)
        assert not rig.queue("IsExpired").exists()
        (result,) = await bench.add(message("IsExpired", body=b"anew"))
        assert result.queue_offset == 0
        assert bodies(await bench.read_all(Queue("IsExpired", 0))) == [b"anew"]

    rig.run(case)
