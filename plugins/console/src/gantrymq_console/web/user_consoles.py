"""Consoles of users who log in with an account of the cluster: each has a client that signs with the account.

Answers, views and samples of one user are never shown to another one, so that each sees what the cluster permits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

import attrs
from starlette.exceptions import HTTPException

from gantrymq.client import Client, Credentials
from gantrymq.plugin.world import Timer
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.history import keeping
from gantrymq_console.history.reading import HistorySource, NoHistory
from gantrymq_console.web.console import Console, Refreshes

MOST: Final = 64  # clients
UNUSED_S: Final = 600.0  # after which a client is closed


@attrs.define(eq=False)
class UserConsole:
    """The console of one user, with a client of its own."""

    console: Console
    credentials: Credentials
    used_s: float  # monotonic time of the end of the last request
    uses: int = 0  # requests and downloads in progress
    is_ended: bool = False  # no session has the credentials any more

    @property
    def is_used(self) -> bool:
        """Whether a request or a job uses the client."""
        return self.uses > 0 or self.console.jobs.is_running(self.credentials.access_key)


class UserConsoles:
    """The consoles of users, those used last at the end; at most `MOST`."""

    def __init__(self, base: Console) -> None:
        """Create it; *base* has everything but the clients."""
        self._base = base
        self._clock = base.world.clock
        self._open: OrderedDict[Credentials, UserConsole] = OrderedDict()
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def use(self, credentials: Credentials) -> UserConsole:
        """Return the console of a user, which stays open until `release`.

        Raises:
            HTTPException: 503, all clients are in use.
            ClientError: the client cannot be started.
        """
        async with self._opening:
            found = self._open.get(credentials)
            if found is None:
                if len(self._open) >= MOST:
                    self._close_oldest()
                found = self._open[credentials] = await self._started(credentials)
            found.uses += 1
            found.is_ended = False
            self._open.move_to_end(credentials)
        if self._timer is None:
            self._timer = self._clock.call_later(UNUSED_S, self._close_unused)
        return found

    def release(self, used: UserConsole) -> None:
        """End a use."""
        used.uses -= 1
        used.used_s = self._clock.monotonic()
        if used.is_ended and not used.is_used:
            self._close(used)

    def end(self, credentials: Credentials) -> None:
        """Close the console of a user who has no session any more, after its requests and jobs."""
        found = self._open.get(credentials)
        if found is not None:
            found.is_ended = True
            if not found.is_used:
                self._close(found)

    async def close(self) -> None:
        """Close all. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        for each in list(self._open.values()):
            self._close(each)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _started(self, credentials: Credentials) -> UserConsole:
        base = self._base
        client = Client(base.name_servers, world=base.world, credentials=credentials)
        await client.start()
        cluster = Cluster(client, base.world)
        past: HistorySource = base.past
        if not isinstance(past, NoHistory):
            past = keeping.History(cluster, keeping.HistoryOptions(hours=1, days=1), always=False)
        console = attrs.evolve(base, cluster=cluster, refreshes=Refreshes(base.refreshes.pace), past=past)
        return UserConsole(console, credentials, self._clock.monotonic())

    def _close_oldest(self) -> None:
        unused = next((each for each in self._open.values() if not each.is_used), None)
        if unused is None:
            raise HTTPException(503, "Too many users use this console; try again.", {"Retry-After": "5"})
        self._close(unused)

    def _close_unused(self) -> None:
        now_s = self._clock.monotonic()
        for each in list(self._open.values()):
            if not each.is_used and now_s - each.used_s >= UNUSED_S:
                self._close(each)
        times = [each.used_s for each in self._open.values() if not each.is_used]
        wait_s = max(1.0, min(times, default=now_s) + UNUSED_S - now_s)
        self._timer = self._clock.call_later(wait_s, self._close_unused) if self._open else None

    def _close(self, closed: UserConsole) -> None:
        if self._open.get(closed.credentials) is closed:
            del self._open[closed.credentials]
            task = asyncio.ensure_future(_close(closed.console))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close(console: Console) -> None:
    if isinstance(console.past, keeping.History):
        await console.past.close()
    await console.cluster.close()
    await console.cluster.client.close()
