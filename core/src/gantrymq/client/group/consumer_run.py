"""State of a started consumer: process queues and in-flight messages."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine
from typing import Any

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.broker_callbacks import DirectConsumption
from gantrymq.client.group.in_flight import InFlight
from gantrymq.client.group.member_run import MemberRun
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.group.queue_locks import RENEW_S
from gantrymq.client.group.rebalancer import RebalanceListener
from gantrymq.client.group.redelivery import Redelivery
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.tracing.instrumentation import Instrumentation
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.subscription import Subscription

__all__ = ["ConsumerRun"]


class ConsumerRun(MemberRun):
    """Created when the consumer starts; ended once by `end`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        subscriptions: dict[str, Subscription],
        strategy: AllocationStrategy,
        *,
        on_rebalance: RebalanceListener | None,
        instance_name: str,
        offsets_folder: str | None,
        instrumentation: Instrumentation,
    ) -> None:
        """Start the tasks of a consumer.

        Arguments as in `MemberRun`; *watching* makes the hooks that are called for consumed messages.
        """
        super().__init__(
            instance,
            group,
            settings,
            subscriptions,
            strategy,
            auto_commit=True,
            on_rebalance=on_rebalance,
            instance_name=instance_name,
            offsets_folder=offsets_folder,
        )
        self._direct_consumptions: dict[int, DirectConsumption] = {}
        self._redelivery = Redelivery(instance, group, settings, self.member.deliveries)
        hooks = instrumentation.consumptions(
            instance, group, broadcasting=settings.broadcasting, consume_timeout_s=settings.consume_timeout_s
        )
        self.in_flight = InFlight(self.member, self._redelivery, self._stats, self._direct_consumptions, hooks)
        self._pulls: set[asyncio.Task[None]] = set()
        self._moves: set[asyncio.Task[None]] = set()
        self._register_callbacks(self._direct_consumptions)
        instance.registration.listeners.add(self)
        jobs: list[Coroutine[Any, Any, None]] = [self.rebalancer.run(), self._store_periodically()]
        if self.member.locking:
            jobs.append(self._renew_locks())
        elif not settings.orderly:
            jobs.append(self.in_flight.watch_timeouts())
        self._jobs = [instance.job(job) for job in jobs]

    async def finish(self, closers: Container[object]) -> None:
        """Stop taking queues and delivering messages, and wait for in-flight messages of tasks other than *closers*."""
        self.member.paused = True
        self.member.deliveries.close()
        await self.in_flight.wait_released(closers)

    async def end(self) -> None:
        """Stop all tasks, store the offsets, and release the queues."""
        self.member.deliveries.close()
        await self._stop((*self._jobs, *self._pulls, *self._moves))
        self.in_flight.unacked.close()
        self._redelivery.close()

    def _start_pulling(self, pq: ProcessQueue) -> None:
        self._start_task(self._pulls, self._puller.run(pq))

    def _on_offset_moved(self, pq: ProcessQueue, offset: int) -> None:
        self._start_task(self._moves, self._move_queue(pq, offset))

    async def _move_queue(self, pq: ProcessQueue, offset: int) -> None:
        """Drop the queue and store *offset*, so that the next rebalance takes it again from there."""
        self._log_move(pq, offset)
        pq.drop()
        await self.member.offset_store.store({pq.queue: offset})
        self.member.process_queues.pop(pq.queue, None)
        self.rebalancer.wake()

    async def _renew_locks(self) -> None:
        while True:
            await self._instance.world.clock.sleep(RENEW_S)
            await self._locks.renew()
            if any(pq.unconfirmed for pq in self.member.process_queues.values()):
                self.rebalancer.wake()

    def _start_task(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._instance.job(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
