import asyncio

import pytest

from gantrymq.errors import StoreError
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers


class HeldWorkers:
    """Runs submitted work when the test requests it."""

    def __init__(self):
        self.submitted = []

    def submit(self, work, *args, done):
        self.submitted.append((work, args, done))

    def step(self):
        work, args, done = self.submitted.pop(0)
        try:
            result = work(*args)
        except ValueError as error:
            done(None, error)
        else:
            done(result, None)


def test_no_more_than_its_share_is_with_the_workers_and_the_rest_goes_in_order():
    workers, ended = HeldWorkers(), []
    lane = BoundedWorkers(workers, 2)
    for name in "abcd":
        lane.submit(str.upper, name, done=lambda result, error: ended.append(result))
    assert [args for _, args, _ in workers.submitted] == [("a",), ("b",)]
    workers.step()
    assert [args for _, args, _ in workers.submitted] == [("b",), ("c",)]
    while workers.submitted:
        workers.step()
    assert ended == ["A", "B", "C", "D"]
    assert lane.busy == 0


def test_work_that_fails_makes_room_too_and_its_error_reaches_the_caller():
    async def case():
        workers = HeldWorkers()
        lane = BoundedWorkers(workers, 1)
        bad, good = (asyncio.ensure_future(lane.run(int, text)) for text in ("x", "7"))
        await asyncio.sleep(0)
        workers.step()
        workers.step()
        with pytest.raises(ValueError, match="invalid literal"):
            await bad
        assert await good == 7

    asyncio.run(case())


def test_a_caller_that_gave_up_frees_no_place_before_its_work_has_ended():
    async def case():
        workers = HeldWorkers()
        lane = BoundedWorkers(workers, 1)
        gone = asyncio.ensure_future(lane.run(str.upper, "a"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        lane.submit(str.upper, "b", done=lambda result, error: None)
        assert len(workers.submitted) == 1
        workers.step()
        assert len(workers.submitted) == 1

    asyncio.run(case())


def test_readers_are_counted_and_get_disk_errors_like_store_errors():
    lane = BoundedWorkers(HeldWorkers(), 1)
    with lane.reading("a queue cannot be read"):
        assert (lane.readers, lane.busy) == (1, 0)
    with pytest.raises(StoreError, match="a queue cannot be read: it broke"), lane.reading("a queue cannot be read"):
        raise OSError("it broke")
    assert lane.readers == 0
