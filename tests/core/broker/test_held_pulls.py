"""Held pulls: events that wake them, and events that do not."""

from __future__ import annotations

import math

import pytest
from fake_store import FakeStore, entry

from gantrymq.broker.consuming.held_pulls import MAX_HOLD_S, MOST_OF_DEADLINE, HeldPulls
from gantrymq.errors import FilterFailed
from gantrymq.model.queue import Queue

QUEUE = Queue("T", 0)


class Open:
    """An open connection."""

    closed = False


class Match:
    """Accepts one tags code; with *message*, the record is needed as well."""

    def __init__(self, code=None, message=None):
        self.accepts_all = code is None
        self.needs_message = message is not None
        self._code, self._message = code, message

    def match_entry(self, tags_code, ext):
        return tags_code == self._code

    def match_message(self, record):
        return self._message(record)


class Bench:
    def __init__(self, clock, **limits):
        self.clock = clock
        self.store = FakeStore()
        self.held = HeldPulls(self.store, clock, **limits)
        self.woken = []

    def hold(self, name, *, queue=QUEUE, wanted=0, match=None, timeout_s=15, connection=None):
        return self.held.add(queue, wanted, match or Match(), timeout_s, connection, lambda: self.woken.append(name))


@pytest.fixture
def bench(clock):
    return Bench(clock)


def test_an_arrival_wakes_the_holds_of_its_queue_alone(bench):
    bench.hold("here")
    bench.hold("other queue", queue=Queue("T", 1))
    bench.hold("other topic", queue=Queue("U", 0))
    bench.held.arrived([entry()])
    assert bench.woken == ["here"]
    assert bench.held.count == 2


def test_an_arrival_below_the_wanted_offset_wakes_nobody(bench):
    bench.hold("five", wanted=5)
    bench.held.arrived([entry(queue_offset=4)])
    assert bench.woken == []
    bench.held.arrived([entry(queue_offset=5)])
    assert bench.woken == ["five"]


def test_an_arrival_wakes_only_holds_whose_tag_it_has(bench):
    bench.hold("seven", match=Match(7))
    bench.hold("eight", match=Match(8))
    bench.held.arrived([entry(tags_code=9), entry(queue_offset=1, tags_code=8)])
    assert bench.woken == ["eight"]


def test_a_filter_that_needs_the_message_is_asked_with_it(bench):
    bench.store.records = {100: "red", 200: "blue"}
    bench.hold("blue", match=Match(0, lambda record: record == "blue"))
    bench.held.arrived([entry(log_offset=100)])
    assert bench.woken == []
    bench.held.arrived([entry(log_offset=200)])
    assert bench.woken == ["blue"]


def test_a_filter_that_fails_wakes_its_own_hold_to_be_told_and_harms_no_other(bench):
    def fail(record):
        raise FilterFailed("KeyError: 1")

    bench.hold("failing", match=Match(0, fail))
    bench.hold("other")
    bench.held.arrived([entry()])
    assert bench.woken == ["failing", "other"]


def test_several_arrivals_wake_a_hold_once(bench):
    bench.hold("a")
    bench.held.arrived([entry(queue_offset=number) for number in range(5)])
    bench.clock.advance(60)
    assert bench.woken == ["a"]


def test_a_hold_ends_at_its_own_deadline(bench):
    bench.hold("short", timeout_s=1)
    bench.hold("long", timeout_s=15)
    bench.clock.advance(0.999)
    assert bench.woken == []
    bench.clock.advance(0.001)
    assert bench.woken == ["short"]
    bench.clock.advance(14)
    assert bench.woken == ["short", "long"]
    assert bench.held.count == 0


def test_holds_of_a_lost_connection_are_forgotten_not_woken(bench):
    lost, other = Open(), Open()
    bench.hold("lost", connection=lost)
    bench.hold("lost too", connection=lost, queue=Queue("U", 0))
    bench.hold("other", connection=other)
    bench.held.connection_lost(lost)
    bench.held.arrived([entry(), entry("U")])
    bench.clock.advance(60)
    assert bench.woken == ["other"]
    assert bench.held.count == 0


def test_a_changed_topic_wakes_all_its_holds(bench):
    bench.hold("0")
    bench.hold("1", queue=Queue("T", 1))
    bench.hold("other", queue=Queue("TT", 0))
    bench.held.topic_changed("T")
    assert bench.woken == ["0", "1"]


def test_closing_wakes_everything(bench):
    bench.hold("a", connection=Open())
    bench.hold("b", queue=Queue("U", 3))
    bench.held.close()
    assert bench.woken == ["a", "b"]
    bench.clock.advance(60)
    assert bench.held.count == 0


