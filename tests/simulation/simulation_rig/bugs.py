"""Simulated runs of a seed, and bugs that fail no call: errors in the log, exceptions that were never retrieved."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gantrymq.world import World
from gantrymq_testing.simulated import FaultyDelivery, ProcessKilled, SimulationError, Trace, simulate


class Bugs(logging.Handler):
    """Collects them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep records that are errors or carry a traceback."""
        if record.levelno >= logging.ERROR or record.exc_info:
            text = self.format(record)
            if "ProcessKilled" not in text:
                self.found.append(text)

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception handler of the loop."""
        error = context.get("exception")
        if not isinstance(error, ProcessKilled):
            lines = traceback.format_exception(error) if error is not None else []
            self.found.append(f"{context.get('message')}\n{''.join(lines)}")


@contextmanager
def collected() -> Iterator[Bugs]:
    """Bugs while the body runs."""
    bugs = Bugs()
    loggers = [logging.getLogger(name) for name in ("gantrymq", "gantrymq_storage_mmap", "asyncio")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(bugs)
        each.setLevel(logging.INFO)
        each.propagate = False  # pytest would keep the output of a thousand runs
    try:
        yield bugs
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.removeHandler(bugs)
            each.setLevel(level)
            each.propagate = True


def problems_of(
    seed: int,
    main: Callable[[World, FaultyDelivery, Bugs], Awaitable[None]],
    *,
    late: float,
    limit_s: float,
    trace: Trace | None = None,
) -> list[str]:
    """Run *main* in a simulated world on an unreliable network, and return its problems; nothing is raised.

    Args:
        late: the share of deliveries that are late.
        limit_s: the longest simulated time.
    """
    delivery = FaultyDelivery(random.Random(f"{seed}/network"), late=late)
    problems: list[str] = []
    with collected() as bugs:
        try:
            simulate(seed, lambda world: main(world, delivery, bugs), trace=trace, delivery=delivery, limit_s=limit_s)
        except SimulationError as error:
            problems.append(f"{type(error).__name__}: {error}")
        except Exception:
            problems.append(traceback.format_exc())
    return problems + bugs.found
