"""State of a started lite pull consumer: assigned queues, the last poll, positions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from gantrymq.client.argument_types import check_kind
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.consumer_run import MemberRun
from gantrymq.client.group.delivery_queue import Delivery
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.group.settings import LitePullSettings
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller
from gantrymq.client.tracing.hooks import ConsumeContext, ConsumeOutcome
from gantrymq.client.user_functions import notify
from gantrymq.errors import ClientError, GantryError
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription

logger = logging.getLogger("gantrymq.client")

_TOPIC_CHECK_S: Final = 30.0  # between checks for changed queues of a topic, as in RocketMQ

_Listener = Callable[[str, tuple[MessageQueue, ...]], object]


class LitePullRun(MemberRun):
    """Created when the consumer starts; used between `start` and `end`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: LitePullSettings,
        subscriptions: dict[str, Subscription],
    ) -> None:
        """As `GroupMember`; *settings* may turn automatic commits off."""
        super().__init__(instance, group, settings, subscriptions)
        self.auto_commit = settings.auto_commit
        self.is_subscribed = False  # whether topics are subscribed, so that it is a member of the group
        self.is_assigned = False  # whether queues were assigned by the application
        self._polled: Delivery | None = None  # consumed at the next poll
        self._polled_s = 0.0
        self.hooks: ConsumeHookCaller | None = None  # called for polled messages
        self._context: ConsumeContext | None = None  # of the last poll
        self._stored: dict[
            MessageQueue, tuple[ProcessQueue, int]
        ] = {}  # offsets stored by `commit`, with the process queue of that time
        self._pulls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._watched_topics: dict[str, tuple[tuple[MessageQueue, ...], list[_Listener]]] = {}
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the background tasks."""
        self.instance.registration.listeners.add(self)
        self._jobs.append(self.instance.job(self._watch_topics()))
        if self.auto_commit:
            self._jobs.append(self.instance.job(self._store_periodically()))

    def start_rebalancing(self, strategy: AllocationStrategy) -> None:
        """Become a member of the group: assign queues by *strategy* from now on."""
        self.rebalancer.strategy = strategy
        self.is_subscribed = True
        self._register_callbacks(None)
        self._jobs.append(self.instance.job(self.rebalancer.run()))

    async def assign(self, queues: tuple[MessageQueue, ...], subscriptions: Mapping[str, Subscription]) -> None:
        """Assign exactly *queues*. Raises ClientError: a start offset is unknown; nothing was changed."""
        new = [queue for queue in queues if queue not in self.process_queues]
        starts = await asyncio.gather(*map(self.rebalancer.first_offset, new))
        self.is_assigned = True
        await self.give_up([queue for queue in self.process_queues if queue not in queues])
        self.subscriptions.clear()
        self.subscriptions.update(subscriptions)
        for queue, start in zip(new, starts, strict=True):
            if queue not in self.process_queues:
                self._add_queue(queue, start)

    async def give_up(self, queues: Iterable[MessageQueue]) -> None:
        """Drop queues, after storing their offsets if auto_commit is set."""
        leaving = [self.process_queues[queue] for queue in queues]
        await asyncio.gather(*(self.rebalancer.give_up(pq, grace_s=0.0) for pq in leaving))

    def process_queue_of(self, queue: MessageQueue) -> ProcessQueue:
        """Return the process queue of *queue*. Raises ClientError: it is not assigned."""
        check_kind("queue", queue, MessageQueue)
        pq = self.process_queues.get(queue)
        if pq is None or pq.dropped:
            count = len(self.commit_offsets())
            raise ClientError(
                f"{queue} is not assigned to this consumer of {self.group}, which has {count} queues: look at "
                "'assignment', or call assign(), or wait_assigned() after subscribe()"
            )
        return pq

    def restart(self, pq: ProcessQueue, offset: int) -> None:
        """Continue at *offset*: waiting messages and the result of a pull in progress are discarded."""
        pq.drop()
        self._add_queue(pq.queue, offset)

    # --- messages -----------------------------------------------------------------------------------------------------

    async def poll(self, max_count: int, timeout_s: float) -> tuple[ReceivedMessage, ...]:
        """Return up to *max_count* messages of one queue; none after *timeout_s*, or when the consumer is closed."""
        self.finish_polled()
        deliveries = self.deliveries
        delivery = deliveries.take_now(max_count) or await deliveries.take(max_count, timeout_s)
        if delivery is None:
            if deliveries.refused is not None:
                raise deliveries.refused
            return ()
        self.finish_polled()  # messages that another task polled meanwhile
        self._polled, self._polled_s = delivery, self.instance.world.clock.monotonic()
        if self.hooks is not None:
            self._context = self.hooks.before(
                delivery.process_queue.queue, delivery.messages, batch=max_count > 1, in_task=True
            )
        return tuple(delivery.messages)

    def finish_polled(self) -> None:
        """Finish the messages of the last poll as consumed."""
        delivery, self._polled = self._polled, None
        if delivery is not None:
            self._after(ConsumeOutcome.SUCCESS)
            now = self.instance.world.clock.monotonic()
            delivery.process_queue.last_consumed_s = now
            count = delivery.process_queue.finish(delivery.messages)
            window = self._stats.window(delivery.process_queue.queue.topic, now)
            window.done += count
            window.spent_s += (now - self._polled_s) * count

    def _after(self, outcome: ConsumeOutcome) -> None:
        context, self._context = self._context, None
        if context is not None and self.hooks is not None:
            self.hooks.after(context, outcome)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets. Raises ClientError: some are not stored."""
        if self.settings.broadcasting:
            await self.offset_store.store(offsets)
            return
        stored = await asyncio.gather(*(self._store(*each) for each in offsets.items()), return_exceptions=True)
        for problem in stored:
            if problem is not None:
                raise problem

    async def commit_current(self) -> None:
        """Store the offsets of all queues, except those that another member has continued. Raises as `commit`."""
        continued_elsewhere = []
        for queue, pq in list(self.process_queues.items()):
            if pq.unconfirmed and await self.offset_store.offset_of_other_member(queue) is not None:
                continued_elsewhere.append(queue)
        await self.commit(
            {queue: offset for queue, offset in self.commit_offsets().items() if queue not in continued_elsewhere}
        )

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of the group in *queue*, None if it has none.

        Raises:
            ClientError: it cannot be queried.
        """
        return await (self.offset_store.read if self.settings.broadcasting else self.offsets.committed)(queue)

    async def _store(self, queue: MessageQueue, offset: int) -> None:
        pq = self.process_queues.get(queue)
        if self._stored.get(queue) == (pq, offset):
            return
        self.offset_store.note_commit(queue, offset)
        await self.offsets.commit(queue, offset)
        if pq is not None:
            self._stored[queue] = pq, offset

    def broker_lost(self, broker_name: str) -> None:
        """Implement `BrokerListener.broker_lost`."""
        super().broker_lost(broker_name)
        self._stored = {queue: at for queue, at in self._stored.items() if queue.broker_name != broker_name}

    def stop_delivery(self) -> None:
        """End polls: they return no messages."""
        self.deliveries.close()

    async def end(self) -> None:
        """Stop; store the offsets if auto_commit is set."""
        self.stop_delivery()
        self._after(ConsumeOutcome.GIVEN_BACK)
        await self._stop((*self._jobs, *self._pulls.values()))

    # --- queues -------------------------------------------------------------------------------------------------------

    def _add_queue(self, queue: MessageQueue, offset: int) -> None:
        pq = self.process_queues[queue] = ProcessQueue(queue, offset, self.instance.world.clock.monotonic())
        self._start_pulling(pq)

    def _start_pulling(self, pq: ProcessQueue) -> None:
        before = self._pulls.get(pq.queue)
        if before is not None and before is not asyncio.current_task():
            before.cancel()
        task = self._pulls[pq.queue] = self.instance.job(self._puller.run(pq))
        task.add_done_callback(lambda done: self._pull_ended(pq.queue, done))

    def _pull_ended(self, queue: MessageQueue, task: asyncio.Task[None]) -> None:
        if self._pulls.get(queue) is task:
            del self._pulls[queue]

    def _on_offset_moved(self, pq: ProcessQueue, offset: int) -> None:
        self.restart(pq, offset)

    # --- changed topics -----------------------------------------------------------------------------------------------

    def watch(self, topic: str, now: tuple[MessageQueue, ...], listener: _Listener) -> None:
        """Call *listener* when the queues of *topic* are no longer *now*."""
        self._watched_topics.setdefault(topic, (now, []))[1].append(listener)

    async def _watch_topics(self) -> None:
        while True:
            await self.instance.world.clock.sleep(_TOPIC_CHECK_S)
            for topic, (before, listeners) in list(self._watched_topics.items()):
                try:
                    queues = await self.instance.routes.readable_queues(topic)
                except GantryError as problem:
                    self.instance.outages.failed(f"looking for changed queues of {topic}", problem)
                    continue
                if set(queues) != set(before):
                    self._watched_topics[topic] = (queues, listeners)
                    for listener in listeners:
                        await notify(f"a listener of {self.group}", listener, topic, queues)
