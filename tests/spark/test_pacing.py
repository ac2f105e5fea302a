"""When messages of a replay are due."""

import pytest

from gantrymq.errors import ConfigError
from gantrymq_spark.jobs.pacing import ROWS_AT_ONCE, Pace, due_rows, read_speed
from gantrymq_testing.simulated import simulate

NOW_MS = 1_795_000_000_000
FIRST_MS = 1_700_000_000_000


def sent_at(times, speed):
    """Milliseconds after the start at which each bunch is sent."""
    found = []

    async def main(world):
        pace = Pace(FIRST_MS, world.clock.now_ms(), speed)
        rows = [(FIRST_MS + time, number) for number, time in enumerate(times)]
        async for bunch in due_rows(rows, pace, world.clock):
            found.append((world.clock.now_ms() - pace.begin_ms, bunch))

    simulate(1, main, start_ms=NOW_MS)
    assert [row for _, bunch in found for row in bunch] == list(range(len(times)))
    return {row: at for at, bunch in found for row in bunch}


def test_distances_are_kept():
    times = [0, 0, 100, 1000, 1000, 60_000, 3_600_000]
    for speed in (1, 10, 0.5):
        sent = sent_at(times, speed)
        assert all(-5 <= sent[row] - time / speed <= 1 for row, time in enumerate(times)), speed


def test_at_once():
    assert set(sent_at([0, 5_000, 10**9], None).values()) == {0}


def test_a_clock_that_went_back_in_the_past_stops_nothing():
    assert sent_at([0, 5_000, 1_000, 6_000], 1) == {0: 0, 1: 5_000, 2: 5_000, 3: 6_000}


def test_bunches_are_bounded():
    sizes = []

    async def main(world):
        rows = ((FIRST_MS, number) for number in range(2 * ROWS_AT_ONCE + 1))
        async for bunch in due_rows(rows, Pace(FIRST_MS, world.clock.now_ms(), 1), world.clock):
            sizes.append(len(bunch))

    simulate(1, main, start_ms=NOW_MS)
    assert sizes == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]


@pytest.mark.parametrize(("text", "speed"), [("max", None), ("MAX", None), ("1x", 1), ("10x", 10), ("0.5X", 0.5)])
def test_speeds(text, speed):
    assert read_speed(text) == speed


@pytest.mark.parametrize("text", ["", "fast", "0x", "0.0x", "-1x", "10", "1e3x", "infx"])
def test_what_is_no_speed(text):
    with pytest.raises(ConfigError, match="is no speed; write 1x"):
        read_speed(text)
