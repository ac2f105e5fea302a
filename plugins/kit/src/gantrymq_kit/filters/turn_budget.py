"""The time budget of filters in one turn of the event loop.

All custom filters of a broker share one budget per turn. Once it is used up, reads end before the next message with
`FilterBudgetExceeded`. A pull that has found messages by then is answered; any other is continued in the next turn,
before later pulls.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.errors import FilterBudgetExceeded


class TurnBudget:
    """Budget of one broker. Only `running` and `began` are read by another thread."""

    __slots__ = ("_at_next_turn", "_budget_s", "_fresh", "_spent_s", "began", "running")

    def __init__(self, budget_s: float, at_next_turn: Callable[[Callable[[], None]], object]) -> None:
        """*at_next_turn* calls its argument first in the loop's next turn."""
        self._budget_s = budget_s
        self._at_next_turn = at_next_turn
        self._fresh = True
        self._spent_s = 0.0
        self.running: str | None = None  # the filter that is in a call
        self.began = 0.0  # monotonic s

    def begin(self, what: str, now: float) -> None:
        """Begin a call of the filter *what*.

        Raises:
            FilterBudgetExceeded: the budget of this turn is used up.
        """
        if self._fresh:
            self._fresh = False
            self._at_next_turn(self._renew)
        elif self._spent_s >= self._budget_s:
            raise FilterBudgetExceeded(f"{what} has used up its budget of this turn")
        self.began, self.running = now, what

    def watch(self, what: str, now: float) -> None:
        """Begin a call of *what* that is exempt from the budget."""
        self.began, self.running = now, what

    def end(self, now: float) -> float:
        """End the call. Return its duration in seconds."""
        took = now - self.began
        self.running = None
        self._spent_s += took
        return took

    def _renew(self) -> None:
        self._fresh, self._spent_s = True, 0.0
