"""Callers that wait for log offsets, in the order of the log; what the gates of fixed and of elected roles share."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from gantrymq.errors import Unconfirmed

__all__ = ["Answer", "OffsetGate"]

Answer = Callable[[Exception | None], object]


class OffsetGate:
    """A gate (`gantrymq.interfaces.Gate`) that passes what is before a log offset."""

    late_code = Unconfirmed.FLUSH_SLAVE_TIMEOUT

    def __init__(self) -> None:
        self.late_s: float | None = None
        self._waiting: list[tuple[int, int, float, Answer]] = []  # a heap: offset, order of the call, time limit
        self._calls = count()

    @abstractmethod
    def ask(self, log_offset: int, answer: Answer) -> None:
        """Call *answer* once, now or later; see `gantrymq.interfaces.Gate`."""

    async def passed(self, log_offset: int) -> None:
        """Wait for the answer of `ask`, and raise it if it is an error."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.ask(log_offset, answer)
        await future

    def _wait(self, log_offset: int, answer: Answer, until: float = float("inf")) -> None:
        heappush(self._waiting, (log_offset, next(self._calls), until, answer))

    def _pass(self, log_offset: int) -> None:
        """Let pass what waits for *log_offset* or less."""
        while self._waiting and self._waiting[0][0] <= log_offset:
            heappop(self._waiting)[-1](None)

    def _fail(self, error: Callable[[], Exception], now: float = float("inf")) -> None:
        """End the waits whose time is up at *now* with an error."""
        ended = [each for each in self._waiting if each[2] <= now]
        self._waiting = [each for each in self._waiting if each[2] > now]
        heapify(self._waiting)
        for *_, answer in ended:
            answer(error())
