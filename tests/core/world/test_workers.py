"""Common behaviour of worker threads and simulated workers."""

import asyncio
import threading

import pytest

from gantrymq.world.real import RealWorkers


def divide(a, b):
    return a / b


def test_run_returns_and_raises_what_the_work_does(run):
    async def main(world):
        with pytest.raises(ZeroDivisionError):
            await world.workers.run(divide, 1, 0)
        result = await world.workers.run(divide, 6, 3)
        await world.workers.close()
        return result

    assert run(main) == 2


def test_submit_tells_result_or_error_on_the_loop_s_thread(run):
    async def main(world):
        told = []
        here = threading.get_ident()

        def done(result, error):
            told.append((result, type(error), threading.get_ident() == here))

        world.workers.submit(divide, 6, 3, done=done)
        world.workers.submit(divide, 6, 0, done=done)
        assert told == []
        await world.workers.close()
        return told

    assert sorted(run(main), key=str) == [(2.0, type(None), True), (None, ZeroDivisionError, True)]


def test_close_waits_for_everything_and_then_refuses(run):
    async def main(world):
        told = []
        for number in range(200):
            world.workers.submit(divide, number, 1, done=lambda result, error: told.append(result))
        await asyncio.gather(world.workers.close(), world.workers.close())
        assert len(told) == 200
        with pytest.raises(RuntimeError):
            world.workers.submit(divide, 1, 1, done=lambda result, error: None)
        with pytest.raises(RuntimeError):
            await world.workers.run(divide, 1, 1)
        await world.workers.close()
        return told

    assert set(run(main)) == set(range(200))


def test_workers_that_never_worked_close(run):
    async def main(world):
        await world.workers.close()

    run(main)


def test_a_cancelled_caller_drops_the_result(run):
    async def main(world):
        caller = asyncio.ensure_future(world.workers.run(divide, 1, 0))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        result = await world.workers.run(divide, 4, 2)
        await world.workers.close()
        return result

    assert run(main) == 2


def test_only_so_many_threads_run_at_once_and_all_of_them_end():
    async def main():
        workers = RealWorkers(3)
        together = threading.Barrier(3, timeout=30)
        await asyncio.gather(*(workers.run(together.wait) for _ in range(6)))
        threads = {await workers.run(threading.current_thread) for _ in range(20)}
        await workers.close()
        return threads

    threads = asyncio.run(main())  # other workers of this process may have threads of the same names
    assert {thread.name for thread in threads} <= {"gantrymq-worker-0", "gantrymq-worker-1", "gantrymq-worker-2"}
    assert not any(thread.is_alive() for thread in threads)


def test_work_that_outlives_its_loop_is_nobody_s_trouble():
    go, ended = threading.Event(), threading.Event()

    def work():
        go.wait(30)
        ended.set()

    workers = RealWorkers(1)

    async def leave():
        workers.submit(work, done=lambda result, error: None)

    async def come_back():
        result = await workers.run(divide, 6, 3)
        await workers.close()
        return result

    asyncio.run(leave())
    go.set()
    assert ended.wait(30)
    assert asyncio.run(come_back()) == 2


def test_at_least_one_thread():
    with pytest.raises(ValueError, match="0"):
        RealWorkers(0)
