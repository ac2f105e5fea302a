"""The budget that filters share in one turn of the event loop."""

import pytest

from gantrymq.errors import FilterBudgetExceeded
from gantrymq_kit.filters.turn_budget import TurnBudget


class Loop:
    """An event loop whose turns end when the test ends them."""

    def __init__(self):
        self.due = []

    def next(self):
        due = self.due.copy()
        self.due.clear()
        for each in due:
            each()


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def turn(loop):
    return TurnBudget(0.010, loop.due.append)


def calls(turn, took=0.004, most=100):
    """The number of messages that a read passes, each of which takes *took* seconds."""
    for done in range(most):
        try:
            turn.begin("f", 0.0)
        except FilterBudgetExceeded:
            return done
        turn.end(took)
    return most


def test_a_read_ends_when_the_budget_is_spent_and_goes_on_in_the_next_turn(turn, loop):
    assert calls(turn) == 3
    assert calls(turn) == 0
    loop.next()
    assert calls(turn) == 3


def test_quick_filters_are_never_interrupted(turn, loop):
    assert calls(turn, took=0.00005) == 100
    assert len(loop.due) == 1


def test_the_running_plugin_is_known_only_during_the_call(turn):
    assert turn.running is None
    turn.begin("f", 2.0)
    assert (turn.running, turn.began) == ("f", 2.0)
    assert turn.end(2.5) == 0.5
    assert turn.running is None
