"""Queue of writers: their order, and timeouts if the peer does not read."""

import asyncio

import pytest

from gantrymq.errors import CallTimeout
from gantrymq.remoting.write_buffer import WriteQueue
from gantrymq_testing.simulated import simulate


class Pipe:
    """Something to write into."""

    def __init__(self, world, most=100):
        self.unwritten = 0
        self.order = []
        self.line = WriteQueue(world.clock, lambda: "10.0.0.9:4711", lambda: self.unwritten, most)

    async def write(self, name, size, timeout_s=3.0):
        await self.line.room(timeout_s)
        self.order.append(name)
        self.unwritten += size

    def take(self, size):
        self.unwritten -= size
        self.line.wake(moved=True)


def test_they_write_in_the_order_in_which_they_came():
    async def work(world):
        pipe = Pipe(world)
        pipe.unwritten = 150
        tasks = [asyncio.ensure_future(pipe.write(name, 60)) for name in range(5)]
        await world.clock.sleep(1)
        assert (pipe.order, len(pipe.line)) == ([], 5)
        pipe.take(150)
        await world.clock.sleep(1)
        assert pipe.order == [0, 1]
        pipe.take(120)
        await world.clock.sleep(1)
        assert pipe.order == [0, 1, 2, 3]
        pipe.take(120)
        await asyncio.gather(*tasks)
        assert (pipe.order, len(pipe.line)) == ([0, 1, 2, 3, 4], 0)

    simulate(1, work, limit_s=60.0)


def test_all_give_up_together_when_the_peer_takes_nothing():
    async def work(world):
        pipe = Pipe(world)
        pipe.unwritten = 150
        begun = world.clock.monotonic()
        found = await asyncio.gather(*(pipe.write(name, 1) for name in range(1000)), return_exceptions=True)
        assert {type(each) for each in found} == {CallTimeout}
        assert "10.0.0.9:4711: nothing could be written for 3 s, 150 bytes wait" in str(found[0])
        assert world.clock.monotonic() - begun < 3.1
        with pytest.raises(CallTimeout):  # and none tries again before the peer reads
            await pipe.write("late", 1)
        assert world.clock.monotonic() - begun < 3.1
        pipe.take(100)
        pipe.unwritten += 100
        waiting = asyncio.ensure_future(pipe.write("later", 1))
        await world.clock.sleep(2)
        pipe.take(100)
        await waiting
        assert pipe.order == ["later"]

    simulate(1, work, limit_s=60.0)


def test_a_peer_that_takes_a_little_is_waited_for():
    async def work(world):
        pipe = Pipe(world)
        pipe.unwritten = 150
        waiting = asyncio.ensure_future(pipe.write("slow", 1))
        for _ in range(4):
            await world.clock.sleep(2)
            pipe.unwritten -= 10
            assert not waiting.done()
        pipe.take(20)
        await waiting

    simulate(1, work, limit_s=60.0)


def test_one_who_is_cancelled_leaves_his_place():
    async def work(world):
        pipe = Pipe(world)
        pipe.unwritten = 150
        tasks = [asyncio.ensure_future(pipe.write(name, 1)) for name in range(3)]
        await world.clock.sleep(1)
        for task in tasks[:2]:
            task.cancel()
        pipe.take(150)
        await tasks[2]
        assert (pipe.order, len(pipe.line)) == ([2], 0)

    simulate(1, work, limit_s=60.0)
