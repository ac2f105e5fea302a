"""Times of cleaning, and that none of its work runs on the event loop."""

import attrs
import pytest
from retention_rig import BIG, FILE, HOUR, KEYS, ROOT, SECONDS_TO_FOUR, T0, fill, logs, run

from gantrymq.config import Settings
from gantrymq.errors import StoreError
from gantrymq.interfaces import Bounds, Cleaning, CleanReport, GetStatus, StoreContext
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_testing.simulated import simulate
from gantrymq_testing.store_contract_bench import bodies, message


def test_expired_files_go_at_the_hour_and_the_newest_stays():
    async def case(bench):
        await fill(bench, 7)
        assert logs(bench) == [0, 1, 2, 3]
        await bench.world.clock.sleep(2 * HOUR)
        assert logs(bench) == [0, 1, 2, 3]  # expired, but it is 0 o'clock
        await bench.world.clock.sleep(SECONDS_TO_FOUR - 2 * HOUR - 20)
        assert logs(bench) == [0, 1, 2, 3]
        await bench.world.clock.sleep(40)
        assert logs(bench) == [3]
        assert bench.store.state().min_log_offset == 3 * FILE
        assert bench.said == [
            "3 commit log files were deleted because it is 4 o'clock (deleteWhen); the log now begins at 24576"
        ]
        assert bench.store.bounds(T0) == Bounds(6, 7)
        assert (await bench.get(T0, 0)).status is GetStatus.OFFSET_TOO_SMALL
        assert bodies(await bench.read_all(T0, 6)) == [BIG.body]

    run(case, fileReservedTime=2)


def test_one_batch_deletes_a_limited_number_of_files_with_pauses():
    async def case(bench):
        await fill(bench, 19)
        await bench.world.clock.sleep(10)
        await bench.store.clean(Cleaning.EXPIRED_LOG)  # the first of twenty rounds
        await bench.world.clock.sleep(2.5)
        assert logs(bench)[0] == 3  # at 0, 1 and 2 seconds
        await bench.world.clock.sleep(60)
        assert logs(bench) == [9]
        assert len(bench.said) == 3
        assert all("because an operator asked for it" in sentence for sentence in bench.said)

    run(case, fileReservedTime=0, deleteFileBatchMax=4, deleteCommitLogFilesInterval=1000, deleteWhen="12")


def test_an_operator_s_wish_is_reported_before_it_is_done():
    async def case(bench):
        await fill(bench, 7)
        assert await bench.store.clean(Cleaning.EXPIRED_LOG) == CleanReport()  # no file is 2 hours old
        await bench.world.clock.sleep(2 * HOUR + 1)
        assert logs(bench) == [0, 1, 2, 3]
        assert await bench.store.clean(Cleaning.EXPIRED_LOG) == CleanReport(log_files=3, log_bytes=3 * FILE)
        assert logs(bench)[-1] == 3
        await bench.world.clock.sleep(1)
        assert logs(bench) == [3]

    run(case, fileReservedTime=2)


def test_settings_act_while_the_store_runs():
    async def case(bench):
        await fill(bench, 7)
        await bench.world.clock.sleep(2 * HOUR)
        assert logs(bench) == [0, 1, 2, 3]
        bench.settings.set("fileReservedTime", 1, "the test")
        bench.settings.set("deleteWhen", "0", "the test")
        await bench.world.clock.sleep(20)
        assert logs(bench) == [3]

    run(case)


def test_what_is_not_durable_and_published_stays():
    async def case(bench):
        results = bench.store.put([BIG] * 5)
        await bench.store.flushed(results[-1].end)
        assert await bench.store.clean(Cleaning.EXPIRED_LOG) == CleanReport()
        bench.store.publish(results[2].end)
        await bench.world.clock.sleep(1)
        assert (await bench.store.clean(Cleaning.EXPIRED_LOG)).log_files == 1
        await bench.world.clock.sleep(1)
        assert logs(bench) == [1, 2]

    run(case, fileReservedTime=0)


def test_a_store_that_is_not_running_cleans_nothing():
    async def case(bench):
        await bench.store.stop()
        with pytest.raises(StoreError, match="not running"):
            await bench.store.clean(Cleaning.EXPIRED_LOG)

    run(case)


def test_stopping_does_not_wait_for_the_pauses():
    async def case(bench):
        await fill(bench, 19)
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(1)
        before = bench.world.clock.monotonic()
        await bench.store.stop()
        assert bench.world.clock.monotonic() - before < 1
        assert logs(bench) == list(range(1, 10))

    run(case, fileReservedTime=0, deleteCommitLogFilesInterval=100_000)


class WatchedWorkers:
    """Knows whether a thread would be at work."""

    def __init__(self, inner):
        self._inner, self.inside = inner, 0
        self.close = inner.close

    def watched(self, work):
        def run(*args):
            self.inside += 1
            try:
                return work(*args)
            finally:
                self.inside -= 1

        return run

    async def run(self, work, *args):
        return await self._inner.run(self.watched(work), *args)

    def submit(self, work, *args, done):
        self._inner.submit(self.watched(work), *args, done=done)


class CallsOnTheLoop:
    """Notes the calls of `Files` that no thread makes."""

    def __init__(self, inner, workers):
        self._inner, self._workers, self.calls = inner, workers, []

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        def call(*args, **more):
            if not self._workers.inside:
                self.calls.append(name)
            return method(*args, **more)

        return call


def test_looking_and_deleting_touch_no_file_on_the_event_loop():
    async def main(world):
        workers = WatchedWorkers(world.workers)
        files = CallsOnTheLoop(world.files, workers)
        world = attrs.evolve(world, workers=workers, files=files)
        sizes = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 400, "fileReservedTime": 0}
        settings = Settings(KEYS, {**sizes, "storeQuotaBytes": 100 * FILE, "maxOpenQueueFiles": 1})
        store = MmapStore(StoreContext(world, ROOT, settings, reserve_ms=lambda topic: 500))
        await store.start()
        for _ in range(30):
            store.put([BIG])
            store.put([message("Other")] * 10)
            await store.flushed(store.state().max_log_offset)
            store.publish(store.state().max_log_offset)
        await world.clock.sleep(10)  # queue entries are written by the loop, some seconds later
        files.calls.clear()
        assert (await store.clean(Cleaning.EXPIRED_LOG)).log_files > 10
        await store.clean(Cleaning.RESERVE_TIMES)
        await world.clock.sleep(30)
        assert files.calls == []
        assert store.state().min_log_offset > 10 * FILE
        assert store.bounds(Queue("Other", 0)) == Bounds(300, 300)
        assert len(files.list(ROOT / "consumequeue" / "Other" / "0")) == 1
        await store.stop()
        await workers.close()

    simulate(1, main)


class Index:
    def __init__(self):
        self.asked = []

    def delete_before(self, log_offset):
        self.asked.append(log_offset)


def test_the_index_follows_the_log_s_minimum():
    async def case(bench):
        index = bench.store._retention._index = Index()
        await fill(bench, 7)
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(120)
        assert index.asked == [3 * FILE]

    run(case, fileReservedTime=0)
