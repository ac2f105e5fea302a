"""Checkpoints: their content after success, and the unchanged state after a failure."""

import asyncio
import json

import pytest
from placed_messages import EXT, alone, inner

from gantrymq.interfaces import Bounds, PutStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.checkpoint import checkpointer as module
from gantrymq_storage_mmap.queues import files as queue_files
from gantrymq_store_files.checkpoint import decode_checkpoint
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES
from gantrymq_testing.store_contract_bench import START_MS, bodies, message

T0 = Queue("T", 0)
BIG = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 8000}


def saved(rig):
    """Return the content of checkpoint.json; None without one."""
    path = rig.root / "checkpoint.json"
    return json.loads(path.read_bytes()) if path.exists() else None


def times(rig):
    path = rig.root / "checkpoint"
    return decode_checkpoint(path.read_bytes())[:2] if path.exists() else None


def written(rig, queue_id=0):
    path = rig.queue(queue_id=queue_id)
    return sum(1 for _, size, _ in ENTRY.iter_unpack(path.read_bytes()) if size) if path.exists() else 0


def synced(rig, monkeypatch):
    """Paths below the store's folder that were synced, in order."""
    paths = []
    check = rig.faults.check

    def noted(name, path):
        check(name, path)
        if name in ("datasync", "sync_dir", "syncfs"):
            paths.append(path.relative_to(rig.root).as_posix())

    monkeypatch.setattr(rig.faults, "check", noted)
    return paths


async def three_queues(bench):
    """One message each, visible and durable in the log; returns the log's end."""
    results = await bench.add(*[message(queue_id=n, body=b"%d" % n) for n in range(3)])
    return results[-1].end


def test_it_says_how_far_log_and_queues_are_durable(rig):
    async def case(bench):
        await bench.add(message(tag="A"), message(tag="B"), message(queue_id=1), inner(b"a", b"b"), alone())
        rig.clock.now += 5
        (newest,) = await bench.add(message("Other", 3, tag="C"))
        bench.store.put([message(body=b"not visible")])
        await rig.checkpoint(bench)
        assert bench.store._checkpointer.durable_offset == newest.end
        found = saved(rig)
        assert (found["offset"], found["newest"]) == (newest.end, [newest.log_offset, newest.size, START_MS + 5])
        assert found["queues"] == {"T": {"0": [0, 2], "1": [0, 1]}, "Other": {"3": [0, 1]}}
        assert found["batchQueues"] == {"B": {"0": [0, 2]}}
        assert found["ext"] == {"T": {"0": 40, "1": 20}, "Other": {"3": 20}}
        assert found["fileBytes"] == [400, 300000 * 46, 128]
        assert (found["logMin"], found["times"]) == (0, [START_MS + 5, START_MS + 5])
        assert times(rig) == (START_MS + 5, START_MS + 5)

    rig.run(case, **EXT)


def test_nothing_is_said_before_files_and_their_names_are_durable(rig, monkeypatch):
    async def case(bench):
        await bench.add(message(), message("Other"))
        paths = synced(rig, monkeypatch)
        await rig.checkpoint(bench)
        zero = f"{0:020d}"
        assert set(paths) == {
            *(f"consumequeue/{topic}/0/{zero}" for topic in ("T", "Other")),
            *("consumequeue", "consumequeue/T", "consumequeue/T/0", "consumequeue/Other", "consumequeue/Other/0"),
        }
        paths.clear()
        await bench.add(message())
        paths.clear()
        await rig.checkpoint(bench)
        assert paths == [f"consumequeue/T/0/{zero}"]

    rig.run(case)


