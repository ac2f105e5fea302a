"""The raw log on disk: files equal to the original's, kinds of queues, retention, and disks that fail."""

import asyncio

import pytest
from retention_rig import FILE, T0, fill, logs
from retention_rig import run as run_on_virtual_clock

from gantrymq.errors import LogMismatch, StoreError
from gantrymq.interfaces import Bounds, Cleaning, PutStatus, QueueTargets
from gantrymq.model import properties
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_testing.raw_log_contract import LogBench, raw_log, read_log, show
from gantrymq_testing.store_contract_bench import StoreBench, bodies, keyed, message

SMALL = {"maxHashSlotNum": 50, "maxIndexNum": 20}
LIGHT = {"enableLmq": True, "enableMultiDispatch": True}


def drive(rig, case, *, batch_topics=(), **settings):
    """Run ``case(bench)`` with an original and a copy; return the files of both, without trailing zeros."""
    original = type(rig)(rig.root.with_name("original"))
    rig.batch_topics = frozenset(batch_topics)

    async def main():
        benches = [StoreBench(lambda each=each: each.make(**SMALL, **settings), each.clock) for each in (original, rig)]
        for each in benches:
            await each.store.start()
        bench = LogBench(*benches)
        try:
            await case(bench)
        finally:
            for each in benches:
                await each.store.stop()

    asyncio.run(main())
    return [files_of(each.root) for each in (original, rig)]


def files_of(root):
    """Contents of log, queues and index; a file of zeros counts as none, index files are numbered."""
    found = {}
    for folder in ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext"):
        for path in sorted((root / folder).rglob("0*")):
            if path.is_file() and (data := path.read_bytes().rstrip(b"\0")):
                found[str(path.relative_to(root))] = data
    for number, path in enumerate(sorted((root / "index").iterdir()) if (root / "index").exists() else ()):
        found[f"index {number}"] = path.read_bytes()
    return found


def batch(count, topic="Batch", **more):
    """One record with several messages."""
    text = properties.encode({properties.INNER_NUM: str(count)})
    return message(
        topic, body=b"b" * 50, properties=text, sys_flag=INNER_BATCH, queue_targets=QueueTargets(batch=count), **more
    )


def light(*names, **more):
    text = properties.encode({properties.INNER_MULTI_DISPATCH: ",".join(names)})
    return message("Own", properties=text, queue_targets=QueueTargets(light=names), **more)


async def publish(bench):
    await show(bench.original)
    await bench.follow()


def test_the_files_of_a_copy_are_those_of_the_original(rig):
    async def case(bench):
        await bench.write((40, 1, 60))
        end = raw_log(bench.copy).log_range().max_offset
        await bench.copy.add(*[keyed(b"other %d" % n, "red", topic="AB"[n % 2]) for n in range(300)])
        await raw_log(bench.copy).truncate(end)
        await bench.write((30, 50))
        await bench.compare()

    original, copy = drive(rig, case)
    assert len([name for name in original if name.startswith("commitlog")]) > 3
    assert len([name for name in original if name.startswith("index")]) > 5
    assert copy == original


def test_inner_batches_are_copied_to_batch_queues(rig):
    async def case(bench):
        for count in (3, 1, 7):
            bench.original.store.put([batch(count), message("Plain")])
            await publish(bench)
        first = raw_log(bench.copy).log_range().max_offset
        bench.original.store.put([batch(4), batch(2)])
        await publish(bench)
        assert bench.copy.store.bounds(Queue("Batch", 0)) == Bounds(0, 17)
        await raw_log(bench.copy).truncate(first)
        assert bench.copy.store.bounds(Queue("Batch", 0)) == Bounds(0, 11)
        await bench.follow()

    original, copy = drive(rig, case, mapperFileSizeBatchConsumeQueue=92)
    assert copy == original
    assert any(name.startswith("batchconsumequeue") for name in copy)


@pytest.mark.parametrize("known", [False, True])
def test_the_kind_of_a_topic_decides_where_its_first_message_goes(rig, known):
    async def case(bench):
        for sent in (message("Batch", queue_targets=QueueTargets(batch=1)), batch(2)):
            bench.original.store.put([sent])
            if sent.sys_flag and not known:
                with pytest.raises(LogMismatch, match="ordinary queues"):
                    await publish(bench)
            else:
                await publish(bench)
        assert bench.copy.store.bounds(Queue("Batch", 0)) == Bounds(0, 3 if known else 1)

    original, copy = drive(rig, case, batch_topics=["Batch"] if known else [])
    assert (copy == original) is known


