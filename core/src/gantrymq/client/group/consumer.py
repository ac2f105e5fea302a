"""The consumer of a group.

    async with Consumer("billing", "Orders", "127.0.0.1:9876") as consumer:
        async for message in consumer:
            print(message.body)

The queues of its topics are shared out among the members of its group; a message is consumed when the loop asks for the
next one, and what is not consumed is delivered again, here or to another member. So a message comes at least once.

Sources: apache/rocketmq client/.../consumer/DefaultMQPushConsumer.java,
client/.../impl/consumer/DefaultMQPushConsumerImpl.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Unpack

import attrs

from gantrymq.client.allocation import allocation_strategy
from gantrymq.client.base import BaseClient
from gantrymq.client.connection_config import ConnectOptions, split_options
from gantrymq.client.group.consumer_run import ConsumerRun
from gantrymq.client.group.handlers import Handler, run_handler
from gantrymq.client.group.membership import join_group, subscription_of, subscriptions_of
from gantrymq.client.group.rebalancer import RebalanceListener
from gantrymq.client.group.settings import ConsumerSettings, SettingOptions
from gantrymq.client.group.streams import BatchIterator, Chunks, MessageIterator
from gantrymq.client.instance import ClientInstance
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hooks import ConsumeOutcome
from gantrymq.client.tracing.instrumentation import Instrumentation, InstrumentationOptions
from gantrymq.client.user_functions import check_function
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG, Subscription

if TYPE_CHECKING:
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = ["Consumer", "ConsumerOptions", "GroupOptions", "OwnConsumerOptions", "RebalanceListener"]

logger = logging.getLogger("gantrymq.client")

CONCURRENCY: Final = 20


class GroupOptions(InstrumentationOptions, SettingOptions, total=False):
    """Options that consumers and lite pull consumers share; meanings and defaults are said there."""

    expression: str
    expression_type: str
    on_rebalance: RebalanceListener | None
    offsets_folder: str | None


class OwnConsumerOptions(GroupOptions, total=False):
    """What a consumer of a `Client` takes besides group and topics."""

    auto_ack: bool


class ConsumerOptions(SettingOptions, ConnectOptions, total=False):
    """What a `Consumer` takes besides its own keywords."""


class Consumer(BaseClient):
    """A member of a consumer group; used as ``async with``, or between `start` and `close`.

    Attributes:
        group: its name.
        settings: what was given, and the defaults.
    """

    def __init__(
        self,
        group: str,
        topics: str | Mapping[str, str],
        namesrv: str | None = None,
        *,
        expression: str = ALL,
        expression_type: str = TAG,
        auto_ack: bool = True,
        on_rebalance: RebalanceListener | None = None,
        offsets_folder: str | None = None,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            group: consumer group; its members share out the queues, and all have the same subscriptions.
            topics: one topic, or several with an expression each.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            expression: of the one topic: ``TagA || TagB``, ``*`` for all, or what the filter type understands.
            expression_type: TAG or SQL92; of all topics.
            auto_ack: whether asking a loop for the next message acknowledges the one before; false for `ack`.
            on_rebalance: called with the queues taken and those given up; plain or async, the next rebalance waits for
                it. What it raises is logged.
            offsets_folder: for broadcasting, in place of ~/.rocketmq_offsets.
            hooks: are told of what is consumed, see `gantrymq.client.tracing.hooks`.
            trace: whether that is traced in a topic of the cluster; a `MessageTrace` says how.
            **options: of `ConsumerSettings`, such as ``orderly=True`` or ``consume_from="first"``, and of
                `ConnectOptions`.

        Raises:
            InvalidParameter: a name or setting is not legal, or there is no option of a name given.
            PluginAbsent: no installed plugin offers the allocation strategy.
        """
        names.check_group(group)
        self.group = group
        settings, connect = split_options(type(self), options, SettingOptions.__annotations__)
        self.settings = ConsumerSettings(**settings)
        super().__init__(namesrv, **connect)
        self._subscriptions = subscriptions_of(topics, expression, expression_type)
        if not self.settings.broadcasting:
            self._subscriptions[names.RETRY_PREFIX + group] = Subscription(names.RETRY_PREFIX + group)
        self._strategy = allocation_strategy(
            self.settings.allocation, dict(self.settings.allocation_settings), logger.warning
        )
        self._auto_ack = auto_ack
        if on_rebalance is not None:
            check_function(on_rebalance, f"on_rebalance of {group}")
        self._on_rebalance = on_rebalance
        self._offsets_folder = offsets_folder
        self._instrumentation = Instrumentation(hooks, trace)
        self._run: ConsumerRun | None = None

    def _register(self, instance: ClientInstance) -> None:
        join_group(instance, self.group, "CONSUME_PASSIVELY", self.settings, self._subscriptions)
        self._run = ConsumerRun(
            instance,
            self.group,
            self.settings,
            self._subscriptions,
            self._strategy,
            on_rebalance=self._on_rebalance,
            instance_name=self._connection_config.instance_name,
            offsets_folder=self._offsets_folder,
            instrumentation=self._instrumentation,
        )

    def closed_by(self, task: asyncio.Task[Any] | None) -> None:
        """As promised; those that wait for *task* need not any more."""
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
        """Messages one by one; each loop has its own, so that several tasks may have one.

        A loop that asks for the next one acknowledges the one before, unless the consumer was made with
        ``auto_ack=False``; one that is left gives its message back. It ends when the consumer is closed. Look at
        `body_problem` of each message before you read its body.

        Raises:
            NoPermission: the cluster does not let the consumer in.
        """
        run = self._running()
        return MessageIterator(run.member, run.in_flight, 1, None if self._auto_ack else run.in_flight.unacked)

    def batches(self, most: int = 32) -> BatchIterator:
        """Up to *most* messages of one queue at a time, as many as wait there.

        Raises:
            InvalidParameter: *most* is not 1 to 1024.
        """
        if not 1 <= most <= 1024:
            raise InvalidParameter(f"batches of {most} messages; expected 1 to 1024")
        run = self._running()
        return BatchIterator(run.member, run.in_flight, most, None if self._auto_ack else run.in_flight.unacked)

    def chunks(self) -> Chunks:
        """What a loop of `gantrymq.client.sync` takes its messages from."""
        run = self._running()
        return Chunks(run.member, run.in_flight)

    async def run(self, handler: Handler, *, concurrency: int = CONCURRENCY, batch_size: int | None = None) -> None:
        """Give messages to *handler* until the consumer is closed.

        Args:
            handler: of one message, or with *batch_size* of a list of up to so many of one queue; an async function
                runs in the event loop, a plain one in a thread. It has consumed them when it returns, and what it
                returned was awaited if that is awaitable; one of batches that returns a number has consumed so many,
                from the first on. What it raises is logged, a CancelledError of its own as well, and the messages are
                delivered again, as `ReconsumeLater` says.
            concurrency: calls at a time, 1 and more.
            batch_size: 1 to 1024; None for messages one by one.

        Raises:
            InvalidParameter: a number is out of bounds, or *handler* is not callable or a generator function.
            NoPermission: the cluster does not let the consumer in.
            KeyboardInterrupt, SystemExit: *handler* raised it; its messages are given back.
        """
        run = self._running()
        await run_handler(run.member, run.in_flight, handler, concurrency=concurrency, batch_size=batch_size)

    def ack(self, message: ReceivedMessage) -> bool:
        """*message* is consumed. False where it is another member's by now, or was acknowledged before.

        The progress reaches the broker within ``commit_every_s`` seconds, and at `close`.

        Raises:
            ClientError: the consumer acknowledges by itself.
        """
        run = self._manual()
        unacked = run.in_flight.unacked
        pq = unacked.pop(message)
        acknowledged = pq is not None and run.in_flight.done(pq, [message]) > 0
        unacked.settle(message, ConsumeOutcome.SUCCESS if acknowledged else ConsumeOutcome.GIVEN_BACK)
        return acknowledged

    async def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """*message* was not consumed and is delivered again later; as `ReconsumeLater` says of *delay_level*.

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
        """A ``with`` around the processing of *messages*, one or several, in one task.

        Hooks are told of its beginning and end, so that the span of OpenTelemetry for a message is the current one.

        Raises:
            ClientError: the consumer acknowledges by itself; there the messages are processed in the loop or handler.
        """
        return self._manual().in_flight.unacked.processing(messages)

    async def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* as well, or with another expression. Raises InvalidParameter: its name is not legal."""
        wanted = self._subscriptions[topic] = subscription_of(topic, expression, expression_type)
        if self._run is not None:
            instance = self._started()
            self._subscriptions[topic] = attrs.evolve(wanted, version=instance.world.clock.now_ms())
            instance.registration.heartbeat_now()
            self._run.rebalancer.wake()

    async def unsubscribe(self, topic: str) -> None:
        """Consume *topic* no more; harmless where it was not consumed."""
        if self._subscriptions.pop(topic, None) is not None and self._run is not None:
            self._run.rebalancer.wake()

    def pause(self, *queues: MessageQueue) -> None:
        """Pull *queues* no more, all where none is named; what is pulled is still handed out."""
        member = self._running().member
        if queues:
            member.paused_queues.update(queues)
        else:
            member.paused = True

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, all where none is named."""
        run = self._running()
        if queues:
            run.member.paused_queues.difference_update(queues)
        else:
            run.member.paused_queues.clear()
            run.member.paused = False
        run.rebalancer.wake()

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of this member, sorted."""
        run = self._run
        return () if run is None else tuple(sorted(q for q, pq in run.member.process_queues.items() if not pq.dropped))

    async def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """The queues of this member, once every topic was shared out.

        Raises:
            CallTimeout: that is not so after *timeout_s* seconds.
            NoPermission: the cluster does not let the consumer in.
        """
        run = self._running()
        await run.wait_balanced(timeout_s)
        return self.assignment

    async def commit(self) -> None:
        """Store the progress now; by itself that happens every ``commit_every_s`` seconds."""
        await self._running().store()

    @property
    def trace(self) -> MessageTrace | None:
        """What counts the records of its message trace; None where there is none."""
        return self._instrumentation.trace

    def _running(self) -> ConsumerRun:
        self._started()
        assert self._run is not None
        return self._run

    def _manual(self) -> ConsumerRun:
        if self._auto_ack:
            raise ClientError(f"the consumer of {self.group} acknowledges by itself; make it with auto_ack=False")
        return self._running()
