"""The push consumer of a group.

    async for message in client.consumer("billing", "Orders"):
        print(message.body)

The queues of the topics are divided among the members of the group. A message is consumed when the loop requests the
next one; an unconsumed message is delivered again, here or to another member. Delivery is at least once.

Sources: apache/rocketmq client/.../consumer/DefaultMQPushConsumer.java,
client/.../impl/consumer/DefaultMQPushConsumerImpl.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import attrs

from gantrymq.client.argument_types import check_number, check_seconds
from gantrymq.client.calls.connection_config import settings_of
from gantrymq.client.connection.base import Part
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.consumer_run import ConsumerRun
from gantrymq.client.group.handlers import Handler, run_handler
from gantrymq.client.group.membership import join_group, subscription_of, subscriptions_of
from gantrymq.client.group.settings import ConsumerSettings, allocation_strategy
from gantrymq.client.group.streams import BatchIterator, Chunks, MessageIterator
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hooks import ConsumeOutcome
from gantrymq.client.tracing.instrumentation import Instrumentation
from gantrymq.client.user_functions import check_function
from gantrymq.errors import ClientError
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG, Subscription

if TYPE_CHECKING:
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

logger = logging.getLogger("gantrymq.client")

CONCURRENCY: Final = 20  # consumeThreadMin of DefaultMQPushConsumer


class Consumer(Part):
    """A member of a consumer group; created by `Client.consumer`, usable until `close`.

    Attributes:
        group: name of the group.
        settings: the given options, with defaults for the others.
    """

    def __init__(
        self,
        group: str,
        topics: str | Mapping[str, str],
        *,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **settings: Any,
    ) -> None:
        """Store the options, as `Client.consumer` passes them on; *settings* are those of `ConsumerSettings`.

        Raises:
            InvalidParameter: a name or setting is not valid, or an option does not exist.
            PluginAbsent: no installed plugin offers the allocation strategy.
        """
        super().__init__()
        names.check_group(group)
        self.group = group
        self.settings = settings_of(type(self), ConsumerSettings, settings)
        self._subscriptions = subscriptions_of(topics, self.settings.expression, self.settings.expression_type)
        if not self.settings.broadcasting:
            self._subscriptions[names.RETRY_PREFIX + group] = Subscription(names.RETRY_PREFIX + group)
        self._strategy = allocation_strategy(
            self.settings.allocation, dict(self.settings.allocation_settings), logger.warning
        )
        if self.settings.on_rebalance is not None:
            check_function(self.settings.on_rebalance, f"on_rebalance of {group}")
        self._instrumentation = Instrumentation(hooks, trace)
        self._run: ConsumerRun | None = None

    def _register(self, instance: ClientInstance) -> None:
        join_group(instance, self.group, "CONSUME_PASSIVELY", self.settings, self._subscriptions)
        hooks = self._instrumentation.consumptions(
            instance,
            self.group,
            broadcasting=self.settings.broadcasting,
            consume_timeout_s=self.settings.consume_timeout_s,
        )
        self._run = ConsumerRun(instance, self.group, self.settings, self._subscriptions, self._strategy, hooks)

    def closed_by(self, task: asyncio.Task[Any] | None) -> None:
        """Also stop waiting for the messages of *task*."""
        super().closed_by(task)
        if self._run is not None:
            self._run.in_flight.released.set()

    async def _finish(self) -> None:
        if self._run is not None:
            await self._run.finish(self._closers)
        await self._instrumentation.flush()

    async def _unregister(self, instance: ClientInstance) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.end()
        await self._instrumentation.close()
        await instance.registration.remove_consumer(self.group)

    def __aiter__(self) -> MessageIterator:
        """Iterate over messages one by one; each loop has its own iterator, so several tasks may have one.

        A loop that requests the next message acknowledges the one before, unless the consumer was created with
        ``auto_ack=False``; a loop that is left gives its message back. It ends when the consumer is closed. Check
        `body_problem` of each message before reading its body.

        Raises:
            NoPermission: the cluster denies access to the group.
            BrokerRefused: a broker cannot evaluate the expression of a subscription.
        """
        run = self._running()
        return MessageIterator(run, run.in_flight, 1, None if self.settings.auto_ack else run.in_flight.unacked)

    def batches(self, most: int = 32) -> BatchIterator:
        """Iterate over lists of up to *most* waiting messages of one queue.

        Raises:
            InvalidParameter: *most* is not 1 to 1024.
        """
        check_number("most", most, 1, 1024, whole=True)
        run = self._running()
        return BatchIterator(run, run.in_flight, most, None if self.settings.auto_ack else run.in_flight.unacked)

    def chunks(self) -> Chunks:
        """Return the message source of a loop in `gantrymq.client.sync`."""
        run = self._running()
        return Chunks(run, run.in_flight)

    async def run(self, handler: Handler, *, concurrency: int = CONCURRENCY, batch_size: int | None = None) -> None:
        """Call *handler* with messages until the consumer is closed.

        Args:
            handler: takes one message, or with *batch_size* a list of up to that many messages of one queue; an async
                function runs in the event loop, a plain one in a thread. Messages are consumed when it returns; an
                awaitable result is awaited first. A batch handler that returns a number has consumed that many
                messages, from the first on. Its exceptions are logged, including its own CancelledError, and the
                messages are delivered again, as described in `ReconsumeLater`.
            concurrency: calls at a time, at least 1.
            batch_size: 1 to 1024; None for single messages.

        Raises:
            InvalidParameter: a number is out of bounds, or *handler* is not callable or a generator function.
            NoPermission: the cluster denies access to the group.
            BrokerRefused: a broker cannot evaluate the expression of a subscription.
            KeyboardInterrupt, SystemExit: *handler* raised it; its messages are given back.
        """
        run = self._running()
        await run_handler(run, run.in_flight, handler, concurrency=concurrency, batch_size=batch_size)

    def ack(self, message: ReceivedMessage) -> bool:
        """Acknowledge *message*. Return False if it belongs to another member now, or was acknowledged before.

        The offset reaches the broker within ``commit_every_s`` seconds, and at `close`.

        Raises:
            ClientError: the consumer acknowledges automatically.
        """
        run = self._manual()
        unacked = run.in_flight.unacked
        pq = unacked.pop(message)
        acknowledged = pq is not None and run.in_flight.done(pq, [message]) > 0
        unacked.settle(message, ConsumeOutcome.SUCCESS if acknowledged else ConsumeOutcome.GIVEN_BACK)
        return acknowledged

    async def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Have *message* delivered again later; *delay_level* as in `ReconsumeLater`.

        Returns and raises as `ack`.
        """
        run = self._manual()
        unacked = run.in_flight.unacked
        pq = unacked.pop(message)
        unacked.settle(message, ConsumeOutcome.FAILED)
        if pq is None or pq.dropped or not pq.holds(message):
            return False
        try:
            await run.in_flight.failed(pq, [message], delay_level)
        except asyncio.CancelledError:
            unacked.restore(pq, message)
            raise
        return True

    def processing(self, *messages: ReceivedMessage) -> AbstractContextManager[None]:
        """Return a context manager for the processing of *messages*, one or several, in one task.

        Hooks are called at its start and end, so that the OpenTelemetry span of a message is the current one.

        Raises:
            ClientError: the consumer acknowledges automatically; there the loop or handler is the processing.
        """
        return self._manual().in_flight.unacked.processing(messages)

    async def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* as well, or with another expression.

        Raises:
            InvalidParameter: the name of the topic is not valid.
            BrokerRefused: a broker cannot evaluate the expression; nothing was changed.
        """
        subscription = subscription_of(topic, expression, expression_type)
        if self._run is not None:
            await self._run.check_filter(subscription)
        self._subscriptions[topic] = subscription
        if self._run is not None:
            instance = self._started()
            self._subscriptions[topic] = attrs.evolve(subscription, version=instance.world.clock.now_ms())
            instance.registration.heartbeat_now()
            self._run.rebalancer.wake()

    async def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*. Does nothing if it is not subscribed."""
        names.check_topic(topic)
        if self._subscriptions.pop(topic, None) is not None and self._run is not None:
            self._run.rebalancer.wake()

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling *queues*, or all if none is given; messages already pulled are still delivered."""
        member = self._running()
        if queues:
            member.paused_queues.update(queues)
        else:
            member.paused = True

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, or all if none is given."""
        run = self._running()
        if queues:
            run.paused_queues.difference_update(queues)
        else:
            run.paused_queues.clear()
            run.paused = False
        run.rebalancer.wake()

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of this member, sorted."""
        run = self._run
        return () if run is None else tuple(sorted(q for q, pq in run.process_queues.items() if not pq.dropped))

    async def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """Wait until every topic was rebalanced, and return the queues of this member.

        Raises:
            CallTimeout: that takes longer than *timeout_s* seconds.
            NoPermission: the cluster denies access to the group.
            BrokerRefused: a broker cannot evaluate the expression of a subscription.
        """
        check_seconds(timeout_s)
        run = self._running()
        await run.wait_balanced(timeout_s)
        return self.assignment

    async def commit(self) -> None:
        """Store the offsets now, in addition to every ``commit_every_s`` seconds."""
        await self._running().store()

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with counts of its records; None without one."""
        return self._instrumentation.trace

    def _running(self) -> ConsumerRun:
        self._started()
        assert self._run is not None
        return self._run

    def _manual(self) -> ConsumerRun:
        if self.settings.auto_ack:
            raise ClientError(f"the consumer of {self.group} acknowledges automatically; create it with auto_ack=False")
        return self._running()
