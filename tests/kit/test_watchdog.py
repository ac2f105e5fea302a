"""A filter that is stuck in one call is named during the call."""

import threading

from gantrymq_kit.filters.turn_budget import TurnBudget
from gantrymq_kit.filters.watchdog import Watchdog

NAME = "filter LOOP of group G on topic T"


def watched(stuck_s=1.0, monotonic=lambda: 0.0, tell=lambda sentence: None):
    turn = TurnBudget(1000.0, lambda callback: None)
    return turn, Watchdog(turn, stuck_s, monotonic, tell)


def test_a_call_is_named_when_it_is_stuck_and_each_time_that_its_length_doubles():
    turn, watchdog = watched()
    assert watchdog.check(50.0) is None
    turn.begin(NAME, 100.0)
    said = [(at, watchdog.check(at)) for at in (100.5, 101.0, 101.5, 102.0, 103.0, 104.0)]
    assert [at for at, sentence in said if sentence] == [101.0, 102.0, 104.0]
    assert said[1][1].startswith(f"{NAME} has been in one call for 1.0 s (")
    assert said[1][1].endswith("the broker is blocked meanwhile")
    assert "watchdog.py:" in said[1][1]  # here the watched thread runs the check itself
    assert watchdog.named == 1
    turn.end(104.0)
    assert watchdog.check(120.0) is None
    turn.begin(NAME, 200.0)
    assert watchdog.check(201.0)
    assert watchdog.named == 2


def test_the_watchdog_reports_while_the_watched_thread_is_in_the_call():
    said, heard = [], threading.Event()
    times = iter(range(1000))

    def tell(sentence):
        said.append(sentence)
        heard.set()

    turn, watchdog = watched(0.01, lambda: float(next(times)), tell)
    watchdog.start()
    watchdog.start()
    turn.begin(NAME, -1.0)
    assert heard.wait(30)  # the call of the filter, which ends once it was named
    turn.end(0.0)
    watchdog.stop()
    assert said[0].startswith(NAME)
    assert "test_watchdog.py" in said[0] or "threading.py" in said[0]