def test_who_is_woken_may_hold_again_at_once(bench):
    def again():
        bench.woken.append("first")
        bench.hold("second", wanted=1)

    bench.held.add(QUEUE, 0, Match(), 15, None, again)
    bench.held.arrived([entry()])
    assert bench.woken == ["first"]
    bench.held.arrived([entry(queue_offset=1)])
    assert bench.woken == ["first", "second"]


def test_a_connection_holds_so_many_and_no_more(clock):
    bench = Bench(clock, most_of_connection=2)
    greedy, other = Open(), Open()
    assert [bench.hold("greedy", connection=greedy) for _ in range(3)] == [True, True, False]
    assert bench.hold("other", connection=other)
    bench.held.arrived([entry()])
    assert bench.woken == ["greedy", "greedy", "other"]
    assert bench.hold("again", connection=greedy)


def test_all_connections_together_hold_so_many_and_no_more(clock):
    bench = Bench(clock, most=3)
    assert [bench.hold(name, connection=Open()) for name in "abcd"] == [True, True, True, False]
    bench.clock.advance(15)
    assert bench.woken == ["a", "b", "c"]
    assert bench.hold("e")


def test_nothing_is_held_longer_than_ten_minutes(bench):
    bench.hold("for ever", timeout_s=2**63 / 1000)
    bench.clock.advance(MAX_HOLD_S - 0.001)
    assert bench.woken == []
    bench.clock.advance(0.001)
    assert bench.woken == ["for ever"]


def test_an_arrival_wakes_the_holds_of_the_light_queues_that_list_it(clock):
    held = HeldPulls(FakeStore(), clock, light=True)
    woken = []
    for name, wanted in (("%LMQ%a", 7), ("%LMQ%a", 8), ("%LMQ%b", 0), ("%LMQ%c", 0)):
        held.hold(Queue(name, 0), wanted, Match(), 15, None, lambda place=(name, wanted): woken.append(place))
    properties = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x017,0\x02"
    held.arrived([entry(), entry()._replace(properties=properties)])
    assert woken == [("%LMQ%a", 7), ("%LMQ%b", 0)]


def test_an_untagged_inner_batch_wakes_holds_with_any_tag(bench):
    bench.hold("tagged", match=Match(5))
    bench.held.arrived([entry()])
    assert bench.woken == []
    bench.held.arrived([entry()._replace(sys_flag=0xC0)])
    assert bench.woken == ["tagged"]


def test_who_waits_awaited_is_told_that_the_connection_closed(bench):
    lost, told = Open(), []
    bench.held.add(QUEUE, 0, Match(), 15, lost, lambda: told.append("woken"), lambda: told.append("lost"))
    bench.held.connection_lost(lost)
    bench.clock.advance(60)
    assert told == ["lost"]


def test_nothing_is_held_for_a_closed_connection_or_once_the_broker_stops(bench):
    closed = Open()
    closed.closed = True
    assert not bench.hold("closed", connection=closed)
    bench.held.close()
    assert not bench.hold("late")
    assert bench.held.count == 0


def test_long_holds_end_together_on_a_step_and_never_early(bench):
    for number in range(4):
        bench.hold(number, timeout_s=15)
        bench.clock.advance(0.2)
    left = math.ceil(bench.clock.monotonic() - 0.8 + 15) - bench.clock.monotonic()
    bench.clock.advance(left - 0.001)
    early = len(bench.woken)
    bench.clock.advance(1.001)
    assert (early, bench.woken) == (0, [0, 1, 2, 3])
    assert bench.held.count == 0


def test_a_hold_that_was_woken_leaves_the_others_of_its_deadline(bench):
    bench.hold("here")
    bench.hold("other queue", queue=Queue("T", 1))
    bench.held.arrived([entry()])
    bench.clock.advance(17)
    assert bench.woken == ["here", "other queue"]


def test_a_deadline_takes_a_limited_number_of_holds_and_others_end_exactly(bench):
    bench.clock.advance(math.floor(bench.clock.monotonic()) + 1.5 - bench.clock.monotonic())
    for number in range(MOST_OF_DEADLINE + 1):
        bench.hold(number, timeout_s=15)
    bench.clock.advance(15)
    assert bench.woken == [MOST_OF_DEADLINE]
    bench.clock.advance(0.5)
    assert len(bench.woken) == MOST_OF_DEADLINE + 1


def test_a_hold_that_fails_at_its_deadline_is_logged_and_the_others_end(bench, caplog):
    def fail():
        raise RuntimeError("no answer")

    bench.held.add(QUEUE, 0, Match(), 15, None, fail)
    bench.hold("other")
    bench.clock.advance(17)
    assert bench.woken == ["other"]
    assert "a pull of T/0 that waited failed" in caplog.text
