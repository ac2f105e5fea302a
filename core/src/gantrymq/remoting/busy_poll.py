"""Staying awake while one peer asks one thing after the other.

A processor that went to sleep for lack of work takes longer to wake, in a virtual machine above all, than it takes to
serve a small request. So where requests come from one connection, one at a time and close together, and are answered
at once, the event loop asks for the next without waiting, for a moment after each; timers and other connections are
served as ever. A peer that sends several together, and several peers, keep the loop busy enough by themselves; and
whoever pulled messages has to work on them before it asks again.

Whether that pays is counted: each request that comes while the loop is awake is a gain, each wait in vain a loss. Where
the peer waits for this very processor, it gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from gantrymq.model.last_peer import LastPeer
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.world import World

__all__ = ["BusyPoll"]

MAX_GAP_S: Final = 0.001  # from the end of one request to the next: further apart they begin anew
MIN_GAP_S: Final = 0.00001  # the same: closer together nobody had to wait
REQUESTS_TO_START: Final = 8  # requests before the loop stays awake
MISS_COST: Final = 10  # what a wait in vain costs, where a request that comes in time gains 1
START_CREDIT: Final = 4 * MISS_COST  # what may be lost at first
MAX_CREDIT: Final = 2 * START_CREDIT
PULLS: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
REQUESTS_TO_RETRY: Final = 256  # requests in a row before the next try, once the stake is lost


class BusyPoll:
    """Keeps the loop of one server awake. Belongs to the event loop."""

    def __init__(self, world: World, window_s: float) -> None:
        """Stay awake for up to *window_s*, at most `MAX_GAP_S`, after a request; never where this process has less than
        two processors, as the peer may need the only one.
        """
        self._clock = world.clock
        self._give_way = world.yield_processor
        self._window_s = min(window_s, MAX_GAP_S) if world.processors() >= 2 else 0.0
        self._last = LastPeer()  # that asked
        self._ended_s = 0.0  # when its request had been served
        self._in_row = 0  # requests of that peer alone
        self._needed = REQUESTS_TO_START
        self._credit = START_CREDIT
        self._until_s = 0.0
        self.awake = False

    def served(
        self, peer: object, requests: Sequence[Command], began_s: float, ended_s: float, *, answered: bool
    ) -> None:
        """Note that these *requests* of one read of *peer* were served, *answered* if an answer left."""
        waited_s = began_s - self._ended_s
        near = self._last.is_repeat(peer) and waited_s < MAX_GAP_S and answered
        self._ended_s = ended_s
        if not near or len(requests) != 1 or requests[0].code in PULLS:
            self._in_row = 0
            self._until_s = 0.0
            return
        self._in_row += 1
        self._until_s = ended_s + self._window_s
        if self.awake:
            if waited_s > MIN_GAP_S:
                self._credit = min(self._credit + 1, MAX_CREDIT)
        elif self._in_row >= self._needed and self._window_s:
            self.awake = True
            self._needed = REQUESTS_TO_START
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._give_way()
        if self._clock.monotonic() < self._until_s:
            asyncio.get_running_loop().call_soon(self._turn)
            return
        self.awake = False
        if self._until_s:
            self._credit -= MISS_COST
        if self._credit <= 0:
            self._credit = START_CREDIT
            self._needed = REQUESTS_TO_RETRY
            self._in_row = 0
