"""Disk space: refusal of writes, deletion of files, and resuming."""

import errno

import pytest
from retention_rig import BIG, FILE, ROOT, fill, logs, run

from gantrymq.interfaces import PutStatus
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import bodies, message


async def put_until_refused(bench):
    for _ in range(1000):
        (result,) = bench.store.put([BIG])
        if result.status is not PutStatus.OK:
            return result
        await bench.publish([result])
    raise AssertionError("nothing was refused")


async def resumed_after(bench):
    """Virtual seconds until a message is taken."""
    began = bench.world.clock.monotonic()
    while bench.store.put([BIG])[0].status is not PutStatus.OK:
        await bench.world.clock.sleep(0.01)
    return bench.world.clock.monotonic() - began


@pytest.mark.parametrize("asked", [True, False], ids=["sends go on", "nobody sends"])
def test_a_disk_without_room_for_the_next_file_refuses_and_resumes_within_a_second(asked):
    async def case(bench):
        first = await put_until_refused(bench)
        assert first.status is PutStatus.CREATE_FILE_FAILED
        (second,) = bench.store.put([message(body=b"small")])
        assert second.status is PutStatus.DISK_FULL
        assert second.problem == (
            "the next commit log file of 8192 bytes finds no room on the disk of /store/commitlog (No space left on "
            "device); free space; writes resume by themselves once there is room"
        )
        state = bench.store.state()
        assert (state.refusal, state.refusal_cause) == (second.problem, "no_room")
        for _ in range(30):
            await bench.world.clock.sleep(1)
            if asked:
                assert bench.store.put([BIG])[0].status is PutStatus.DISK_FULL
        bench.world.files.capacity *= 2
        if asked:
            assert await resumed_after(bench) <= 1
        else:
            await bench.world.clock.sleep(1)
            assert bench.store.put([BIG])[0].status is PutStatus.OK
        assert bench.store.state().refusal is None
        await bench.world.clock.sleep(20)
        assert bench.said[-2:] == [f"writes are refused: {second.problem}", "there is room again, writes are accepted"]

    run(case, capacity=40 * 4096, diskSpaceWarningLevelRatio=100, cleanFileForciblyEnable=False)


def test_the_disk_ratio_refuses_at_the_next_look_and_resumes_within_a_second():
    async def case(bench):
        await fill(bench, 7)
        full = bench.world.files.capacity
        use = bench.world.files.disk_use(ROOT)
        bench.world.files.capacity = (use.total - use.free) * 100 // 95
        await bench.world.clock.sleep(10.1)
        refused = bench.store.put([BIG])[0]
        assert refused.status is PutStatus.DISK_FULL
        assert "percent full, diskSpaceWarningLevelRatio=90 is the limit" in refused.problem
        assert bench.store.state().refusal_cause == "disk_ratio"
        bench.world.files.capacity = full
        assert await resumed_after(bench) <= 1

    run(case, cleanFileForciblyEnable=False)


def test_a_full_disk_is_seen_at_the_start():
    async def case(bench):
        await fill(bench, 7)
        bench.settings.set("diskSpaceWarningLevelRatio", 30, "the test")
        await bench.restart()
        use = bench.world.files.disk_use(ROOT)
        percent = 100 * (use.total - use.free) / use.total
        refused = bench.store.put([BIG])[0].problem
        assert refused.startswith(f"the disk of /store/commitlog is {percent:.1f} percent full")

    run(case, capacity=10 * FILE)


def test_a_store_that_was_stopped_cleanly_starts_on_a_disk_without_a_byte_for_readers():
    async def case(bench):
        await fill(bench, 7)
        before = bodies(await bench.read_all(Queue("T", 0)))
        await bench.store.stop()
        capacity, bench.world.files.capacity = bench.world.files.capacity, bench.world.files._disk.used
        await bench.restart()
        assert bench.world.files.stat(ROOT / "abort").size == 0
        assert bodies(await bench.read_all(Queue("T", 0))) == before
        assert bench.store.put([BIG])[0].status is PutStatus.DISK_FULL
        bench.world.files.capacity = capacity
        assert await resumed_after(bench) <= 1

    run(case)


def test_free_bytes_refuse_and_resume():
    async def case(bench):
        bench.settings.set("minFreeDiskBytes", 1 << 41, "the test")
        await bench.world.clock.sleep(10.1)
        refused = bench.store.put([BIG])[0]
        assert (refused.status, bench.store.state().refusal_cause) == (PutStatus.DISK_FULL, "free_bytes")
        bench.settings.set("minFreeDiskBytes", 1 << 20, "the test")
        assert await resumed_after(bench) <= 1

    run(case)


def test_a_quota_keeps_the_store_small_by_deleting_the_oldest():
    async def case(bench):
        for _ in range(60):
            await fill(bench, 1)
            await bench.world.clock.sleep(0.5)
            assert len(bench.store._log.files) <= 4
        assert bench.store.state().refusal is None
        assert bench.store.state().min_log_offset > 20 * FILE
        assert "bytes have to be freed" in bench.said[0]

    run(case, storeQuotaBytes=4 * FILE + 2000, cleanResourceInterval=1000)


def test_a_quota_refuses_where_nothing_may_be_deleted():
    async def case(bench):
        for _ in range(20):
            await bench.world.clock.sleep(1)
            (refused,) = bench.store.put([BIG])
            if refused.status is not PutStatus.OK:
                break
            await bench.publish([refused])
        assert refused.problem.startswith("the store /store takes ")
        assert bench.store.state().refusal_cause == "store_quota"
        bench.settings.set("storeQuotaBytes", 100 * FILE, "the test")
        assert await resumed_after(bench) <= 1

    run(case, storeQuotaBytes=4 * FILE, cleanFileForciblyEnable=False)


