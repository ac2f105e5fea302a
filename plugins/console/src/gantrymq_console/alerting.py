"""Alerts by webhook: checks the cluster every 10 s, also without visitors, and sends alerts that began or ended.

The body is JSON::

    {"version": 1, "name_servers": "10.0.0.1:9876", "sent_ms": 1795770000000, "alerts": [
        {"id": "group_late/billing", "kind": "group_late", "subject": "billing", "status": "firing",
         "summary": "Group billing is 420 s behind: 17 messages wait.", "value": 420.0,
         "since_ms": 1795769580000, "resolved_ms": null}]}
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import attrs

from gantrymq_console.data.attention import Alerts, Thresholds, attention
from gantrymq_console.web.console import Console
from gantrymq_console.web.webhook import Webhook

__all__ = ["Alerting"]

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0


class Alerting:
    """Watches for alerts from `start` to `close`."""

    def __init__(self, console: Console, webhook: Webhook, thresholds: Thresholds) -> None:
        self._console = console
        self._webhook = webhook
        self._alerts = Alerts(thresholds)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._console.history.begin()
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
        found = await attention(console.cluster, console.history)
        told = self._alerts.update(found.value, dict(console.history.growing()), console.world.clock.now_ms())
        if told:
            alerts = [attrs.asdict(each) for each in told]
            now_ms = console.world.clock.now_ms()
            names = console.name_servers
            self._webhook.send({"version": 1, "name_servers": names, "sent_ms": now_ms, "alerts": alerts})

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("the look for alerts failed")
            await self._console.world.clock.sleep(EVERY_S)
