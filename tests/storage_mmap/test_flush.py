import asyncio
from types import SimpleNamespace

import pytest

from gantrymq.errors import StoreError
from gantrymq.interfaces import PutStatus
from gantrymq_storage_mmap.log.sync_times import MOST_MEAN_S, MOST_SHARE, PAUSE_FACTOR, SLOW_S, STALL_PAUSE_S, STALL_S
from gantrymq_testing.store_contract_bench import message


async def wait(awaitable):
    await awaitable


def test_one_sync_serves_all_waiting_callers_and_later_ones_share_the_next(rig):
    async def case(bench):
        bench.store.put([message()])
        rig.workers.held = True
        before = rig.faults.calls["datasync"]
        ends = [bench.store.put([message()])[0].end for _ in range(3)]
        first = [asyncio.ensure_future(wait(bench.store.flushed(end))) for end in ends]
        await asyncio.sleep(0)
        late = [asyncio.ensure_future(wait(bench.store.flushed(bench.store.put([message()])[0].end))) for _ in range(4)]
        await asyncio.sleep(0)
        assert len(rig.workers.waiting) == 1
        assert bench.store.state().flushed_offset == 0
        rig.workers.step()
        await asyncio.gather(*first)
        assert bench.store.state().flushed_offset == ends[-1]
        assert not any(task.done() for task in late)
        rig.workers.step()
        await asyncio.gather(*late)
        assert rig.faults.calls["datasync"] == before + 2

    rig.run(case)


def test_what_is_flushed_already_costs_no_sync(rig):
    async def case(bench):
        (result,) = await bench.add(message())
        before = rig.faults.calls["datasync"]
        await bench.store.flushed(result.end)
        await bench.store.flushed(0)
        assert rig.faults.calls["datasync"] == before

    rig.run(case)


def test_a_sync_covers_every_file_across_a_roll(rig):
    async def case(bench):
        rig.workers.held = True
        results = bench.store.put([message(body=b"x" * 5000) for _ in range(3)])
        while rig.workers.waiting:  # preallocations
            rig.workers.step()
        waiter = asyncio.ensure_future(wait(bench.store.flushed(results[-1].end)))
        await asyncio.sleep(0)
        before = rig.faults.calls["datasync"]
        rig.workers.step()
        await waiter
        assert rig.faults.calls["datasync"] == before + 3

    rig.run(case)


def test_a_failed_sync_fails_the_waiters_and_refuses_writes_until_a_restart(rig):
    async def case(bench):
        (good,) = await bench.add(message(body=b"good"))
        (bad,) = bench.store.put([message(body=b"bad")])
        rig.faults.failing["datasync"] = rig.BROKEN
        with pytest.raises(StoreError, match="could not be made durable"):
            await bench.store.flushed(bad.end)
        rig.faults.failing.clear()
        with pytest.raises(StoreError, match="could not be made durable"):
            await bench.store.flushed(bad.end)
        assert bench.store.state().flushed_offset == good.end
        (refused,) = bench.store.put([message()])
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "restart the broker" in refused.problem
        assert bench.store.state().refusal == refused.problem
        await bench.store.stop()
        assert (rig.root / "abort").exists()
        assert "not stopped cleanly" in rig.said[-1]

    rig.run(case)

    async def after(bench):
        assert not bench.report.clean
        assert bench.report.records_checked == 2

    rig.run(after)


def test_waiting_for_what_was_never_appended_is_an_error(rig):
    async def case(bench):
        with pytest.raises(StoreError, match="not appended yet"):
            await bench.store.flushed(1)

    rig.run(case)