def test_a_disk_that_fills_up_is_kept_below_the_ratio_by_deleting_the_oldest():
    async def case(bench):
        for _ in range(200):
            await fill(bench, 1)
            await bench.world.clock.sleep(0.5)
        assert bench.store.state().refusal is None
        assert logs(bench)[0] > 50

    run(case, capacity=50 * FILE, cleanResourceInterval=1000)


def test_queue_entries_without_room_are_tried_again_within_a_second():
    async def case(bench):
        await fill(bench, 1)
        bench.world.files.capacity = 1
        (result,) = bench.store.put([message("New")])
        await bench.publish([result])
        await bench.world.clock.sleep(7)  # entries are written some seconds later
        (refused,) = bench.store.put([message("New")])
        assert refused.status is PutStatus.DISK_FULL
        assert refused.problem.startswith("queue T/0 cannot be written: [Errno 28] No space left on device")
        assert bench.store.state().refusal_cause == "no_room"
        bench.world.files.capacity = 1 << 40
        assert await resumed_after(bench) <= 1
        assert bodies(await bench.read_all(Queue("New", 0))) == [b"body"]

    run(case, cleanFileForciblyEnable=False, diskSpaceWarningLevelRatio=100)


class FullAtWrites:
    """A file system that reserves and then does not keep its word."""

    def __init__(self, inner):
        self._inner, self.full, self.broken = inner, False, ""

    def open(self, path, **how):
        return FullFile(self, self._inner.open(path, **how))

    def __getattr__(self, name):
        return getattr(self._inner, name)


class FullFile:
    def __init__(self, files, inner):
        self._files, self._inner = files, inner

    def pwrite(self, data, position):
        if self._files.full and "commitlog" in str(self._inner.path):
            self._inner.pwrite(bytes(data)[: len(data) // 2], position)  # torn
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._files.broken and self._files.broken in str(self._inner.path):
            raise OSError(errno.EIO, "Input/output error")
        self._inner.pwrite(data, position)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_a_write_into_the_log_without_room_is_undone_and_writes_resume():
    async def case(bench):
        await fill(bench, 1)
        end = bench.store.state().max_log_offset
        bench.world.files.full = True
        (torn,) = bench.store.put([BIG])
        assert torn.problem.startswith("a write into the commit log finds no room on the disk of /store/commitlog")
        assert bench.store.state().refusal_cause == "no_room"
        await bench.world.clock.sleep(5)
        assert bench.store.put([BIG])[0].status is PutStatus.DISK_FULL
        bench.world.files.full = False
        await bench.world.clock.sleep(1)
        log = bench.world.files.read(ROOT / "commitlog" / f"{0:020d}")
        assert log[end:] == bytes(FILE - end)
        (result,) = await bench.add(message(body=b"after"))
        assert (result.log_offset, result.queue_offset) == (end, 1)

    run(case, files=FullAtWrites)


def test_queues_that_cannot_be_written_are_logged_and_writes_resume_by_themselves():
    async def case(bench):
        bench.world.files.broken = "consumequeue"
        (first,) = await fill(bench, 1)
        await bench.world.clock.sleep(7)  # entries are written some seconds later
        (refused,) = bench.store.put([BIG])
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert refused.problem.startswith("queue T/0 cannot be written: [Errno 5] Input/output error")
        assert refused.problem.endswith("messages are accepted again once the disk takes them")
        assert bench.store.state().refusal_cause == "queue_write_failed"
        await bench.world.clock.sleep(20)
        assert [each for each in bench.said if "refused" in each] == [f"writes are refused: {refused.problem}"]
        bench.world.files.broken = ""
        assert await resumed_after(bench) <= 1
        await bench.world.clock.sleep(1)
        assert bench.said[-1] == "the disk works again, writes are accepted"
        (after,) = await fill(bench, 1)
        assert (first.queue_offset, after.queue_offset) == (0, 2)

    run(case, files=FullAtWrites)


def test_a_log_that_cannot_be_written_is_logged_once_and_needs_a_restart():
    async def case(bench):
        await fill(bench, 1)
        bench.world.files.broken = "commitlog"
        (refused,) = bench.store.put([BIG])
        bench.world.files.broken = ""
        await bench.world.clock.sleep(30)
        assert bench.store.state().refusal == refused.problem
        assert bench.store.state().refusal_cause == "log_write_failed"
        assert [each for each in bench.said if "refused" in each] == [f"writes are refused: {refused.problem}"]

    run(case, files=FullAtWrites)


def test_the_index_counts_with_what_is_in_use_and_not_with_its_length():
    async def case(bench):
        keyed = [message(properties=b"KEYS\x01k%d\x02" % n) for n in range(10)]
        await bench.add(*keyed)
        await bench.world.clock.sleep(1.1)
        page, entry, header, slots = 4096, 20, 40, 10
        index_bytes = header + slots * page + 11 * entry
        assert bench.store._watch.disks.store_bytes == FILE + index_bytes + 10 * 20
        assert bench.world.files.stat(ROOT / "index" / bench.world.files.list(ROOT / "index")[0]).size > 400 * 1024**2

    run(case, storeQuotaBytes=1 << 40, cleanResourceInterval=1000)
