"""Clients that send, pull and pause, each on its own connection and at its own pace."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

from polling import until

from load_rig.connection import Answer, Connection
from load_rig.requests import pull_request, send_request

FOUND, NOT_FOUND, RETRY, OFFSET_MOVED = 0, 19, 20, 21
SIZES = (100, 1024, 1024, 1024, 8192)
SHARE_OF_SENDS = 0.6
SHARE_OF_HELD_PULLS = 0.1
HOLD_MS = 500


class Crowd:
    """Members that send a request, wait for the answer, pause for a while and repeat.

    Sixty of a hundred requests are sends of 100 bytes to 8 KB, thirty are pulls that are answered at once, ten are
    pulls that may be held. A member reads one queue from its start, and starts again when it has read everything.

    Attributes:
        sent: acknowledged sends.
        times: response times in seconds since the last `take_times`, without the pulls that may be held.
        refused: error answers, by kind of request and code.
    """

    def __init__(self, connections: Sequence[Connection], topic: str, queues: int, think_s: float, seed: int) -> None:
        self.sent = 0
        self.times: list[float] = []
        self.refused: Counter[tuple[str, int]] = Counter()
        self._chance = random.Random(seed)
        self._connections = connections
        self._topic = topic
        self._queues = queues
        self._think_s = think_s
        self._sends = [send_request(topic, queue, b"x" * size) for queue in range(queues) for size in SIZES]
        self._positions = [0] * len(connections)
        self._running = False

    def start(self) -> None:
        """Start every member, spread over the pause time."""
        self._running = True
        for member in range(len(self._connections)):
            self._think(member)

    async def stop(self, deadline_s: float) -> None:
        """Send no more requests and wait until every request is answered, for at most *deadline_s*."""
        self._running = False
        await until(lambda: not any(each.waiting for each in self._connections), "answers", deadline_s)

    def take_times(self) -> list[float]:
        """The times since the last call, ascending."""
        times, self.times = self.times, []
        return sorted(times)

    def _think(self, member: int) -> None:
        if self._running:
            pause_s = self._think_s * self._chance.uniform(0.5, 1.5)
            asyncio.get_running_loop().call_later(pause_s, self._ask, member)

    def _ask(self, member: int) -> None:
        if not self._running:
            return
        kind = self._chance.random()
        connection = self._connections[member]
        if kind < SHARE_OF_SENDS:

            def stored(_: Connection, answer: Answer) -> None:
                self.times.append(answer.took_s)
                if answer.code:
                    self.refused["send", answer.code] += 1
                else:
                    self.sent += 1
                self._think(member)

            connection.ask(self._chance.choice(self._sends), stored)
            return
        held = kind > 1 - SHARE_OF_HELD_PULLS
        queue = member % self._queues
        position = self._positions[member]

        def pulled(_: Connection, answer: Answer) -> None:
            if not held:
                self.times.append(answer.took_s)
            if answer.code not in (FOUND, NOT_FOUND, RETRY, OFFSET_MOVED):
                self.refused["pull", answer.code] += 1
            elif answer.code == FOUND:
                self._positions[member] = answer.next_offset
            else:
                self._positions[member] = 0
            self._think(member)

        hold_ms = HOLD_MS if held else 0
        connection.ask(pull_request(self._topic, queue, position, "crowd", most=8, hold_ms=hold_ms), pulled)
