"""A thread that logs which filter is stuck in a call, while the event loop is blocked by it.

The call is logged when it takes as long as customFilterStuckMs, and again each time that this doubles. The code
position is read from the stack of the event loop's thread.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

from gantrymq_kit.filters.turn_budget import TurnBudget

CHECKS: Final = 4  # checks within customFilterStuckMs
log = logging.getLogger(__name__)


class Watchdog:
    """Watches one `TurnBudget` from a separate thread."""

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
        self._logged: tuple[float, float] = (0.0, 0.0)  # start of the call, and time of the next log line
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.named = 0  # number of logged calls

    def start(self) -> None:
        """Start the thread. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gantrymq-filter-watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def check(self, now: float) -> str | None:
        """Return the sentence to log now, None if no call is stuck."""
        began, running = self._turn.began, self._turn.running
        if running is None or now - began < self._stuck_s:
            return None
        if self._logged[0] != began:
            self._logged = (began, began + self._stuck_s)
            self.named += 1
        if now < self._logged[1]:
            return None
        self._logged = (began, began + 2 * (now - began))
        return f"{running} has been in one call for {now - began:.1f} s{self._place()}; the broker is blocked meanwhile"

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
