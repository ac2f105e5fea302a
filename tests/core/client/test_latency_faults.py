"""Which brokers are avoided, and for how long: the table, and any order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.sending.latency_faults import DETECT_AGAIN_MS, LatencyFaults, not_available_ms

NAMES = "abc"
events = st.lists(
    st.tuples(
        st.sampled_from(["answered", "lost", "refused", "detected", "forget"]),
        st.sampled_from(NAMES),
        st.sampled_from([0, 49, 550, 1799, 1800, 4999, 5000, 15000]),  # latency
        st.integers(0, 12_000),  # time since the event before
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("latency_ms", "duration_ms"),
    [
        (0, 0),
        (49.9, 0),
        (50, 0),
        (549, 0),
        (550, 2000),
        (1800, 5000),
        (2999, 5000),
        (3000, 6000),
        (5000, 10000),
        (14999, 10000),
        (15000, 30000),
        (1e9, 30000),
    ],
)
def test_the_table(latency_ms, duration_ms):
    assert not_available_ms(latency_ms) == duration_ms


@given(events, st.booleans())
def test_any_order_of_events_is_what_the_rules_say(given_events, detecting):
    """The model stores every event; a broker's state follows from the events since it was removed."""
    faults, now = LatencyFaults(detecting=detecting), 0
    until, reachable = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, True)
    for kind, name, latency, pause in given_events:
        now += pause
        if kind == "answered":
            faults.answered(name, latency, now)
            reachable[name] = True
            until[name] = max(until[name], now + not_available_ms(latency))
        elif kind in ("lost", "refused"):
            getattr(faults, kind)(name, now)
            until[name] = max(until[name], now + 10_000)
            reachable[name] = kind == "lost" and not detecting
        elif kind == "detected":
            faults.detected(name)
            reachable[name] = True
        else:
            faults.forget(name)
            until[name], reachable[name] = 0, True
        for each in NAMES:
            assert faults.is_available(each, now) is (now >= until[each])
            assert faults.is_reachable(each) is reachable[each]
            assert faults.is_available(each, until[each])


@given(events, st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_the_detector_looks_at_what_is_not_reachable_and_not_too_often(given_events, looks):
    faults, now = LatencyFaults(detecting=True), 0
    for kind, name, latency, pause in given_events:
        now += pause
        {
            "answered": lambda name=name, latency=latency, now=now: faults.answered(name, latency, now),
            "lost": lambda name=name, now=now: faults.lost(name, now),
            "refused": lambda name=name, now=now: faults.refused(name, now),
            "detected": lambda name=name: faults.detected(name),
            "forget": lambda name=name: faults.forget(name),
        }[kind]()
    last = {}
    for pause in looks:
        now += pause
        named = faults.to_detect(now)
        wanted = {name for name in NAMES if not faults.is_reachable(name)}
        assert set(named) <= wanted
        for name in named:
            assert now - last.get(name, -DETECT_AGAIN_MS) >= DETECT_AGAIN_MS
            last[name] = now
        assert {name for name in wanted if now - last.get(name, now) >= DETECT_AGAIN_MS} == set()
        assert wanted <= set(last)
