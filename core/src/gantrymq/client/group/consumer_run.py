"""State of a started consumer: process queues and in-flight messages.

`MemberRun` is common to push and lite pull consumers; `ConsumerRun` is that of a push consumer.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Container, Coroutine, Iterable
from typing import Any

from gantrymq.client.calls.rpc import within
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.broker_callbacks import BrokerCallbacks, DirectConsumption
from gantrymq.client.group.in_flight import InFlight
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.process_queue import ConsumeStats, ProcessQueue
from gantrymq.client.group.pulling import QueuePuller
from gantrymq.client.group.queue_locks import RENEW_S, QueueLocks
from gantrymq.client.group.rebalancer import Rebalancer
from gantrymq.client.group.redelivery import Redelivery
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller
from gantrymq.client.user_functions import notify
from gantrymq.errors import CallTimeout, ClientError
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import TAG, Subscription

logger = logging.getLogger("gantrymq.client")


class MemberRun(GroupMember, ABC):
    """A group member with its pull tasks, rebalances and stored offsets."""

    def __init__(
        self, instance: ClientInstance, group: str, settings: ConsumerSettings, subscriptions: dict[str, Subscription]
    ) -> None:
        """As `GroupMember`; the rebalancer has no allocation strategy yet."""
        super().__init__(instance, group, settings, subscriptions)
        self._stats = ConsumeStats()
        self._locks = QueueLocks(self)
        self._puller = QueuePuller(self, self._on_offset_moved)
        self.rebalancer = Rebalancer(self, self._locks, self._start_pulling, self._on_rebalanced)
        self._started_ms = instance.world.clock.now_ms()
        self._callbacks: BrokerCallbacks | None = None

    @abstractmethod
    def _start_pulling(self, pq: ProcessQueue) -> None:
        """Start the pull task of *pq*."""

    @abstractmethod
    def _on_offset_moved(self, pq: ProcessQueue, offset: int) -> None:
        """Restart the queue at *offset*: the broker no longer has the requested offset."""

    async def wait_balanced(self, timeout_s: float) -> None:
        """Wait until every topic was rebalanced once.

        Raises:
            CallTimeout: that takes longer than *timeout_s* seconds.
            NoPermission: the cluster denies access to the group.
            BrokerRefused: a broker cannot evaluate the expression of a subscription.
        """
        balanced, deliveries = self.rebalancer.balanced, self.deliveries
        await within(self.instance.world.clock, timeout_s, balanced.wait())
        if deliveries.refused is not None:
            raise deliveries.refused
        if not balanced.is_set():
            raise CallTimeout(f"the queues of {self.group} were not shared out within {timeout_s:g} s")

    async def check_filter(self, wanted: Subscription) -> None:
        """Ask the brokers of a topic, if it has a route, whether they can evaluate the expression of *wanted*.

        Raises:
            FilterRefused: one cannot.
        """
        if wanted.type == TAG:
            return
        try:
            queues = await self.instance.routes.readable_queues(wanted.topic)
        except ClientError:
            return  # the rebalance asks when there is a route
        await self.pulls.filters.check_topic(wanted, queues)

    async def store(self) -> None:
        """Store the offsets of all assigned queues, except those whose broker was recently disconnected."""
        await self.offset_store.store(self.offsets_to_store())

    def broker_lost(self, broker_name: str) -> None:
        """Implement `BrokerListener.broker_lost`."""
        self.offset_store.forget_broker(broker_name)
        if self.rebalancer.strategy is not None:
            self.rebalancer.broker_lost(broker_name)

    def broker_back(self, broker_name: str) -> None:
        """Implement `BrokerListener.broker_back`."""
        self.offset_store.forget_broker(broker_name)  # a slave may have stored the last ones
        self.rebalancer.broker_back(broker_name)

    async def _store_periodically(self) -> None:
        while True:
            await self.instance.world.clock.sleep(self.settings.commit_every_s)
            await self.store()

    def _register_callbacks(self, direct_consumptions: dict[int, DirectConsumption] | None) -> None:
        """Answer requests of brokers for this group; with None, messages cannot be consumed directly."""
        self._callbacks = BrokerCallbacks(self, self.rebalancer, self._stats, direct_consumptions, self._started_ms)
        self.instance.broker_requests.consumers[self.group] = self._callbacks

    async def _stop(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """End *tasks*, store the offsets if auto_commit is set, and release the queues."""
        tasks = tuple(tasks)
        self.instance.registration.listeners.discard(self)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.auto_commit:
            await asyncio.gather(*(self.rebalancer.store(pq) for pq in self.process_queues.values() if not pq.dropped))
        if self.locking:
            await self._locks.unlock(queue for queue, pq in self.process_queues.items() if not pq.unconfirmed)
        for pq in self.process_queues.values():
            pq.drop()
        if self._callbacks is not None:
            self.instance.broker_requests.consumers.pop(self.group, None)

    async def _on_rebalanced(self, taken: tuple[MessageQueue, ...], given_up: tuple[MessageQueue, ...]) -> None:
        logger.info("%s takes %d queues and gives up %d", self.group, len(taken), len(given_up))
        if self.settings.on_rebalance is not None:
            await notify(f"on_rebalance of {self.group}", self.settings.on_rebalance, taken, given_up)


class ConsumerRun(MemberRun):
    """Created when the consumer starts; ended once by `end`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        subscriptions: dict[str, Subscription],
        strategy: AllocationStrategy,
        hooks: ConsumeHookCaller | None,
    ) -> None:
        """Start the tasks of a consumer; *hooks* are called for consumed messages."""
        super().__init__(instance, group, settings, subscriptions)
        self.rebalancer.strategy = strategy
        self._direct_consumptions: dict[int, DirectConsumption] = {}
        self._redelivery = Redelivery(instance, group, settings, self.deliveries)
        self.in_flight = InFlight(self, self._redelivery, self._stats, self._direct_consumptions, hooks)
        self._pulls: set[asyncio.Task[None]] = set()
        self._moves: set[asyncio.Task[None]] = set()
        self._register_callbacks(self._direct_consumptions)
        instance.registration.listeners.add(self)
        jobs: list[Coroutine[Any, Any, None]] = [self.rebalancer.run(), self._store_periodically()]
        if self.locking:
            jobs.append(self._renew_locks())
        elif not settings.orderly:
            jobs.append(self.in_flight.watch_timeouts())
        self._jobs = [instance.job(job) for job in jobs]

    async def finish(self, closers: Container[object]) -> None:
        """Stop taking queues and delivering messages, and wait for in-flight messages of tasks other than *closers*."""
        self.paused = True
        self.deliveries.close()
        await self.in_flight.wait_released(closers)

    async def end(self) -> None:
        """Stop all tasks, store the offsets, and release the queues."""
        self.deliveries.close()
        await self._stop((*self._jobs, *self._pulls, *self._moves))
        self.in_flight.unacked.close()
        self._redelivery.close()

    def _start_pulling(self, pq: ProcessQueue) -> None:
        self._start_task(self._pulls, self._puller.run(pq))

    def _on_offset_moved(self, pq: ProcessQueue, offset: int) -> None:
        self._start_task(self._moves, self._move_queue(pq, offset))

    async def _move_queue(self, pq: ProcessQueue, offset: int) -> None:
        """Drop the queue and store *offset*, so that the next rebalance takes it again from there."""
        pq.drop()
        await self.offset_store.store({pq.queue: offset})
        self.process_queues.pop(pq.queue, None)
        self.rebalancer.wake()

    async def _renew_locks(self) -> None:
        while True:
            await self.instance.world.clock.sleep(RENEW_S)
            await self._locks.renew()
            if any(pq.unconfirmed for pq in self.process_queues.values()):
                self.rebalancer.wake()

    def _start_task(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self.instance.job(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
