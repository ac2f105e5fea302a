"""The consumer of a group between its start and its end: queues held, what is in hand, progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Coroutine
from typing import Any

from gantrymq.client.base import within
from gantrymq.client.group.answers import ConsumerAnswers, Direct
from gantrymq.client.group.failing import Failing
from gantrymq.client.group.figures import Figures
from gantrymq.client.group.handing import HandOut
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.progress import progress_of
from gantrymq.client.group.pulling import Pulling
from gantrymq.client.group.queue_locks import RENEW_S, QueueLocks
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.group.sharing import Rebalanced, Sharing
from gantrymq.client.group.working import Working
from gantrymq.client.group_offsets import GroupOffsets
from gantrymq.client.group_pulls import GroupPulls
from gantrymq.client.instance import ClientInstance
from gantrymq.client.tracing.watching import Watching
from gantrymq.errors import CallTimeout
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription

__all__ = ["ConsumerRun"]

logger = logging.getLogger("gantrymq.client")


class ConsumerRun:
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
        watching: Watching,
    ) -> None:
        """Arguments as `Consumer` has them; *known_as* is the name of its instance as it was given."""
        self._instance = instance
        self._group = group
        offsets = GroupOffsets(instance, group)
        self.member = Membership(
            instance,
            group,
            settings,
            subscriptions,
            offsets,
            GroupPulls(instance, group),
            progress_of(
                instance,
                group,
                offsets,
                broadcasting=settings.broadcasting,
                known_as=known_as,
                folder=offsets_folder,
            ),
            HandOut(
                instance.world.clock, orderly=settings.orderly, locking=settings.orderly and not settings.broadcasting
            ),
        )
        self._on_rebalance = on_rebalance
        self._figures = Figures()
        self._directs: dict[int, Direct] = {}
        self._failing = Failing(instance, group, settings, self.member.handing)
        hooks = watching.consumptions(
            instance, group, broadcasting=settings.broadcasting, consume_timeout_s=settings.consume_timeout_s
        )
        self.working = Working(self.member, self._failing, self._figures, self._directs, hooks)
        self._locks = QueueLocks(self.member)
        self._pulling = Pulling(self.member, self._moved)
        self.sharing = Sharing(self.member, strategy, self._locks, self._begin, self._changed)
        self._pulls: set[asyncio.Task[None]] = set()
        self._moves: set[asyncio.Task[None]] = set()
        started_ms = instance.world.clock.now_ms()
        instance.asked.consumers[group] = ConsumerAnswers(
            self.member, self.sharing, self._figures, self._directs, started_ms
        )
        jobs: list[Coroutine[Any, Any, None]] = [self.sharing.run(), self._commit()]
        if self.member.locking:
            jobs.append(self._renew())
        elif not settings.orderly:
            jobs.append(self.working.watch())
        self._jobs = [instance.job(job) for job in jobs]

    async def balanced(self, timeout_s: float) -> None:
        """Wait until every topic was shared out once."""
        balanced = self.sharing.balanced
        await within(self._instance.world.clock, timeout_s, balanced.wait())
        if self.member.handing.refused is not None:
            raise self.member.handing.refused
        if not balanced.is_set():
            raise CallTimeout(f"the queues of {self._group} were not shared out within {timeout_s:g} s")

    async def store(self) -> None:
        """The progress of all queues held."""
        await self.member.progress.store(self.member.reached())

    async def finish(self, closers: Container[object]) -> None:
        """Take and hand out nothing more, and wait for what tasks other than *closers* have in hand."""
        self.member.paused = True
        self.member.handing.close()
        await self.working.all_let_go(closers)

    async def end(self) -> None:
        """Stop, store the progress, give the queues up."""
        self.member.handing.close()
        tasks = (*self._jobs, *self._pulls, *self._moves)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.store()
        if self.member.locking:
            await self._locks.unlock(list(self.member.held))
        for held in self.member.held.values():
            held.drop()
        self.working.kept.end()
        self._failing.end()
        self._instance.asked.consumers.pop(self._group, None)

    def _begin(self, held: HeldQueue) -> None:
        self._keep(self._pulls, self._pulling.run(held))

    def _moved(self, held: HeldQueue, offset: int) -> None:
        self._keep(self._moves, self._move(held, offset))

    async def _move(self, held: HeldQueue, offset: int) -> None:
        """A queue no longer has the offset that was asked for: take it anew at *offset*."""
        logger.warning("%s has no offset %d; %s goes on at %d", held.queue, held.next_offset, self._group, offset)
        held.drop()
        await self.member.progress.store({held.queue: offset})
        self.member.held.pop(held.queue, None)
        self.sharing.wake()

    def _changed(self, taken: tuple[MessageQueue, ...], gone: tuple[MessageQueue, ...]) -> None:
        logger.info("%s takes %d queues and gives up %d", self._group, len(taken), len(gone))
        if self._on_rebalance is not None:
            try:
                self._on_rebalance(taken, gone)
            except Exception:
                logger.exception("on_rebalance of %s", self._group)

    async def _commit(self) -> None:
        while True:
            await self._instance.world.clock.sleep(self.member.settings.commit_every_s)
            await self.store()

    async def _renew(self) -> None:
        while True:
            await self._instance.world.clock.sleep(RENEW_S)
            await self._locks.renew()

    def _keep(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._instance.job(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
