"""Running asynchronous work in a command, and stopping it with signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on a new event loop, uvloop's if it is installed."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def stop_requested() -> asyncio.Event:
    """Return an event that is set by SIGTERM or SIGINT. Must be called on the event loop."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # on Windows, KeyboardInterrupt ends the loop
            loop.add_signal_handler(number, asked.set)
    return asked
