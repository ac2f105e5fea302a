"""Bugs that fail no call: errors and tracebacks in the log, and exceptions that were never retrieved."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gantrymq_testing.simulated import ProcessKilled


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
