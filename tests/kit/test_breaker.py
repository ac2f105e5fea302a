"""When a filter is suspended, and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from gantrymq_kit.filters.breaker import MOST_PAUSE_S, SLOW_CALLS, WINDOW_S, Breaker


def test_one_failure_suspends_for_the_pause():
    breaker = Breaker(30.0)
    assert not breaker.suspended(0.0)
    breaker.failed(1.0, "it raised")
    assert breaker.suspended(30.9)
    assert breaker.reason == "it raised"
    assert not breaker.suspended(31.0)


def test_slow_calls_suspend_when_they_come_together():
    breaker = Breaker(30.0)
    assert [breaker.slow(each / 10, "slow") for each in range(SLOW_CALLS)] == [False] * (SLOW_CALLS - 1) + [True]
    seldom = Breaker(30.0)
    assert not any(seldom.slow(each * WINDOW_S, "slow") for each in range(50))


def test_on_probation_one_slow_call_is_enough_and_the_pause_doubles():
    breaker = Breaker(30.0)
    breaker.failed(0.0, "it raised")
    assert not breaker.suspended(30.0)
    assert breaker.slow(31.0, "slow")
    assert breaker.until == 31.0 + 60.0


def test_a_filter_that_worked_for_long_begins_with_the_first_pause_again():
    breaker = Breaker(30.0)
    breaker.failed(0.0, "it raised")
    assert not breaker.suspended(30.0)
    breaker.failed(90.0, "it raised")
    assert breaker.pause_s == 30.0


@given(st.lists(st.tuples(st.floats(0, 2000), st.sampled_from(["ask", "failed", "slow"]))))
def test_whatever_happens_a_pause_ends_and_has_its_bounds(events):
    breaker, now = Breaker(5.0), 0.0
    for step, what in events:
        now += step
        suspended = breaker.suspended(now)
        if what == "failed" and not suspended:
            breaker.failed(now, "it raised")
        elif what == "slow" and not suspended:
            breaker.slow(now, "slow")
        if breaker.until is not None:
            assert 5.0 <= breaker.pause_s <= MOST_PAUSE_S
            assert breaker.until <= now + MOST_PAUSE_S
    assert not breaker.suspended(now + MOST_PAUSE_S)