def test_light_queues_are_copied(rig):
    async def case(bench):
        for _ in range(5):
            bench.original.store.put([light("%LMQ%a", "%LMQ%b"), message("Own"), light("%LMQ%a")])
            await publish(bench)
        end = raw_log(bench.copy).log_range().max_offset
        await bench.copy.add(light("%LMQ%a"), light("%LMQ%new"))
        await raw_log(bench.copy).truncate(end)
        assert bench.copy.store.bounds(Queue("%LMQ%a", 0)) == Bounds(0, 10)
        assert bench.copy.store.bounds(Queue("%LMQ%new", 0)) == Bounds(0, 0)
        await bench.write()
        await bench.compare()

    original, copy = drive(rig, case, **LIGHT)
    assert copy == original
    assert any("%LMQ%b" in name for name in copy)


def test_ext_units_are_copied_and_cut(rig):
    async def case(bench):
        await bench.write()
        end = raw_log(bench.copy).log_range().max_offset
        await bench.copy.add(*[message("A", n % 3, tag="TagB") for n in range(9)])
        await raw_log(bench.copy).truncate(end)
        await bench.write()
        await bench.compare()

    original, copy = drive(rig, case, enableConsumeQueueExt=True, mappedFileSizeConsumeQueueExt=400)
    assert copy == original
    assert any(name.startswith("consumequeue_ext") for name in copy)


def test_a_copy_may_begin_at_a_later_log_file(rig):
    async def case(bench):
        await bench.original.add(*[message(body=b"%d" % n * 900) for n in range(40)])
        source, target = raw_log(bench.original), raw_log(bench.copy)
        with pytest.raises(LogMismatch):
            target.append_raw(8000, await read_log(source, 8000, 1000))
        assert target.append_raw(16384, await read_log(source, 16384, 1 << 20)) == 24576
        await bench.follow()
        first = bench.copy.store.bounds(T0).min_offset
        assert 0 < first < 40
        assert bench.copy.store.bounds(T0) == Bounds(first, 40)
        assert bodies(await bench.copy.read_all(T0, first)) == [b"%d" % n * 900 for n in range(first, 40)]
        await raw_log(bench.copy).truncate(16384)
        assert raw_log(bench.copy).log_range() == (16384, 16384)
        await bench.follow()
        await bench.copy.restart()
        assert bench.copy.store.bounds(T0) == Bounds(first, 40)
        assert raw_log(bench.copy).log_range().min_offset == 16384

    drive(rig, case)


def test_files_of_another_size_are_refused_with_a_sentence(rig):
    other = type(rig)(rig.root.with_name("other"))

    async def case(bench):
        await bench.add(*[message(body=b"x" * 900) for _ in range(12)])
        data = raw_log(bench).read_log(0, 1 << 20)
        with pytest.raises(LogMismatch, match="mappedFileSizeCommitLog"):
            raw_log(StoreBench(lambda: stores[0], rig.clock)).append_raw(0, data)

    stores = []

    async def smaller(bench):
        stores.append(bench.store)
        inner = StoreBench(rig.make, rig.clock)
        await inner.store.start()
        try:
            await case(inner)
        finally:
            await inner.store.stop()

    other.run(smaller, mappedFileSizeCommitLog=4096)


def test_queue_offsets_that_the_original_has_lost_repeat_the_next_entry(rig):
    async def case(bench):
        await bench.write()
        queue = bench.original.store._queues.by_name["A", 0]
        before = queue.next_offset
        queue.next_offset += 3
        bench.original.store.put([message("A", 0, b"after the gap")])
        await bench.follow()
        assert bench.copy.store.bounds(Queue("A", 0)).max_offset == before + 4
        found = await bench.copy.get(Queue("A", 0), before)
        assert [bytes(b) for b in found.buffers][-1].find(b"after the gap") > 0
        queue.next_offset = 2
        bench.original.store.put([message("A", 0, b"too low")])
        await bench.follow()
        assert bench.copy.store.bounds(Queue("A", 0)).max_offset == before + 4
        assert any("is in the log only" in sentence for sentence in rig.said)

    drive(rig, case)


