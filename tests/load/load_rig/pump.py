"""A closed loop: so many requests under way, the next one always on the connection whose turn it is."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from load_rig.connection import Answer, Connection
from load_rig.requests import Request


class Pump:
    """Keeps *window* requests under way, spread evenly over *connections*.

    Attributes:
        answers: so many came, warm-up included.
        refused: answers by code that is not 0.
        times: seconds each answer took, since `keep_times` was set.
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
        self._left: int | None = 0  # requests still to be sent; None: no end
        self._idle = asyncio.Event()

    def start(self) -> None:
        """Begin; `stop` ends it."""
        self._left = None
        self._fill()

    async def stop(self) -> None:
        """Send nothing more and wait for the answers that are missing."""
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
