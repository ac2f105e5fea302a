"""Timeouts on the clock of a world."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

from gantrymq.world import Clock

__all__ = ["within"]

T = TypeVar("T")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of *work*, or None if it was cancelled after *seconds*."""
    task = asyncio.ensure_future(work)
    timer = clock.call_later(max(0.0, seconds), task.cancel) if math.isfinite(seconds) else None
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        if timer is not None:
            timer.cancel()
    return None if task.cancelled() else task.result()