@pytest.mark.parametrize("skips", [0, 1])
def test_our_file_is_written_before_rocketmq_s_so_that_it_belongs_to_either(rig, skips):
    async def case(bench):
        await bench.add(message())
        await rig.checkpoint(bench)
        before = saved(rig)
        rig.clock.now += 5
        (result,) = await bench.add(message())
        rig.faults.once, rig.faults.once_skips, rig.faults.once_number = "replace", skips, rig.BROKEN
        await rig.checkpoint(bench)
        assert saved(rig)["offset"] == (result.end if skips else before["offset"])
        assert times(rig) == (START_MS, START_MS)
        assert bench.store._checkpointer.durable_offset == before["offset"]
        assert bench.store._queues.get(T0).tail
        assert "could not be made durable" in rig.said[-1]

    rig.kill(case)

    async def after(bench):
        assert bench.report.entries_rebuilt == 1 - skips
        assert bench.store.bounds(T0) == Bounds(0, 2)

    rig.run(after)


def test_tails_release_durable_bytes_and_keep_later_ones(rig, monkeypatch):
    monkeypatch.setattr(module, "TURN_FILES", 1)

    async def case(bench):
        end = await three_queues(bench)
        pending, checkpointer = bench.store._queues.pending, bench.store._checkpointer
        checkpointer.request()
        await asyncio.sleep(0)  # one segmented file is written
        results = await bench.add(message(), message(queue_id=3))
        await rig.checkpoint_ends(bench)
        assert (checkpointer.durable_offset, saved(rig)["offset"]) == (end, end)
        assert saved(rig)["queues"] == {"T": {"0": [0, 1], "1": [0, 1], "2": [0, 1]}}
        segmented_files = [bench.store._queues.get(Queue("T", n)) for n in range(4)]
        assert [len(segments.tail) // ENTRY_BYTES for segments in segmented_files] == [1, 0, 0, 1]
        assert (set(pending.unsynced), pending.kept_bytes) == (
            {segmented_files[0], segmented_files[3]},
            2 * ENTRY_BYTES,
        )
        await rig.checkpoint(bench)
        assert (saved(rig)["offset"], pending.kept_bytes, pending.unsynced) == (results[-1].end, 0, {})

    rig.run(case, **BIG)


@pytest.mark.parametrize("kind", ["files", "syncfs", "no syncfs"])
def test_a_sync_that_failed_counts_for_nothing_and_all_is_written_again(rig, monkeypatch, kind):
    if kind != "files":
        monkeypatch.setattr(queue_files, "MOST_PINNED", 1)
    rig.faults.volumes = kind != "no syncfs"

    async def case(bench):
        await bench.add(message(body=b"before"))
        await rig.checkpoint(bench)
        before = saved(rig)
        end = await three_queues(bench)
        call, only = ("syncfs", "store") if kind == "syncfs" else ("datasync", "consumequeue/T/1")
        rig.faults.failing, rig.faults.only = {call: rig.BROKEN}, only
        await rig.checkpoint(bench)
        assert "could not be made durable, retrying" in rig.said[-1]
        assert (saved(rig), bench.store._checkpointer.durable_offset) == (before, before["offset"])
        assert bench.store.refusal() is None
        assert bench.store._queues.pending.waiting_bytes == 3 * ENTRY_BYTES
        for queue_id in range(3):  # the system gave the pages up
            rig.patch(rig.queue(queue_id=queue_id), ENTRY_BYTES * (queue_id == 0), bytes(ENTRY_BYTES))
        assert [len(await bench.read_all(Queue("T", n))) for n in range(3)] == [2, 1, 1]
        rig.faults.failing = {}
        paths = synced(rig, monkeypatch)
        await rig.checkpoint(bench)
        if kind == "no syncfs":
            assert {f"consumequeue/T/{n}" for n in range(3)} < set(paths)
            assert {f"consumequeue/T/{n}/{0:020d}" for n in range(3)} < set(paths)
        else:
            assert paths == ["."] * len(paths) != []  # names too: it is unknown which of them are durable
        assert (saved(rig)["offset"], bench.store._checkpointer.durable_offset) == (end, end)
        assert [written(rig, n) for n in range(3)] == [2, 1, 1]
        assert bench.store._queues.pending.kept_bytes == 0

    rig.run(case, **BIG)


def test_a_failure_is_told_once_until_a_checkpoint_went_well(rig):
    async def case(bench):
        await bench.add(message())
        for _ in range(2):
            rig.faults.failing, rig.faults.only = {"replace": rig.NO_SPACE}, "checkpoint.json"
            told = len(rig.said)
            await rig.checkpoint(bench)
            await rig.checkpoint(bench)
            assert len(rig.said) == told + 1
            rig.faults.failing = {}
            await rig.checkpoint(bench)
            await bench.add(message())

    rig.run(case)


def test_without_syncfs_a_row_written_beside_a_checkpoint_is_synced_by_the_next_at_the_latest(rig, monkeypatch):
    monkeypatch.setattr(queue_files, "MOST_PINNED", 1)
    monkeypatch.setattr(module, "TURN_FILES", 1)
    rig.faults.volumes = False

    async def case(bench):
        await three_queues(bench)
        bench.store._checkpointer.request()
        await asyncio.sleep(0)
        paths = synced(rig, monkeypatch)
        await bench.add(message(queue_id=3))
        rig.write_queues(bench)
        await rig.checkpoint_ends(bench)
        monkeypatch.setattr(queue_files, "MOST_PINNED", 64)
        await rig.checkpoint(bench)
        assert saved(rig)["queues"]["T"]["3"] == [0, 1]
        assert f"consumequeue/T/3/{0:020d}" in paths

    rig.run(case, **BIG)


def test_a_row_that_cannot_be_written_keeps_the_checkpoint_and_no_other_row(rig):
    async def case(bench):
        end = await three_queues(bench)
        rig.faults.failing, rig.faults.only = {"pwrite": rig.BROKEN}, "consumequeue/T/1"
        await rig.checkpoint(bench)
        assert [written(rig, n) for n in range(3)] == [1, 0, 1]
        assert (saved(rig), bench.store._checkpointer.durable_offset) == (None, 0)
        (refused,) = bench.store.put([message()])
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert refused.problem.startswith("queue T/1 cannot be written: ")
        assert bench.store.state().refusal_cause == "queue_write_failed"
        assert bodies(await bench.read_all(Queue("T", 1))) == [b"1"]
        rig.faults.failing = {}
        bench.store._entry_writer._tick()
        assert bench.store.refusal() is None
        await rig.checkpoint(bench)
        assert saved(rig)["offset"] == end
        assert [written(rig, n) for n in range(3)] == [1, 1, 1]

    rig.run(case)


def test_it_waits_until_the_log_is_durable_up_to_what_is_visible(rig):
    async def case(bench):
        (result,) = bench.store.put([message()])
        bench.store.publish(result.end)  # as with asynchronous flush
        rig.workers.held = True
        bench.store._checkpointer.request()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (saved(rig), written(rig), len(rig.workers.waiting)) == (None, 0, 1)
        rig.workers.step()
        await rig.checkpoint_ends(bench)
        assert bench.store.state().flushed_offset == saved(rig)["offset"] == result.end

    rig.run(case, flushDiskType="ASYNC_FLUSH")


def test_a_log_that_cannot_be_made_durable_keeps_it(rig):
    async def case(bench):
        (result,) = bench.store.put([message()])
        bench.store.publish(result.end)
        rig.faults.failing, rig.faults.only = {"datasync": rig.BROKEN}, "commitlog"
        await rig.checkpoint(bench)
        assert saved(rig) is None
        assert "could not be made durable" in rig.said[-1]

    rig.run(case, flushDiskType="ASYNC_FLUSH")


def test_one_that_is_asked_for_while_one_is_under_way_follows_it(rig, monkeypatch):
    monkeypatch.setattr(module, "TURN_FILES", 1)

    async def case(bench):
        await three_queues(bench)
        bench.store._checkpointer.request()
        await asyncio.sleep(0)
        (result,) = await bench.add(message())
        for _ in range(3):
            bench.store._checkpointer.request()
        before = rig.faults.calls["replace"]
        await rig.checkpoint_ends(bench)
        assert saved(rig)["offset"] == result.end
        assert rig.faults.calls["replace"] == before + 4  # two files each

    rig.run(case)


def test_it_comes_by_itself_when_it_is_time_or_when_there_is_much_to_read_after_a_crash(rig, monkeypatch):
    async def case(bench):
        checkpointer = bench.store._checkpointer
        await bench.add(message())

        async def tick(ago_s):
            checkpointer._begun_at = rig.clock.monotonic() - ago_s
            checkpointer._tick()
            begun = checkpointer._task is not None
            await rig.checkpoint_ends(bench)
            return begun

        assert not await tick(59.0)
        assert await tick(60.0)
        await bench.add(message())
        monkeypatch.setattr(module, "LOG_BYTES", 50)
        assert not await tick(9.0)
        assert await tick(10.0)
        monkeypatch.setattr(module, "LOG_BYTES", 1 << 30)
        await bench.add(message())
        assert not await tick(10.0)
        monkeypatch.setattr(module, "MOST_KEPT_BYTES", 19)
        assert await tick(10.0)
        assert not await tick(10.0)

    rig.run(case, flushConsumeQueueThoroughInterval=60_000)


def test_a_stop_takes_the_last_one_and_nothing_begins_behind_it(rig):
    async def case(bench):
        bench.store.put([message()])
        await bench.store.stop()
        bench.store._checkpointer.request()
        assert bench.store._checkpointer._task is None

    rig.run(case)
    assert not (rig.root / "abort").exists()
    assert (saved(rig)["queues"], written(rig)) == ({"T": {"0": [0, 1]}}, 1)

    async def after(bench):
        assert (bench.report.clean, bench.report.entries_rebuilt, bench.report.records_checked) == (True, 0, 1)

    rig.run(after)


def test_a_stop_that_cannot_take_it_leaves_the_store_to_recovery(rig):
    async def case(bench):
        await bench.add(message())
        rig.faults.failing, rig.faults.only = {"datasync": rig.BROKEN}, "consumequeue"

    rig.run(case)
    rig.faults.failing = {}
    assert "was not stopped cleanly" in rig.said[-1]
    assert ((rig.root / "abort").exists(), saved(rig)) == (True, None)

    async def after(bench):
        assert (bench.report.clean, bench.report.entries_rebuilt) == (False, 1)

    rig.run(after)
    assert saved(rig)["queues"] == {"T": {"0": [0, 1]}}


def test_after_a_crash_the_first_one_covers_names_that_the_killed_process_made(rig, monkeypatch):
    async def case(bench):
        await bench.add(message())
        rig.write_queues(bench)

    rig.kill(case)
    paths = synced(rig, monkeypatch)

    async def after(bench):
        checkpointer = bench.store._checkpointer
        checkpointer._tick()
        assert checkpointer._task is None  # others start as well
        checkpointer._begun_at -= 10.0
        checkpointer._tick()
        await rig.checkpoint_ends(bench)
        assert paths.count(".") >= 1  # the file system
        assert saved(rig)["queues"] == {"T": {"0": [0, 1]}}

    rig.run(after)


def test_after_a_crash_the_first_one_is_not_later_than_the_others(rig):
    async def case(bench):
        await bench.add(message())

    rig.kill(case)

    async def after(bench):
        checkpointer = bench.store._checkpointer
        assert checkpointer._begun_at <= rig.clock.monotonic()
        checkpointer._begun_at -= 0.15
        checkpointer._tick()
        assert checkpointer._task is not None
        await rig.checkpoint_ends(bench)

    rig.run(after, flushConsumeQueueThoroughInterval=150)


def test_after_a_crash_the_log_is_read_from_there_and_queues_without_records_keep_their_ends(rig):
    async def case(bench):
        await three_queues(bench)
        await rig.checkpoint(bench)
        await bench.add(message(body=b"behind"))

    rig.kill(case)

    async def after(bench):
        assert (bench.report.records_checked, bench.report.entries_rebuilt) == (1, 1)
        assert [bench.store.bounds(Queue("T", n)).max_offset for n in range(3)] == [2, 1, 1]
        assert bodies(await bench.read_all(T0)) == [b"0", b"behind"]

    rig.run(after)
