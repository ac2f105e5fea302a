"""Waiting for the effects of other tasks, without a clock."""

import asyncio


async def until(condition):
    """Let the event loop turn until *condition* holds."""
    for _ in range(1_000_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come about")
