"""Tasks for requests that are answered later: held pops and receives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from gantrymq.errors import GantryError, ServerFault


class AnsweringTasks:
    """Tasks that each answer one request. An error of the work is its answer; an unexpected one is logged."""

    def __init__(self, log: logging.Logger, failed: str) -> None:
        """*failed* is the line that is logged with an unexpected error."""
        self._log = log
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], respond: Callable[[GantryError], None]) -> None:
        """Run *work*, which answers the request itself unless it fails."""
        task = asyncio.get_running_loop().create_task(self._serve(work, respond))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, work: Coroutine[Any, Any, None], respond: Callable[[GantryError], None]) -> None:
        try:
            await work
        except GantryError as error:
            respond(error)
        except Exception:
            self._log.exception(self._failed)
            respond(ServerFault())

    async def ended(self) -> None:
        """Wait until no task is left."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