def test_what_was_appended_last_is_sent_without_a_read_of_its_file(rig, monkeypatch):
    async def case(bench):
        await bench.write()
        log = raw_log(bench.original)

        def put(body):
            start = log.log_range().max_offset
            bench.original.store.put([message("A", 0, body)])
            return start, log.log_range().max_offset - start

        start, size = put(b"first")
        stored = await read_log(log, start, size)
        with monkeypatch.context() as patched:
            patched.setattr(LogFile, "pread", lambda file, low, high: pytest.fail("the file is read"))
            assert b"first" in log.read_log(start, size)
        await show(bench.original)
        await log.truncate(start)
        assert put(b"other") == (start, size)
        assert b"other" in await read_log(log, start, size)
        put(b"third")
        assert b"other" in (found := await read_log(log, start, size)) and len(found) == len(stored)

    drive(rig, case)


# --- retention ------------------------------------------------------------------------------------------------------


def test_a_floor_keeps_log_files():
    async def case(bench):
        floor = [FILE + 1]
        cancel = raw_log(bench).retain_from(lambda: floor[0])
        await fill(bench, 7)
        for expected in ([1, 2, 3], [2, 3], [3]):
            await bench.world.clock.sleep(1)
            await bench.store.clean(Cleaning.EXPIRED_LOG)
            await bench.world.clock.sleep(1)
            assert logs(bench) == expected
            if floor[0] > 2 * FILE:
                cancel()
            floor[0] = 2 * FILE + 1

    run_on_virtual_clock(case, fileReservedTime=0)


def test_a_floor_that_fails_keeps_everything():
    async def case(bench):
        def failing():
            raise ValueError("no floor today")

        raw_log(bench).retain_from(failing)
        await fill(bench, 7)
        await bench.world.clock.sleep(70)
        assert logs(bench) == [0, 1, 2, 3]
        assert any("no floor today" in sentence for sentence in bench.said)

    run_on_virtual_clock(case, fileReservedTime=0, deleteWhen="22")


# --- failing disks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["pwrite", "datasync", "replace", "remove"])
def test_a_truncation_on_a_failing_disk_is_completed_or_undone_by_the_next_start(rig, call):
    settings = {**SMALL, "mappedFileSizeCommitLog": 8192}
    ends = []

    async def failing(bench):
        results = await bench.add(*[keyed(b"%d" % n * 400, "red") for n in range(40)])
        ends.extend((results[9].log_offset, results[-1].end))
        rig.faults.failing[call] = rig.BROKEN
        with pytest.raises(StoreError):
            await raw_log(bench).truncate(ends[0])
        (result,) = bench.store.put([message()])
        assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
        rig.faults.failing.clear()

    async def after(bench):
        end = raw_log(bench).log_range().max_offset
        assert end in ends
        kept = 9 if end == ends[0] else 40
        assert bodies(await bench.read_all(T0)) == [b"%d" % n * 400 for n in range(kept)]
        assert len((await bench.query("red", limit=64))[0]) == kept
        (result,) = await bench.add(message(body=b"next"))
        assert result.queue_offset == kept
        assert result.log_offset in (end, -(-end // 8192) * 8192)

    rig.run(failing, **settings)
    rig.run(after, **settings)


def test_writes_are_refused_while_the_log_is_truncated(rig):
    async def case(bench):
        (first, *_) = await bench.add(*[message() for _ in range(4)])
        rig.workers.held_runs = True
        task = asyncio.get_running_loop().create_task(raw_log(bench).truncate(first.end))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert rig.workers.waiting
        (result,) = bench.store.put([message()])
        assert (result.status, bench.store.state().refusal_cause) == (PutStatus.SERVICE_NOT_AVAILABLE, "truncating")
        with pytest.raises(StoreError, match="is being truncated"):
            raw_log(bench).append_raw(0, b"")
        rig.workers.held_runs = False
        while rig.workers.waiting:
            rig.workers.step()
        await task
        assert bench.store.state().refusal is None
        assert (await bench.add(message()))[0].log_offset == first.end

    rig.run(case)
