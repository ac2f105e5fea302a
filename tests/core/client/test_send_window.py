"""The send window at a broker: order, bounds, cancelled waiters, and a broker that hangs."""

import asyncio
import math

import pytest

from gantrymq.client.sending.send_window import TOGETHER, SendWindow
from gantrymq.errors import CallTimeout


class Visitors:
    """Sends that record when they were admitted."""

    def __init__(self, window):
        self.window = window
        self.came = []

    async def send(self, name, size=1, timeout_s=3.0):
        if not self.window.take(size):
            await self.window.wait(size, timeout_s)
        self.came.append(name)

    def begin(self, names, size=1, timeout_s=3.0):
        return [asyncio.ensure_future(self.send(name, size, timeout_s)) for name in names]


def test_so_many_are_under_way_and_the_others_come_in_their_order(simulate):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=3, most_bytes=1 << 20))
        window = visitors.window
        tasks = visitors.begin(range(10))
        await world.clock.sleep(1)
        assert (visitors.came, window.sends, len(window)) == ([0, 1, 2], 3, 7)
        for _ in range(7):
            window.leave(1, finished=True)
            assert not window.take(1)  # waiting sends are not overtaken
        await asyncio.gather(*tasks)
        assert (visitors.came, window.sends, window.bytes, len(window)) == (list(range(10)), 3, 3, 0)

    simulate(work)


def test_bytes_have_a_bound_and_a_large_one_goes_by_itself(simulate):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=512, most_bytes=100))
        window = visitors.window
        assert window.take(60)
        tasks = visitors.begin(["large"], size=1000) + visitors.begin(["small"], size=10)
        await world.clock.sleep(1)
        assert visitors.came == []
        window.leave(60, finished=True)
        await tasks[0]
        await world.clock.sleep(1)
        assert (visitors.came, window.bytes) == (["large"], 1000)
        window.leave(1000, finished=True)
        await tasks[1]
        assert window.bytes == 10

    simulate(work)


@pytest.mark.parametrize("turn_came", [False, True])
def test_waiters_that_are_cancelled_keep_no_room(simulate, turn_came):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=1, most_bytes=1 << 20))
        window = visitors.window
        assert window.take(1)
        tasks = visitors.begin(range(5))
        await world.clock.sleep(1)
        if turn_came:
            window.leave(1, finished=True)
        for task in tasks[:4]:
            task.cancel()
        await asyncio.gather(*tasks[:4], return_exceptions=True)
        if not turn_came:
            window.leave(1, finished=True)
        await tasks[4]
        assert (visitors.came, window.sends, window.bytes, len(window)) == ([4], 1, 1, 0)
        window.leave(1)
        assert window.take(1)

    simulate(work)


def test_all_in_the_line_cancelled_leave_it_empty(simulate):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=1, most_bytes=1 << 20))
        assert visitors.window.take(1)
        tasks = visitors.begin(range(100))
        await world.clock.sleep(1)
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        visitors.window.leave(1)
        assert visitors.window.take(1)

    simulate(work)


def test_a_line_at_a_broker_that_finishes_nothing_is_given_up(simulate):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=2, most_bytes=1 << 20))
        assert visitors.window.take(1)
        assert visitors.window.take(1)
        begun = world.clock.monotonic()
        tasks = visitors.begin(range(1000))
        hasty = visitors.begin(["hasty"], timeout_s=1.0)
        await asyncio.wait(hasty)
        assert 1.0 < world.clock.monotonic() - begun < 1.3
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert 3.0 < world.clock.monotonic() - begun < 3.3
        assert {str(each) for each in found} == {
            "broker b finished none of 2 sends within 3 s, and this one waited for them"
        }
        assert isinstance(hasty[0].exception(), CallTimeout)
        assert (len(visitors.window), visitors.window.sends) == (0, 2)

    simulate(work)


def test_a_line_that_moves_is_never_given_up(simulate):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=1, most_bytes=1 << 20))
        assert visitors.window.take(1)
        tasks = visitors.begin(range(10))
        for _ in range(10):
            await world.clock.sleep(2.9)
            visitors.window.leave(1, finished=True)
        await asyncio.gather(*tasks)
        assert visitors.came == list(range(10))

    simulate(work)


def test_others_run_while_many_are_let_in_or_given_up(simulate):
    async def work(world):
        visitors = Visitors(SendWindow(world.clock, "b", most=1000, most_bytes=1 << 20))
        window = visitors.window
        assert window.take(1)
        for _ in range(999):
            assert window.take(1)
        tasks = visitors.begin(range(1000))
        await world.clock.sleep(1)
        for _ in range(1000):
            window.leave(1, finished=True)
        turns = 0
        while len(visitors.came) < 1000:
            before = len(visitors.came)
            await world.clock.sleep(0)
            turns += 1
            assert len(visitors.came) - before <= TOGETHER
        assert turns >= math.floor(1000 / TOGETHER)
        await asyncio.gather(*tasks)

    simulate(work)
