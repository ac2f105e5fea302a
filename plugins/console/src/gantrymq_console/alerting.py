"""Alerts by webhook: checks the cluster every 10 s, also without visitors, and sends alerts that began or ended.

The body is JSON::

    {"version": 1, "name_servers": "10.0.0.1:9876", "sent_ms": 1795770000000, "alerts": [
        {"id": "group_late/billing", "kind": "group_late", "subject": "billing", "status": "firing",
         "summary": "Group billing is 420 s behind: 17 messages wait.", "value": 420.0,
         "since_ms": 1795769580000, "resolved_ms": null}]}

It is sent with POST to the one address that the operator gave. Bodies wait in a short queue. A body that cannot be
delivered is sent again after 1, 2, 4 ... 60 s, for an hour; the console never waits for it. Redirections are not
followed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs

from gantrymq.plugin.world import World
from gantrymq_console.data.attention import Alerts, Thresholds, attention, new_dead_letters
from gantrymq_console.history.reading import HistorySource
from gantrymq_console.http_client import REDIRECTED, RequestFailed, checked_address, post
from gantrymq_console.web.console import Console

log = logging.getLogger(__name__)

_WAITING: Final = 100  # bodies; the oldest are dropped
_TIMEOUT_S: Final = 10.0  # of one attempt
_LONGEST_PAUSE_S: Final = 60.0
GIVEN_UP_S: Final = 3600.0
EVERY_S: Final = 10.0


class Webhook:
    """Sends bodies one after the other."""

    def __init__(self, world: World, address: str) -> None:
        """Create it for an address of http or https. Raises ConfigError: the address cannot be used."""
        self._world = world
        self._to = checked_address("--webhook", address, "https://alerts.example/gantrymq", "its path or query")
        self._waiting: deque[bytes] = deque(maxlen=_WAITING)
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.delivered = 0
        self.failed = 0  # attempts

    def send(self, body: Mapping[str, Any]) -> None:
        """Send *body* as JSON, later."""
        self._waiting.append(json.dumps(body).encode())
        self._some.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; bodies that wait are not sent. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        clock = self._world.clock
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            body = self._waiting.popleft()
            pause, begun = 1.0, clock.monotonic()
            while (problem := await self._attempt(body)) is not None:
                self.failed += 1
                if clock.monotonic() - begun > GIVEN_UP_S:
                    log.error("an alert for the webhook at %s was given up: %s", self._to.hostname, problem)
                    break
                level = logging.WARNING if pause == 1.0 else logging.DEBUG
                log.log(level, "the webhook at %s failed: %s; trying again", self._to.hostname, problem)
                await clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self.delivered += 1

    async def _attempt(self, body: bytes) -> str | None:
        """Return why *body* was not delivered, None if it was."""
        target = (self._to.path or "/") + (f"?{self._to.query}" if self._to.query else "")
        headers = [("Content-Type", "application/json")]
        try:
            status = (await post(self._world, self._to, target, headers, body, _TIMEOUT_S)).status
        except RequestFailed as problem:
            return str(problem)
        return None if 200 <= status < 300 else f"status {status}{REDIRECTED if 300 <= status < 400 else ''}"


class Alerting:
    """Watches for alerts from `start` to `close`."""

    def __init__(self, console: Console, webhook: Webhook, thresholds: Thresholds, past: HistorySource) -> None:
        """Create it; new dead letters are those of *past*, which also a console without a history has."""
        self._console = console
        self._past = past
        self._webhook = webhook
        self._alerts = Alerts(thresholds)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._webhook.close()

    async def look(self) -> None:
        """Check the cluster once and send the alerts that changed."""
        console = self._console
        now_ms = console.world.clock.now_ms()
        found = await attention(console.cluster, console.past)
        letters = await new_dead_letters(console.cluster, self._past)
        told = self._alerts.update(found.value, None if letters is None else letters.counts, now_ms)
        if told:
            alerts = [attrs.asdict(each) for each in told]
            names = console.name_servers
            self._webhook.send({"version": 1, "name_servers": names, "sent_ms": now_ms, "alerts": alerts})

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("the look for alerts failed")
            await self._console.world.clock.sleep(EVERY_S)