def test_a_waiter_that_gives_up_does_not_disturb_the_others(rig):
    async def case(bench):
        rig.workers.held = True
        (result,) = bench.store.put([message()])
        gone, stays = (asyncio.ensure_future(wait(bench.store.flushed(result.end))) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        rig.workers.step()
        await stays

    rig.run(case)


def test_the_background_flush_makes_bytes_durable_without_a_waiting_caller(rig):
    async def case(bench):
        (result,) = bench.store.put([message()])
        flusher = bench.store._flusher
        flusher._thorough_at -= 10
        flusher._tick()
        assert bench.store.state().flushed_offset == result.end

    rig.run(case)


def test_the_background_flush_waits_for_enough_pages(rig):
    async def case(bench):
        ticks = []
        flusher = bench.store._flusher
        kick = flusher.kick
        flusher.kick = lambda: (ticks.append(flusher._log.end), kick())
        bench.store.put([message()])
        flusher._tick()
        assert ticks == []
        bench.store.put([message(body=b"x" * 4096)])
        flusher._tick()
        assert len(ticks) == 1

    rig.run(case, flushCommitLogLeastPages=1, flushIntervalCommitLog=100000)


def test_settings_of_the_background_flush_may_change_while_it_runs(rig):
    async def case(bench):
        flusher, settings = bench.store._flusher, bench.store._settings
        delays = []
        flusher._clock = SimpleNamespace(
            monotonic=flusher._clock.monotonic, call_later=lambda delay_s, tick: delays.append(delay_s)
        )
        settings.set("flushIntervalCommitLog", 600, "the test")
        flusher._timer.cancel()
        flusher._tick()
        assert delays == [0.6]
        (result,) = bench.store.put([message()])
        flusher._tick()
        assert bench.store.state().flushed_offset == 0
        settings.set("flushCommitLogLeastPages", 0, "the test")
        flusher._tick()
        assert bench.store.state().flushed_offset == result.end
        settings.set("flushCommitLogLeastPages", 4, "the test")
        settings.set("flushCommitLogThoroughInterval", 1, "the test")
        (result,) = bench.store.put([message()])
        flusher._thorough_at -= 0.001
        flusher._tick()
        assert bench.store.state().flushed_offset == result.end
        flusher._timer = None  # as nothing was armed

    rig.run(case)


def test_the_longest_body_may_change_while_the_store_runs(rig):
    async def case(bench):
        bench.store._settings.set("maxMessageSize", 1024, "the test")
        short, long = bench.store.put([message(body=b"x" * 1024), message(body=b"x" * 1025)])
        assert (short.status, long.status) == (PutStatus.OK, PutStatus.BODY_TOO_LARGE)
        assert long.problem == "the body has 1025 bytes, maxMessageSize is 1024"
        bench.store._settings.set("maxMessageSize", 2048, "the test")
        assert (await bench.add(message(body=b"x" * 1025)))[0].status is PutStatus.OK
        await bench.publish([short])

    rig.run(case)


QUICK_S = 0.0001


class TimedDisk:
    """Clock and sync times of a store: each sync takes `sync_s` on this clock, which stands still otherwise."""

    def __init__(self, rig, store):
        self.now, self.sync_s = 1000.0, QUICK_S
        self.rig, self.store, self.flusher = rig, store, store._flusher
        clock = self.flusher._clock
        self.flusher._clock = SimpleNamespace(monotonic=lambda: self.now, call_later=clock.call_later)
        check = rig.faults.check

        def checked(name, path):
            if name == "datasync":
                self.now += self.sync_s
            check(name, path)

        rig.faults.check = checked

    def put(self):
        return self.store.put([message()])[0].end

    async def quick_syncs_in_the_thread(self, count=20):
        """Sync in the thread until the loop may do it."""
        for _ in range(count):
            await self.store.flushed(self.put())

    def syncs_on_the_loop(self, *, alone=True):
        """Append a message and try to sync it at once; return whether that was done."""
        end, before = self.put(), self.rig.faults.calls["datasync"]
        done = self.store.sync_now(end, alone=alone)
        assert (self.rig.faults.calls["datasync"] > before) is done
        assert (self.store.state().flushed_offset == end) is done
        return done


@pytest.fixture
def timed(rig):
    """``timed(case)`` runs ``await case(disk)`` with the `TimedDisk` of an open store."""

    def run(case):
        async def inside(bench):
            await case(TimedDisk(rig, bench.store))

        rig.run(inside, mappedFileSizeCommitLog=1 << 20)

    return run


def test_the_loop_syncs_itself_when_syncs_in_the_thread_were_quick(timed):
    async def case(disk):
        assert not disk.syncs_on_the_loop()  # nothing is known about the disk yet
        await disk.quick_syncs_in_the_thread()
        disk.rig.workers.held = True
        before = disk.store.state()
        assert disk.syncs_on_the_loop()
        assert disk.rig.workers.waiting == []
        after = disk.store.state()
        assert (after.syncs - before.syncs, after.sync_s - before.sync_s) == (1, pytest.approx(QUICK_S))
        assert disk.store.sync_now(after.flushed_offset, alone=False)  # already durable: no sync
        assert disk.store.state().syncs == after.syncs

    timed(case)


def test_the_loop_leaves_a_disk_that_is_slow_on_average_to_the_thread(timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        disk.sync_s = MOST_MEAN_S * 1.5
        tries = 0
        while disk.syncs_on_the_loop():
            tries += 1
            assert tries < 30
        await disk.quick_syncs_in_the_thread(1)
        assert not disk.syncs_on_the_loop()
        disk.sync_s = QUICK_S
        await disk.quick_syncs_in_the_thread()
        assert disk.syncs_on_the_loop()

    timed(case)


def test_a_stalled_disk_blocks_the_loop_once_a_minute(timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        blocked = []
        for _ in range(3):
            disk.sync_s, began = 0.3, disk.now
            assert disk.syncs_on_the_loop()
            blocked.append(disk.now - began)
            disk.sync_s = QUICK_S
            while disk.now < began + STALL_S + STALL_PAUSE_S:
                await disk.quick_syncs_in_the_thread(1)
                assert not disk.syncs_on_the_loop()
                disk.now += 0.5
            disk.now = began + 0.3 + STALL_PAUSE_S
        assert blocked == [pytest.approx(0.3)] * 3
        assert disk.syncs_on_the_loop()  # a minute after the last one

    timed(case)


def test_a_slow_sync_sends_the_next_ones_to_the_thread_for_a_hundred_times_as_long(timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        disk.sync_s = slow_s = 2 * SLOW_S
        assert disk.syncs_on_the_loop()
        ended, disk.sync_s = disk.now, QUICK_S
        await disk.quick_syncs_in_the_thread(40)
        disk.now = ended + PAUSE_FACTOR * slow_s - 0.001
        assert not disk.syncs_on_the_loop()
        disk.now = ended + PAUSE_FACTOR * slow_s + 0.001
        assert disk.syncs_on_the_loop()

    timed(case)


def test_a_sync_on_the_loop_that_fails_is_treated_like_one_in_the_thread(rig, timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        before = disk.store.state()
        end = disk.put()
        rig.faults.failing["datasync"] = rig.BROKEN
        assert not disk.store.sync_now(end, alone=True)
        rig.faults.failing.clear()
        with pytest.raises(StoreError, match="could not be made durable"):
            await disk.store.flushed(end)
        assert not disk.store.sync_now(end, alone=True)  # a failed sync is never repeated
        state = disk.store.state()
        assert (state.flushed_offset, state.syncs) == (before.flushed_offset, before.syncs)
        assert "restart the broker" in state.refusal
        (refused,) = disk.store.put([message()])
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE

    timed(case)
    assert "not stopped cleanly" in rig.said[-1]


def test_a_sync_on_the_loop_serves_those_that_wait_for_the_log_too(timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        end = disk.put()
        disk.flusher._waiters.append((end, waiting := asyncio.get_running_loop().create_future()))
        assert disk.syncs_on_the_loop()
        assert waiting.done()
        assert waiting.exception() is None

    timed(case)


def test_the_loop_does_not_sync_while_the_thread_does(rig, timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        rig.workers.held = True
        waiting = asyncio.ensure_future(wait(disk.store.flushed(disk.put())))
        await asyncio.sleep(0)
        assert not disk.syncs_on_the_loop()
        rig.workers.step()
        await waiting
        assert disk.store.state().flushed_offset < disk.flusher._log.end
        assert disk.syncs_on_the_loop()

    timed(case)


def test_the_loop_does_not_sync_what_was_never_appended(timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        assert not disk.store.sync_now(disk.flusher._log.end + 1, alone=True)

    timed(case)


def test_beside_other_requests_the_loop_syncs_for_a_limited_share_of_the_time(timed):
    async def case(disk):
        await disk.quick_syncs_in_the_thread()
        began, on_the_loop_s = disk.now, 0.0
        while disk.now < began + 0.05:
            before = disk.now
            if disk.syncs_on_the_loop(alone=False):
                on_the_loop_s += disk.now - before
            else:
                await disk.store.flushed(disk.flusher._log.end)
            disk.now += QUICK_S / 3
        assert on_the_loop_s == pytest.approx(0.05 * MOST_SHARE, rel=0.2)
        disk.now += 1.0
        assert disk.syncs_on_the_loop(alone=False)
        assert not disk.syncs_on_the_loop(alone=False)
        assert disk.syncs_on_the_loop(alone=True)  # blocks nothing else

    timed(case)
