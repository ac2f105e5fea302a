"""Which broker answers soonest."""

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.sending.latency_faults import BrokerLatencies


def none_under_way(_):
    return 0


def test_the_quicker_broker_is_the_best_and_what_is_under_way_counts():
    known = BrokerLatencies()
    known.measured("a", 10, 0)
    known.measured("b", 40, 0)
    assert known.best("ab", none_under_way, 0) == "a"
    assert known.best("ab", {"a": 5, "b": 0}.get, 0) == "b"


def test_a_broker_that_nothing_is_known_of_is_tried():
    known = BrokerLatencies()
    known.measured("a", 10, 0)
    assert known.best("ab", none_under_way, 0) == "b"
    assert known.best("bc", {"b": 1, "c": 0}.get, 0) == "c"


def test_a_slow_or_lost_broker_is_tried_again_in_time():
    known = BrokerLatencies()
    known.measured("a", 20, 0)
    known.lost("b", 0)
    tried_ms = next(ms for ms in range(0, 300_000, 1000) if known.best("ba", lambda _: 0, ms) == "b")
    assert 0 < tried_ms < 150_000
    known.measured("a", 20, tried_ms)
    known.measured("b", 400, tried_ms)
    assert known.best("ba", none_under_way, tried_ms) == "a"


@given(st.lists(st.tuples(st.floats(0, 60_000), st.integers(0, 60_000)), min_size=1))
def test_an_estimate_lies_within_what_was_measured(measured):
    known, now = BrokerLatencies(), 0
    for latency, pause in measured:
        now += pause
        known.measured("a", latency, now)
    estimate = known.estimate_ms("a", now)
    assert 0 <= estimate <= max(latency for latency, _ in measured) * (1 + 1e-9)
    assert known.estimate_ms("a", now + 10_000) <= estimate / 2 * (1 + 1e-9)
