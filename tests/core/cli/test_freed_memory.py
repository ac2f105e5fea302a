"""Freed memory is given back, and only where there is enough of it."""

from gantrymq.cli.freed_memory import WORTH_BYTES, FreedMemory


class Process:
    """*in_use* and *free* bytes; pages that were given back are in neither."""

    def __init__(self):
        self.free, self.trims = 1000, 0

    def unused(self):
        return 5000 + self.free

    def trim(self):
        self.trims += 1
        self.free = 100


def test_memory_is_given_back_each_time_enough_of_it_became_free():
    process = Process()
    freed = FreedMemory(process.unused, process.trim)
    freed.look()
    process.free = WORTH_BYTES
    freed.look()
    assert process.trims == 0
    for times in (1, 2):
        process.free = WORTH_BYTES + 2000
        freed.look()
        assert process.trims == times
        freed.look()
        assert process.trims == times


def test_what_cannot_be_given_back_is_tried_once():
    process = Process()
    freed = FreedMemory(process.unused, lambda: setattr(process, "trims", process.trims + 1))
    process.free = 2 * WORTH_BYTES
    for _ in range(3):
        freed.look()
    assert process.trims == 1
