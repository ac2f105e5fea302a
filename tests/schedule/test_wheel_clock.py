"""The rules of the wheel by themselves, and over seeded histories."""

import random

import pytest

from gantrymq_schedule.timer.wheel_clock import MOST_WINDOW, REACH, SlotPlacement, WheelClock, accepted_ms
from gantrymq_store_files.timer_wheel import SLOTS

HOUR = 3600
DAY = 24 * HOUR
WINDOW = 2 * DAY


def clock(now=1_700_000_000, window=WINDOW, precision_ms=1000):
    return WheelClock(precision_ms, window, now)


@pytest.mark.parametrize(
    ("deliver_ms", "slot_ms"), [(5000, 4000), (5001, 5000), (5999, 5000), (6000, 5000), (6001, 6000)]
)
def test_a_slot_is_the_one_whose_end_is_the_time_or_the_next_moment_after_it(deliver_ms, slot_ms):
    assert accepted_ms(deliver_ms, 1000) == slot_ms


def test_a_message_waits_in_the_slot_of_its_time():
    wheel = clock()
    assert wheel.place(1_700_000_010_000, 1_700_000_000_000) == SlotPlacement(1_700_000_010, rolls=False)
    assert wheel.place(wheel.write_ms, wheel.write_ms) == SlotPlacement(wheel.write_tick, rolls=False)


@pytest.mark.parametrize(
    ("ahead", "place"),
    [
        (WINDOW - 1, (WINDOW - 1, False)),
        (WINDOW, (WINDOW // 2, True)),
        (WINDOW + WINDOW // 3 - 1, (WINDOW // 2, True)),
        (WINDOW + WINDOW // 3, (WINDOW, True)),
        (3 * DAY, (WINDOW, True)),
    ],
)
def test_a_long_wait_goes_round_again(ahead, place):
    wheel = clock()
    at, rolls = place
    assert wheel.place((wheel.write_tick + ahead) * 1000, wheel.write_ms) == SlotPlacement(wheel.write_tick + at, rolls)


@pytest.mark.parametrize("window", [0, 1, MOST_WINDOW + 1, 10**9])
def test_a_window_that_cannot_be_means_the_longest(window):
    assert clock(window=window).window == MOST_WINDOW


def test_a_slot_that_is_past_does_not_wait():
    wheel = clock()
    wheel.advance(wheel.write_ms + 5000)
    assert wheel.place(wheel.write_ms - 1000, wheel.write_ms) is None


def test_a_clock_that_was_set_back_makes_nothing_early():
    wheel = clock()
    now_ms = wheel.write_ms - 1000
    wheel.advance(now_ms)
    assert not wheel.was_set_back(now_ms)
    assert wheel.place(now_ms, now_ms) == SlotPlacement(wheel.write_tick, rolls=False)
    assert wheel.place(now_ms - 1000, now_ms) is None
    now_ms -= 1
    assert wheel.was_set_back(now_ms)
    wheel.begin_at(now_ms // 1000)
    assert not wheel.was_set_back(now_ms)
    assert wheel.place(now_ms + 5000, now_ms) == SlotPlacement((now_ms + 5000) // 1000, rolls=False)


def test_a_slot_is_due_when_it_is_over():
    wheel = clock(now=100)
    wheel.advance(101_999)
    assert wheel.next_due(101) is None
    assert wheel.read_tick == 101
    wheel.advance(102_000)
    assert wheel.next_due(101) == 101
    wheel.delivered(101)
    assert (wheel.read_tick, wheel.next_due(1 << 62), wheel.read_tick) == (102, None, 102)


@pytest.mark.parametrize("seed", range(30))
def test_no_two_times_share_a_slot_and_nothing_is_early_or_left(seed):
    chance = random.Random(seed)
    now = 1_700_000_000_000
    wheel = clock(now // 1000, chance.choice([WINDOW, 7, 600, MOST_WINDOW]))
    slots, done, due_of = {}, {}, {}

    def put(number):
        place = wheel.place(due_of[number], now)
        if place is None:
            assert now >= due_of[number] + 1000
            done[number] = now
            return
        assert wheel.read_tick <= wheel.write_tick <= place.tick < wheel.saved_tick + SLOTS
        ticks, numbers = slots.setdefault(place.tick % SLOTS, (place.tick, []))
        assert ticks == place.tick
        numbers.append((number, place.rolls))

    for step in range(400):
        for _ in range(chance.randrange(4)):
            due_of[len(due_of)] = accepted_ms(now + chance.choice([1, 900, 5000, HOUR * 1000, 3 * DAY * 1000]), 1000)
            put(len(due_of) - 1)
        if chance.random() < 0.1:
            wheel.saved_tick = wheel.read_tick
        now += chance.choice([0, 10, 1000, 60_000, HOUR * 1000, DAY * 1000, 20 * DAY * 1000, -3000])
        if step == 399:
            now += 30 * DAY * 1000
        while True:
            before = (wheel.read_tick, wheel.write_tick)
            wheel.advance(now)
            busy = min((tick for tick, _ in slots.values()), default=1 << 62)
            tick = wheel.next_due(busy)
            if tick is not None:
                _, numbers = slots.pop(tick % SLOTS)
                for number, rolls in numbers:
                    if rolls:
                        put(number)
                    else:
                        assert now >= due_of[number] + 1000
                        done[number] = now
                wheel.delivered(tick)
            elif (wheel.read_tick, wheel.write_tick) == before:
                if not wheel.held:
                    break
                wheel.saved_tick = wheel.read_tick
    assert done.keys() == due_of.keys()
    assert REACH * 2 == SLOTS


@pytest.mark.parametrize("idle_s", [WINDOW + 1, 6 * DAY])
def test_a_short_delay_after_idle_days_does_not_go_round(idle_s):
    wheel = clock()
    now_ms = wheel.write_ms + idle_s * 1000
    tick = now_ms // 1000 + 5
    assert wheel.place(tick * 1000, now_ms) == SlotPlacement(tick, rolls=False)
    long = wheel.place((tick + WINDOW) * 1000, now_ms)
    assert long == SlotPlacement(now_ms // 1000 + WINDOW // 2, rolls=True)


def test_a_slot_is_within_one_turn_of_what_was_saved_however_long_nothing_happened():
    wheel = clock(window=MOST_WINDOW)
    now_ms = wheel.write_ms + 30 * DAY * 1000
    place = wheel.place(now_ms + 3 * DAY * 1000, now_ms)
    assert place.rolls
    assert wheel.saved_tick + REACH <= place.tick < wheel.saved_tick + SLOTS


def test_a_position_that_went_far_is_to_be_saved():
    wheel = clock(now=100)
    wheel.advance((100 + REACH // 4) * 1000)
    assert wheel.next_due(1 << 62) is None
    assert not wheel.far
    wheel.advance((101 + REACH // 4) * 1000)
    assert wheel.next_due(1 << 62) is None
    assert wheel.far
    wheel.saved_tick = wheel.read_tick
    assert not wheel.far
