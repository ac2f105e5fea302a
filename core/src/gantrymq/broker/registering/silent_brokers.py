"""Other brokers that do not answer any more, although name servers still have them.

A name server removes a broker at once if its connection closes, but a frozen or unreachable one only after 120 s, and
some SDKs do not start while a single address of a route does not answer. So the brokers of routes that clients asked
for are asked for an answer every few seconds; any answer will do. One that has never answered this broker may be
reachable for clients all the same, so it is not silent. A broker whose routes no client asks for asks nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import attrs

from gantrymq.errors import ClientError
from gantrymq.model.names import DEFAULT_TOPIC
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.world import Clock

log = logging.getLogger(__name__)

FAILURES: Final = 3  # in a row; one alone may be a stall of this process
PERIOD_S: Final = 3.3  # a broker is silent after 10 s
WATCHED_S: Final = 600.0  # since a client asked for a route with the broker


@attrs.define
class _Watched:
    used: float  # monotonic time
    has_answered: bool = False
    failures: int = 0  # in a row, after an answer


class SilentBrokers:
    """Asks the brokers that are in use."""

    def __init__(self, client: RemotingClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._watched: dict[str, _Watched] = {}  # by address
        self._task: asyncio.Task[None] | None = None

    def is_silent(self, address: str) -> bool:
        """Return whether the broker at *address* has not answered for 10 s, and watch it from now on."""
        watched = self._watched.setdefault(address, _Watched(0.0))
        watched.used = self._clock.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return watched.failures >= FAILURES

    async def stop(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._watched:
            asked = [self._ask(address, each) for address, each in self._watched.items()]
            await asyncio.gather(self._clock.sleep(PERIOD_S), *asked)
            oldest = self._clock.monotonic() - WATCHED_S
            self._watched = {address: each for address, each in self._watched.items() if each.used >= oldest}

    async def _ask(self, address: str, watched: _Watched) -> None:
        question = request(RequestCode.GET_MAX_OFFSET, {"topic": DEFAULT_TOPIC, "queueId": "0"})
        try:
            await self._client.call(address, question, timeout_s=PERIOD_S)
        except ClientError as error:
            watched.failures += watched.has_answered
            if watched.failures == FAILURES:
                log.warning("broker %s has not answered for 10 s and is left out of routes: %s", address, error)
            return
        if watched.failures >= FAILURES:
            log.warning("broker %s answers again and is back in routes", address)
        watched.has_answered, watched.failures = True, 0
