"""A thread that names the filter that is stuck in one call, while nobody else of the broker can say anything.

It is told once the call takes as long as customFilterStuckMs, and again each time that this doubles. The place in the
code comes from the stack of the event loop's thread.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

from gantrymq_kit.filters.turn_budget import TurnBudget

__all__ = ["Watchdog"]

CHECKS: Final = 4  # in the time after which a call is stuck
log = logging.getLogger(__name__)


class Watchdog:
    """Looks at one `TurnBudget` from a thread of its own."""

    def __init__(
        self,
        turn: TurnBudget,
        stuck_s: float,
        monotonic: Callable[[], float],
        tell: Callable[[str], object] = log.error,
    ) -> None:
        """*tell* is called in the watchdog's thread."""
        self._turn = turn
        self._stuck_s = stuck_s
        self._monotonic = monotonic
        self._tell = tell
        self._watched = threading.get_ident()  # the thread of the event loop
        self._logged: tuple[float, float] = (0.0, 0.0)  # when the call began, and when it is told again
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.named = 0  # calls

    def start(self) -> None:
        """Begin to look; once is enough."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gantrymq-filter-watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def check(self, now: float) -> str | None:
        """The sentence that is due now."""
        began, running = self._turn.began, self._turn.running
        if running is None or now - began < self._stuck_s:
            return None
        if self._logged[0] != began:
            self._logged = (began, began + self._stuck_s)
            self.named += 1
        if now < self._logged[1]:
            return None
        self._logged = (began, began + 2 * (now - began))
        return (
            f"{running} has been in one call for {now - began:.1f} s{self._place()}; the broker serves nobody meanwhile"
        )

    def _run(self) -> None:
        while not self._ended.wait(self._stuck_s / CHECKS):
            sentence = self.check(self._monotonic())
            if sentence is not None:
                self._tell(sentence)

    def _place(self) -> str:
        frame: FrameType | None = sys._current_frames().get(self._watched)
        if frame is None:
            return ""
        return f" ({frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})"
