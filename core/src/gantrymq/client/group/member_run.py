"""What a consumer has between its start and its end, whether messages are handed to its loops or polled."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from gantrymq.client.group.answers import ConsumerAnswers, Direct
from gantrymq.client.group.figures import Figures
from gantrymq.client.group.handing import HandOut
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.progress import progress_of
from gantrymq.client.group.pulling import Pulling
from gantrymq.client.group.queue_locks import QueueLocks
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.group.sharing import Rebalanced, Sharing
from gantrymq.client.group_offsets import GroupOffsets
from gantrymq.client.group_pulls import GroupPulls
from gantrymq.client.instance import ClientInstance
from gantrymq.client.time_limits import within
from gantrymq.client.user_functions import notify
from gantrymq.errors import CallTimeout
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription

__all__ = ["MemberRun"]

logger = logging.getLogger("gantrymq.client")


class MemberRun(ABC):
    """The queues held, their pulls, and their progress."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        subscriptions: dict[str, Subscription],
        strategy: AllocationStrategy | None,
        *,
        commits: bool,
        on_rebalance: Rebalanced | None,
        known_as: str,
        offsets_folder: str | None,
    ) -> None:
        """Arguments as `Consumer` has them.

        Args:
            instance: whose connections it uses.
            group: of which it may be a member.
            settings: of the consumer.
            subscriptions: by topic; may change.
            strategy: None for one that comes later, or never.
            commits: whether the progress is stored by itself.
            on_rebalance: hears of queues taken and given up.
            known_as: the name of the client's instance as it was given.
            offsets_folder: for broadcasting.
        """
        self._instance = instance
        self._on_rebalance = on_rebalance
        offsets, broadcasting = GroupOffsets(instance, group), settings.broadcasting
        self.member = Membership(
            instance,
            group,
            settings,
            subscriptions,
            offsets,
            GroupPulls(instance, group),
            progress_of(instance, group, offsets, broadcasting=broadcasting, known_as=known_as, folder=offsets_folder),
            HandOut(instance.world.clock, orderly=settings.orderly, locking=settings.orderly and not broadcasting),
            commits=commits,
        )
        self._figures = Figures()
        self._locks = QueueLocks(self.member)
        self._pulling = Pulling(self.member, self._moved)
        self.sharing = Sharing(self.member, strategy, self._locks, self._begin, self._changed)
        self._started_ms = instance.world.clock.now_ms()
        self._answers: ConsumerAnswers | None = None

    @abstractmethod
    def _begin(self, held: HeldQueue) -> None:
        """Pull *held* from now on."""

    @abstractmethod
    def _moved(self, held: HeldQueue, offset: int) -> None:
        """A queue no longer has the offset that was asked for: go on at *offset*."""

    async def balanced(self, timeout_s: float) -> None:
        """Wait until every topic was shared out once. Raises CallTimeout, and what the brokers refuse."""
        balanced, handing = self.sharing.balanced, self.member.handing
        await within(self._instance.world.clock, timeout_s, balanced.wait())
        if handing.refused is not None:
            raise handing.refused
        if not balanced.is_set():
            raise CallTimeout(f"the queues of {self.member.group} were not shared out within {timeout_s:g} s")

    async def store(self) -> None:
        """Store the progress of all queues held, except those whose broker was away a moment ago."""
        await self.member.progress.store(self.member.to_store())

    def broker_lost(self, broker_name: str) -> None:
        """As `BrokerListener` promises."""
        self.member.progress.forget(broker_name)
        if self.sharing.strategy is not None:
            self.sharing.broker_lost(broker_name)

    def broker_back(self, broker_name: str) -> None:
        """As `BrokerListener` promises."""
        self.sharing.broker_back()

    async def _store_again(self) -> None:
        while True:
            await self._instance.world.clock.sleep(self.member.settings.commit_every_s)
            await self.store()

    def _answer(self, directs: dict[int, Direct] | None) -> None:
        """Tools may ask what it does; *directs* are the messages that they have consumed here, None where none is."""
        self._answers = ConsumerAnswers(self.member, self.sharing, self._figures, directs, self._started_ms)
        self._instance.broker_requests.consumers[self.member.group] = self._answers

    async def _stop(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """End *tasks*, store the progress where that is done by itself, give the queues up."""
        member, tasks = self.member, tuple(tasks)
        self._instance.registration.listeners.discard(self)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if member.commits:
            await asyncio.gather(*(self.sharing.store(held) for held in member.held.values() if not held.dropped))
        if member.locking:
            await self._locks.unlock(queue for queue, held in member.held.items() if not held.cut_off)
        for held in member.held.values():
            held.drop()
        if self._answers is not None:
            self._instance.broker_requests.consumers.pop(member.group, None)

    def _log_move(self, held: HeldQueue, offset: int) -> None:
        logger.warning("%s has no offset %d; %s goes on at %d", held.queue, held.next_offset, self.member.group, offset)

    async def _changed(self, taken: tuple[MessageQueue, ...], gone: tuple[MessageQueue, ...]) -> None:
        logger.info("%s takes %d queues and gives up %d", self.member.group, len(taken), len(gone))
        if self._on_rebalance is not None:
            await notify(f"on_rebalance of {self.member.group}", self._on_rebalance, taken, gone)
