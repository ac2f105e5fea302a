"""Wait for something with a deadline; the only place of the harness that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.05
T = TypeVar("T")


def wait_until(look: Callable[[], T], what: str, deadline_s: float, detail: Callable[[], str] = str) -> T:
    """Return the first true value of *look*.

    Args:
        look: called every 50 ms.
        what: what is waited for, for the message.
        deadline_s: seconds from now.
        detail: called when the deadline passes; its text is added to the message.
    Raises:
        TimeoutError: nothing true before the deadline.
    """
    end = time.monotonic() + deadline_s
    while True:
        if found := look():
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {deadline_s:g} s. {detail()}")
        time.sleep(POLL_S)
