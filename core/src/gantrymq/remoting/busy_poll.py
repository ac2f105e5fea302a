"""Busy polling of the event loop for a peer that sends one request, or one record of a copied log, after the other.

Waking an idle processor takes longer than serving a small request, in particular in a virtual machine. If requests come
from one connection, one at a time and in quick succession, and are answered at once, the event loop therefore polls
without blocking for a short time after each request. Timers and other connections are served as usual. Pipelined
requests and several active peers keep the loop busy anyway, and a consumer processes pulled messages before its next
pull, so polling is not used for them. The one-way decision of a transaction is not answered, but its producer sends the
next half message together with it, so it counts as a request in turn, also in one read with that, before or after it:
Java's client sends the two from different threads.

A credit counts whether polling pays off: a request that arrives during polling adds to it, a poll without a request
subtracts. The loop yields the processor between polls, in case the peer waits for the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from gantrymq.model.last_peer import LastPeer
from gantrymq.remoting.codes import FLAG_ONEWAY, RequestCode
from gantrymq.remoting.command import Command
from gantrymq.world import World

MAX_GAP_S: Final = 0.001  # between the end of one request and the next; a longer gap restarts the count
MIN_GAP_S: Final = 0.00001  # the same; a shorter gap shows no gain, as the loop did not have to wait
REQUESTS_TO_START: Final = 8  # consecutive requests before polling starts
MISS_COST: Final = 10  # of a poll without a request; a request in time adds 1
START_CREDIT: Final = 4 * MISS_COST  # credit at the start
_MAX_CREDIT: Final = 2 * START_CREDIT
_PULLS: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
REQUESTS_TO_RETRY: Final = 256  # consecutive requests before the next attempt, after the credit is used up


class BusyPoll:
    """Busy polling for one server. Not thread-safe."""

    def __init__(self, world: World, window_s: float) -> None:
        """Poll for up to *window_s*, at most `MAX_GAP_S`, after a request.

        With fewer than two processors polling is off, as the peer may need the only one.
        """
        self._clock = world.clock
        self._give_way = world.yield_processor
        self._window_s = min(window_s, MAX_GAP_S) if world.processors() >= 2 else 0.0
        self._last = LastPeer()  # that sent a request
        self._ended_s = 0.0  # when its request was served
        self._in_row = 0  # consecutive requests of that peer
        self._needed = REQUESTS_TO_START
        self._credit = START_CREDIT
        self._until_s = 0.0
        self.awake = False

    def served(
        self, peer: object, requests: Sequence[Command], began_s: float, ended_s: float, *, answered: bool
    ) -> None:
        """Note that *requests*, all of one read from *peer*, were served; *answered* if a response was written."""
        first, last = requests[0], requests[-1]
        if len(requests) == 1:
            if not answered and last.code != RequestCode.END_TRANSACTION:  # idle consumers: end the row of any peer
                self._ended_s, self._in_row, self._until_s = ended_s, 0, 0.0
                return
            alone = (answered and last.code not in _PULLS) or _is_decision(last)
        elif len(requests) == 2 and _is_decision(first) is not _is_decision(last):
            alone = answered and first.code not in _PULLS and last.code not in _PULLS
        else:
            alone = False
        self.happened(peer, began_s, ended_s, alone=alone)

    def happened(self, peer: object, began_s: float, ended_s: float, *, alone: bool) -> None:
        """Note what *peer* sent; *alone* if it probably waits until it has an answer."""
        waited_s = began_s - self._ended_s
        near = self._last.is_repeat(peer) and waited_s < MAX_GAP_S and alone
        self._ended_s = ended_s
        if not near:
            self._in_row = 0
            self._until_s = 0.0
            return
        self._in_row += 1
        self._until_s = ended_s + self._window_s
        if self.awake:
            if waited_s > MIN_GAP_S:
                self._credit = min(self._credit + 1, _MAX_CREDIT)
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


def _is_decision(asked: Command) -> bool:
    return asked.code == RequestCode.END_TRANSACTION and asked.flag & FLAG_ONEWAY != 0
