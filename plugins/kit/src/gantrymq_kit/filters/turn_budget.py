"""How long filters ran in this turn of the event loop, and which one runs now.

All custom filters of a broker share one budget a turn. Once it is spent, reads end before the next message, with
`FilterBudgetExceeded`. A pull that has found messages by then is answered; any other is served in the next turn,
before later ones.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.errors import FilterBudgetExceeded

__all__ = ["TurnBudget"]


class TurnBudget:
    """One for a broker. `running` and `began` are read by another thread, nothing else is."""

    __slots__ = ("_at_next_turn", "_budget_s", "_fresh", "_spent_s", "began", "running")

    def __init__(self, budget_s: float, at_next_turn: Callable[[Callable[[], None]], object]) -> None:
        """*at_next_turn* calls its argument before anything else of the loop's next turn."""
        self._budget_s = budget_s
        self._at_next_turn = at_next_turn
        self._fresh = True
        self._spent_s = 0.0
        self.running: str | None = None  # the filter that is in a call
        self.began = 0.0  # monotonic s

    def begin(self, what: str, now: float) -> None:
        """A call of the filter *what* begins.

        Raises:
            FilterBudgetExceeded: not in this turn.
        """
        if self._fresh:
            self._fresh = False
            self._at_next_turn(self._renew)
        elif self._spent_s >= self._budget_s:
            raise FilterBudgetExceeded(f"{what} has had its share of this turn")
        self.began, self.running = now, what

    def watch(self, what: str, now: float) -> None:
        """A call of *what* begins that cannot wait for another turn."""
        self.began, self.running = now, what

    def end(self, now: float) -> float:
        """The call is over; the seconds that it took."""
        took = now - self.began
        self.running = None
        self._spent_s += took
        return took

    def _renew(self) -> None:
        self._fresh, self._spent_s = True, 0.0
