"""A closed loop: a fixed number of requests in flight, each new one on the next connection in turn."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from load_rig.connection import Answer, Connection
from load_rig.requests import Request


class Pump:
    """Keeps *window* requests in flight, spread evenly over *connections*.

    Attributes:
        answers: number of answers, including warm-up.
        refused: answers by code, except code 0.
        times: seconds that each answer took, since `keep_times` was set.
    """

    def __init__(self, connections: Sequence[Connection], next_request: Callable[[], Request], window: int) -> None:
        self.answers = 0
        self.refused: Counter[int] = Counter()
        self.times: list[float] = []
        self.keep_times = False
        self._connections = connections
        self._next_request = next_request
        self._window = window
        self._turn = 0
        self._under_way = 0
        self._left: int | None = 0  # requests left to send; None: no limit
        self._idle = asyncio.Event()

    def start(self) -> None:
        """Start; `stop` ends it."""
        self._left = None
        self._fill()

    async def stop(self) -> None:
        """Send no more requests and wait for the missing answers."""
        self._left = 0
        if self._under_way:
            await self._idle.wait()

    async def send(self, count: int) -> None:
        """Send *count* requests and wait for all their answers."""
        self._left = count
        self._fill()
        if self._under_way:
            await self._idle.wait()

    def _fill(self) -> None:
        self._idle.clear()
        for _ in range(self._window):
            self._ask()

    def _ask(self) -> None:
        if self._left is not None:
            if self._left == 0:
                return
            self._left -= 1
        self._turn = (self._turn + 1) % len(self._connections)
        self._under_way += 1
        self._connections[self._turn].ask(self._next_request(), self._done)

    def _done(self, connection: Connection, answer: Answer) -> None:
        self._under_way -= 1
        self.answers += 1
        if answer.code:
            self.refused[answer.code] += 1
        if self.keep_times:
            self.times.append(answer.took_s)
        self._ask()
        if not self._under_way:
            self._idle.set()
