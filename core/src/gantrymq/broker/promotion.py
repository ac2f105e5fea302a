"""Committed offsets of a broker that becomes the master: none is beyond the end of its queue.

Its tables may be newer than its copy of the log (RocketMQ #4771), and groups would skip the first new messages. Offsets
are compared when everything is visible that the log had at the promotion: before that, queues end too early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gantrymq.broker.roles import Roles
from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.interfaces import RawLog, RawLogWriter

log = logging.getLogger(__name__)


class PromotedOffsets:
    """Clamps the offsets in each new epoch of a master."""

    def __init__(
        self, roles: Roles, pipeline: Pipeline, raw_log: RawLog | None, clamp: Callable[[], Awaitable[None]]
    ) -> None:
        """*clamp* compares all offsets with the ends of the queues."""
        self._roles, self._pipeline, self._log, self._clamp = roles, pipeline, raw_log, clamp
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Clamp now; if a limit of visibility is below the end of the log, as soon as it has passed that."""
        if not self._roles.epoch or self._log is None:
            return
        if self._log.visibility_limit is None:
            await self._clamp_published()
        else:
            self._task = asyncio.ensure_future(self._clamp_visible(self._log, self._log.log_range().max_offset))

    async def stop(self) -> None:
        """Wait no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _clamp_visible(self, raw_log: RawLogWriter, end: int) -> None:
        moved = asyncio.Event()
        cancel = raw_log.on_limit_moved(moved.set)
        try:
            while (limit := raw_log.visibility_limit) is not None and limit < end:
                await moved.wait()
                moved.clear()
        finally:
            cancel()
        await self._clamp_published()

    async def _clamp_published(self) -> None:
        if await self._pipeline.all_published():
            await self._clamp()
        else:
            log.warning("committed offsets are not compared with the log: its end is not published yet")
