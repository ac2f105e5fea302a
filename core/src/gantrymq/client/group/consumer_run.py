"""The consumer of a group between its start and its end: what its loops and handlers have in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine
from typing import Any

from gantrymq.client.group.answers import Direct
from gantrymq.client.group.failing import Failing
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.member_run import MemberRun
from gantrymq.client.group.queue_locks import RENEW_S
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.group.sharing import Rebalanced
from gantrymq.client.group.working import Working
from gantrymq.client.instance import ClientInstance
from gantrymq.client.tracing.instrumentation import Instrumentation
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.subscription import Subscription

__all__ = ["ConsumerRun"]


class ConsumerRun(MemberRun):
    """Made at start, used, `end`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        subscriptions: dict[str, Subscription],
        strategy: AllocationStrategy,
        *,
        on_rebalance: Rebalanced | None,
        known_as: str,
        offsets_folder: str | None,
        instrumentation: Instrumentation,
    ) -> None:
        """Arguments as `MemberRun` has them; *watching* is told of what is consumed."""
        super().__init__(
            instance,
            group,
            settings,
            subscriptions,
            strategy,
            commits=True,
            on_rebalance=on_rebalance,
            known_as=known_as,
            offsets_folder=offsets_folder,
        )
        self._directs: dict[int, Direct] = {}
        self._failing = Failing(instance, group, settings, self.member.handing)
        hooks = instrumentation.consumptions(
            instance, group, broadcasting=settings.broadcasting, consume_timeout_s=settings.consume_timeout_s
        )
        self.working = Working(self.member, self._failing, self._figures, self._directs, hooks)
        self._pulls: set[asyncio.Task[None]] = set()
        self._moves: set[asyncio.Task[None]] = set()
        self._answer(self._directs)
        instance.registration.listeners.add(self)
        jobs: list[Coroutine[Any, Any, None]] = [self.sharing.run(), self._store_again()]
        if self.member.locking:
            jobs.append(self._renew())
        elif not settings.orderly:
            jobs.append(self.working.watch())
        self._jobs = [instance.job(job) for job in jobs]

    async def finish(self, closers: Container[object]) -> None:
        """Take and hand out nothing more, and wait for what tasks other than *closers* have in hand."""
        self.member.paused = True
        self.member.handing.close()
        await self.working.all_let_go(closers)

    async def end(self) -> None:
        """Stop, store the progress, give the queues up."""
        self.member.handing.close()
        await self._stop((*self._jobs, *self._pulls, *self._moves))
        self.working.kept.end()
        self._failing.end()

    def _begin(self, held: HeldQueue) -> None:
        self._keep(self._pulls, self._pulling.run(held))

    def _moved(self, held: HeldQueue, offset: int) -> None:
        self._keep(self._moves, self._move(held, offset))

    async def _move(self, held: HeldQueue, offset: int) -> None:
        """Take a queue anew at *offset*."""
        self._log_move(held, offset)
        held.drop()
        await self.member.progress.store({held.queue: offset})
        self.member.held.pop(held.queue, None)
        self.sharing.wake()

    async def _renew(self) -> None:
        while True:
            await self._instance.world.clock.sleep(RENEW_S)
            await self._locks.renew()
            if any(held.cut_off for held in self.member.held.values()):
                self.sharing.wake()

    def _keep(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._instance.job(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
