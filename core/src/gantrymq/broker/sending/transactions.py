"""Access to the configured transaction service, and the timer of its checks.

Source: apache/rocketmq broker/.../transaction/TransactionalMessageCheckService.java (the period between checks).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

from gantrymq.broker.counted_plugins import counted, counted_later, name_of
from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.roles import MASTER_ONLY
from gantrymq.config import Settings
from gantrymq.errors import GantryError
from gantrymq.interfaces import (
    BatchingTransactionService,
    EndTransaction,
    Outcome,
    PutResult,
    StoreMessage,
    TransactionService,
)
from gantrymq.model.role import Role
from gantrymq.world import Clock, Timer

Stored = Callable[[Sequence[PutResult]], object]

log = logging.getLogger(__name__)


class Transactions:
    """Prepares and ends transactions, and runs the checks of undecided ones."""

    def __init__(self, service: TransactionService, settings: Settings, clock: Clock, stats: Stats) -> None:
        self._service = service
        self.roles: frozenset[Role] = getattr(service, "roles", MASTER_ONLY)
        self._prepare: Callable[[StoreMessage], StoreMessage] = counted(service.prepare, self._failed)
        self._end: Callable[[EndTransaction], Awaitable[Outcome]] = counted(service.end, self._failed)
        self.batches = hasattr(service, "prepare_together") and hasattr(service, "end_together")
        if self.batches:
            batching = cast(BatchingTransactionService, service)
            self._prepare_together: Callable[..., Stored | None] = counted(batching.prepare_together, self._failed)
            self.end_together: Callable[[Iterable[EndTransaction], bool], int] = counted(
                batching.end_together, self._failed
            )
        self._settings = settings
        self._clock = clock
        self._stats = stats
        self._timer: Timer | None = None
        self._checking: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self, _broker: object = None) -> None:
        """Check every ``transactionCheckInterval``; a longer check delays the next one."""
        self._closed = False
        self._wait()

    def _wait(self) -> None:
        self._timer = self._clock.call_later(self._settings.number("transactionCheckInterval") / 1000, self._begin)

    async def stop(self) -> None:
        """Stop checking."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])

    def end(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Pass on a producer's decision. The awaitable is done when it is durable; a future of the service is returned.

        Raises:
            RequestError: the half message belongs to another producer or does not exist.
        """
        outcome: Awaitable[Outcome] = self._end(request)
        return outcome if isinstance(outcome, asyncio.Future) else counted_later(outcome, self._failed)

    def prepare(self, message: StoreMessage) -> StoreMessage:
        """Return the half message to store instead of *message*. Raises RequestError."""
        return self._prepare(message)

    def prepare_together(self, messages: Sequence[StoreMessage], unique_ids: Sequence[bytes]) -> Stored | None:
        """Change *messages* into half messages; see `BatchingTransactionService`."""
        stored = self._prepare_together(messages, unique_ids)
        return None if stored is None else counted(stored, self._failed)

    def _failed(self) -> None:
        self._stats.plugin_failed("transaction service", name_of(self._service))

    def _begin(self) -> None:
        self._checking = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        try:
            await self._service.check(self._clock.now_ms())
        except Exception as error:
            if not isinstance(error, GantryError):
                self._failed()
            log.exception("a check of undecided transactions failed; it is repeated at the next interval")
        self._checking = None
        if not self._closed:
            self._wait()
