"""Wait for a condition on the real clock, with a deadline. Only this module may sleep to wait in a test."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

POLL_S = 0.05
DEADLINE_S = 60.0
T = TypeVar("T")


def wait_until(look: Callable[[], T], what: str, deadline_s: float = DEADLINE_S, detail: Callable[[], str] = str) -> T:
    """Return the first true value of *look*.

    Args:
        look: called every 50 ms.
        what: the condition, for the message.
        deadline_s: seconds from now.
        detail: called when the deadline passes; its text is added to the message.
    Raises:
        TimeoutError: no true value before the deadline.
    """
    end = time.monotonic() + deadline_s
    while True:
        if found := look():
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {deadline_s:g} s. {detail()}")
        time.sleep(POLL_S)


async def until(
    look: Callable[[], T | Awaitable[T]],
    what: str,
    deadline_s: float = DEADLINE_S,
    detail: Callable[[], str] = str,
    poll_s: float = POLL_S,
) -> T:
    """Return the first true value of *look*, a function or coroutine function, while other tasks run.

    Args:
        look: called every *poll_s* seconds.
        what: the condition, for the message.
        deadline_s: seconds from now on the clock of the event loop.
        detail: called when the deadline passes; its text is added to the message.
        poll_s: seconds between two calls.
    Raises:
        TimeoutError: no true value before the deadline.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        found = look()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if loop.time() > end:
            raise TimeoutError(f"no {what} within {deadline_s:g} s. {detail()}")
        await asyncio.sleep(poll_s)
