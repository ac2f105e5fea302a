"""The virtual clock and the loop: time that jumps, runs that end, and errors where a real program would hang."""

import asyncio
from pathlib import Path

import pytest

from gantrymq_testing.simulated import SimulationDeadlock, SimulationError, SimulationTimeout, Trace, loop, simulate

START_MS = 1_700_000_000_000


def test_the_result_and_the_error_of_main_come_out():
    async def good(world):
        return 42

    async def bad(world):
        raise LookupError("on purpose")

    assert simulate(1, good) == 42
    with pytest.raises(LookupError):
        simulate(1, bad)


def test_a_day_passes_at_once_and_to_the_millisecond():
    async def main(world):
        times = []
        for _ in range(3):
            await world.clock.sleep(0.001)
            times.append(world.clock.now_ms())
        await world.clock.sleep(80_000)
        return [*times, world.clock.now_ms()], world.clock.monotonic()

    times, monotonic = simulate(1, main)
    assert [time - START_MS for time in times] == [1, 2, 3, 80_000_003]
    assert monotonic == pytest.approx(80_000.003)


def test_the_start_can_be_chosen():
    async def main(world):
        return world.clock.now_ms()

    assert simulate(1, main, start_ms=5) == 5


def test_timers_run_in_order_and_can_be_cancelled():
    async def main(world):
        order = []
        for delay_s in (0.3, 0.1, 0.2):
            world.clock.call_later(delay_s, order.append, delay_s)
        world.clock.call_later(0.15, order.append, "cancelled").cancel()
        await world.clock.sleep(1)
        return order

    assert simulate(1, main) == [0.1, 0.2, 0.3]


def test_asyncio_s_own_timeouts_follow_the_virtual_clock():
    async def main(world):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return world.clock.monotonic()

    assert simulate(1, main) == 3600


def test_waiting_for_ever_is_an_error_that_names_the_place():
    async def main(world):
        await asyncio.Event().wait()

    with pytest.raises(SimulationDeadlock, match=r"task-1 at .*test_simulate\.py:\d+"):
        simulate(1, main)


def test_a_periodic_timer_does_not_keep_a_run_alive_for_ever():
    async def main(world):
        while True:
            await world.clock.sleep(1)

    with pytest.raises(SimulationTimeout, match="100"):
        simulate(1, main, limit_s=100)


def test_spinning_without_time_passing_is_an_error(monkeypatch):
    monkeypatch.setattr(loop, "STANDSTILL_TURNS", 1000)

    async def main(world):
        while world.clock.monotonic() < 1:  # noqa: ASYNC110 - the mistake it is about
            await asyncio.sleep(0)

    with pytest.raises(SimulationTimeout, match="stands still"):
        simulate(1, main)


def test_threads_are_refused():
    async def main(world):
        await asyncio.to_thread(print)

    with pytest.raises(SimulationError, match="Workers"):
        simulate(1, main)


def test_tasks_left_behind_are_cancelled_oldest_first_and_may_clean_up():
    order, cleaned = [], []

    async def left(world, number):
        try:
            await asyncio.Event().wait()
        finally:
            order.append(number)
            await world.clock.sleep(0.01)
            cleaned.append(number)

    async def main(world):
        tasks = [asyncio.create_task(left(world, number)) for number in range(20)]
        await asyncio.sleep(0)
        return [task.get_name() for task in tasks]

    assert simulate(1, main)[:2] == ["task-2", "task-3"]
    assert order == list(range(20))
    assert sorted(cleaned) == order


def test_a_deadlocked_run_is_cleaned_up():
    cleaned = []

    async def main(world):
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(SimulationDeadlock):
        simulate(1, main)
    assert cleaned == [True]


def test_all_parts_repeat_together_and_each_draws_from_its_own_seed():
    async def main(world, *, draw=False):
        path = Path("/store/commitlog")
        world.files.make_dirs(path.parent)
        opened = world.files.open(path, create=True)
        opened.allocate(4096)
        for number in range(10):
            if draw:
                world.random.random()
            opened.pwrite(b"%d" % number, number * 10)
            await world.workers.run(opened.datasync)
        return world.clock.monotonic(), draw or world.random.random()

    def run(seed, **options):
        trace = Trace()
        return simulate(seed, lambda world: main(world, **options), trace=trace), trace.digest()

    assert run(1) == run(1)
    assert run(1)[1] != run(2)[1]
    assert run(1, draw=True)[1] == run(1)[1]


def test_a_world_says_who_it_is():
    async def main(world):
        return world.process_id, world.host_name, world.environ

    assert simulate(1, main) == (1, "simulated", {})
