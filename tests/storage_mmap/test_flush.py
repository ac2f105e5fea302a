import asyncio
from types import SimpleNamespace

import pytest

from gantrymq.errors import StoreError
from gantrymq.interfaces import PutStatus
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
