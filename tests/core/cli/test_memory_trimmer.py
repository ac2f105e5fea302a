"""Freed memory is returned to the system, but only if there is enough of it."""

import asyncio
from types import SimpleNamespace

import pytest

from gantrymq.cli.memory_trimmer import LOOK_S, WORTH_BYTES, MemoryTrimmer, _trim_periodically


class Process:
    """*in_use* and *free* bytes; returned pages are in neither."""

    def __init__(self):
        self.free, self.trims = 1000, 0

    def unused(self):
        return 5000 + self.free

    def trim(self):
        self.trims += 1
        self.free = 100


def test_memory_is_given_back_each_time_enough_of_it_became_free():
    process = Process()
    freed = MemoryTrimmer(process.unused, process.trim)
    freed.check()
    process.free = WORTH_BYTES
    freed.check()
    assert process.trims == 0
    for times in (1, 2):
        process.free = WORTH_BYTES + 2000
        freed.check()
        assert process.trims == times
        freed.check()
        assert process.trims == times


def test_what_cannot_be_given_back_is_tried_once():
    process = Process()
    freed = MemoryTrimmer(process.unused, lambda: setattr(process, "trims", process.trims + 1))
    process.free = 2 * WORTH_BYTES
    for _ in range(3):
        freed.check()
    assert process.trims == 1


def test_looking_goes_on_after_a_failure_and_each_reason_is_told_once(caplog):
    process, looks = Process(), 0

    def unused():
        nonlocal looks
        looks += 1
        if looks in (1, 2, 4, 5):
            raise OSError(24, "Too many open files", "/proc/self/statm")
        return process.unused()

    async def run(work, *args):
        return work(*args)

    async def sleep(seconds):
        assert seconds == LOOK_S
        process.free += WORTH_BYTES
        if process.trims == 2:
            raise asyncio.CancelledError

    world = SimpleNamespace(clock=SimpleNamespace(sleep=sleep), workers=SimpleNamespace(run=run))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_trim_periodically(world, unused, process.trim))
    assert looks > 6
    (told,) = caplog.messages
    assert told.startswith("freed memory cannot be given back to the system: [Errno 24] Too many open files")
