"""The lite pull consumer: the application polls messages and controls positions and commits.

    consumer = client.lite_pull("billing")
    await consumer.subscribe("Orders")            # or: await consumer.assign(queues)
    for message in await consumer.poll(timeout_s=5):
        print(message.body)
    await consumer.commit()

    subscribed   a member of the group: its queues are assigned by the rebalance
    assigned     not a member: it reads the queues it names, independent of members; brokers see only its pulls

Messages of a poll count as consumed at the next poll, or at `commit`. With ``auto_commit`` the offsets are stored every
5 s, otherwise only by `commit`.

Sources: apache/rocketmq client/.../consumer/DefaultLitePullConsumer.java,
client/.../impl/consumer/DefaultLitePullConsumerImpl.java. Brokers 4.9 do not know its request code (361), so plain
pulls (11) are sent here.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from gantrymq.client.argument_types import check_kind, check_mapping, check_number, check_seconds, shown
from gantrymq.client.calls.connection_config import settings_of
from gantrymq.client.connection.base import Part
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.lite_pull_run import LitePullRun
from gantrymq.client.group.membership import join_group, subscription_of, subscriptions_of
from gantrymq.client.group.settings import LitePullSettings, allocation_strategy
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.instrumentation import Instrumentation
from gantrymq.client.user_functions import check_function
from gantrymq.errors import ClientError, GantryError, InvalidParameter
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG

if TYPE_CHECKING:
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

logger = logging.getLogger("gantrymq.client")

_POLL_TIMEOUT_S: Final = 5.0  # pollTimeoutMillis of DefaultLitePullConsumer
_ITERATION_S: Final = 3600.0  # timeout of one poll of a loop, which then polls again
_MAX_POLLED: Final = 1024  # messages per poll

QueuesChanged = Callable[[str, tuple[MessageQueue, ...]], object]


class LitePullConsumer(Part):
    """A consumer polled by one task; created by `Client.lite_pull`, usable until `close`."""

    def __init__(
        self,
        group: str,
        topics: str | Mapping[str, str] | None = None,
        *,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **settings: Any,
    ) -> None:
        """Store the options, as `Client.lite_pull` passes them on; *settings* are those of `LitePullSettings`.

        Raises:
            InvalidParameter: a name or setting is not valid, or an option does not exist.
            PluginAbsent: no installed plugin offers the allocation strategy, which *topics* need.
        """
        super().__init__()
        names.check_group(group)
        for name in ("auto_ack", "orderly", "max_tries", "consume_timeout_s", "failure_chars", "suspend_s"):
            if name in settings:
                raise InvalidParameter(
                    f"{name} is not an option of a lite pull consumer, whose application decides on it"
                )
        self.group = group
        self.settings = settings_of(type(self), LitePullSettings, settings)
        self._subscriptions = subscriptions_of(
            {} if topics is None else topics, self.settings.expression, self.settings.expression_type
        )
        self._strategy = self._loaded_strategy() if self._subscriptions else None
        if self.settings.on_rebalance is not None:
            check_function(self.settings.on_rebalance, f"on_rebalance of {group}")
        self._instrumentation = Instrumentation(hooks, trace)
        self._run: LitePullRun | None = None

    def _register(self, instance: ClientInstance) -> None:
        self._run = LitePullRun(instance, self.group, self.settings, self._subscriptions)
        if self._subscriptions:
            try:
                self._join(instance, self._run)
            except ClientError:
                self._run = None
                raise
        self._run.hooks = self._instrumentation.consumptions(
            instance, self.group, broadcasting=self.settings.broadcasting, consume_timeout_s=math.inf
        )
        self._run.start()

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with counts of its records; None without one."""
        return self._instrumentation.trace

    def _join(self, instance: ClientInstance, run: LitePullRun) -> None:
        """Become a member of the group. Raises ClientError: this client already has a consumer of it."""
        strategy = self._strategy = self._strategy or self._loaded_strategy()
        join_group(instance, self.group, "CONSUME_ACTIVELY", self.settings, self._subscriptions)
        run.start_rebalancing(strategy)

    def _loaded_strategy(self) -> AllocationStrategy:
        settings = self.settings
        return allocation_strategy(settings.allocation, dict(settings.allocation_settings), logger.warning)

    async def _finish(self) -> None:
        if self._run is not None:
            self._run.stop_delivery()

    async def _unregister(self, instance: ClientInstance) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.end()
            await self._instrumentation.close()
            if run.is_subscribed:
                await instance.registration.remove_consumer(self.group)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* as well, or with another expression, as a member of the group.

        Raises:
            InvalidParameter: the name of the topic is not valid.
            BrokerRefused: a broker cannot evaluate the expression; nothing was changed.
            ClientError: queues were assigned, or the client already has a consumer of the group.
            PluginAbsent: no installed plugin offers the allocation strategy.
        """
        subscription = subscription_of(topic, expression, expression_type)
        run, instance = self._running(), self._started()
        if run.is_assigned:
            raise ClientError(f"the consumer of {self.group} has assigned queues; {_EITHER}")
        await run.check_filter(subscription)
        self._subscriptions[topic] = attrs.evolve(subscription, version=instance.world.clock.now_ms())
        if run.is_subscribed:
            instance.registration.heartbeat_now()
            run.rebalancer.wake()
            return
        try:
            self._join(instance, run)
        except GantryError:
            del self._subscriptions[topic]
            raise

    async def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic* and give up its queues at once. Does nothing if it is not subscribed."""
        run = self._running()
        if run.is_subscribed and self._subscriptions.pop(topic, None) is not None:
            await run.give_up([queue for queue in run.process_queues if queue.topic == topic])
            self._started().registration.heartbeat_now()

    async def assign(
        self, queues: Iterable[MessageQueue], *, expression: str = ALL, expression_type: str = TAG
    ) -> None:
        """Read exactly *queues*; queues that were assigned before keep their positions.

        A new queue starts at the stored offset of the group, or as ``consume_from`` says.

        Args:
            queues: as returned by `queues`.
            expression: for all their topics.
            expression_type: TAG or SQL92.

        Raises:
            ClientError: topics were subscribed to, a broker cannot evaluate the expression, or does not return the
                start offset; nothing was changed.
        """
        run = self._running()
        if run.is_subscribed:
            raise ClientError(f"the consumer of {self.group} has subscribed to topics; {_EITHER}")
        unique = dict.fromkeys(_check_queues(queues))
        subscriptions = {topic: subscription_of(topic, expression, expression_type) for topic, _, _ in unique}
        await asyncio.gather(*map(run.check_filter, subscriptions.values()))
        await run.assign(tuple(unique), subscriptions)

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The assigned queues, sorted."""
        return () if self._run is None else tuple(sorted(self._run.commit_offsets()))

    async def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """Wait until every subscribed topic was rebalanced, and return the assigned queues.

        Raises:
            CallTimeout: that takes longer than *timeout_s* seconds.
            NoPermission: the cluster denies access to the group.
            BrokerRefused: a broker cannot evaluate the expression of a subscription.
        """
        check_seconds(timeout_s)
        run = self._running()
        if run.is_subscribed:
            await run.wait_balanced(timeout_s)
        return self.assignment

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of *topic*, as `Reader.queues`."""
        names.check_topic(topic)
        return await self._started().routes.readable_queues(topic)

    async def on_queues_changed(self, topic: str, listener: QueuesChanged) -> tuple[MessageQueue, ...]:
        """Call ``listener(topic, queues)`` when the queues of *topic* change; checked every 30 s.

        *listener* may be plain or async; its exceptions are logged. Return the current queues. Raises as `queues`, and
        InvalidParameter if *listener* is not callable or a generator function.
        """
        check_function(listener, f"the listener of {topic}")
        run, now = self._running(), await self.queues(topic)
        run.watch(topic, now, listener)
        return now

    # --- messages -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = _POLL_TIMEOUT_S, max_count: int = 32) -> tuple[ReceivedMessage, ...]:
        """Return the waiting messages of one queue; messages of the previous poll count as consumed.

        Args:
            timeout_s: how long to wait for a message; 0 not to wait.
            max_count: maximum number of messages; 1 to 1024.

        Returns:
            Messages; none after *timeout_s*, or if the consumer was closed meanwhile.

        Raises:
            InvalidParameter: an argument is out of bounds.
            ClientError: no topic is subscribed and no queue assigned.
        """
        check_number("timeout_s", timeout_s, 0)
        check_number("max_count", max_count, 1, _MAX_POLLED, whole=True)
        run = self._running()
        if not run.is_subscribed and not run.is_assigned:
            raise ClientError(f"the consumer of {self.group} has nothing to poll; subscribe or assign first")
        return await run.poll(max_count, timeout_s)

    async def __aiter__(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Poll messages one by one; a message counts as consumed when the loop requests the next one."""
        deliveries = self._running().deliveries
        while not deliveries.closed:
            for message in await self.poll(_ITERATION_S, 1):
                yield message

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling *queues*, or all assigned queues if none is given; messages already pulled are still polled."""
        run = self._running()
        run.paused_queues.update(queues or run.process_queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, or all if none is given."""
        paused = self._running().paused_queues
        paused.difference_update(queues or tuple(paused))

    # --- positions ----------------------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset* of *queue*; messages pulled but not polled are discarded.

        Args:
            queue: one of `assignment`.
            offset: queue offset of the next message, from the first offset of the queue to its end.

        Raises:
            ClientError: the queue is not assigned to this consumer.
            InvalidParameter: the queue does not have this offset.
            NoRoute, BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not answer.
        """
        run = self._running()
        run.process_queue_of(queue)
        offsets = run.offsets
        begin, end = await asyncio.gather(offsets.min_offset(queue), offsets.max_offset(queue))
        if not begin <= offset <= end:
            raise InvalidParameter(f"cannot seek to offset {offset}: {queue} has {begin} to {end}")
        run.restart(run.process_queue_of(queue), offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """`seek` to the first message of the queue. Raises as `seek`."""
        run = self._running()
        run.process_queue_of(queue)
        begin = await run.offsets.min_offset(queue)
        run.restart(run.process_queue_of(queue), begin)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """`seek` to the end of the queue. Raises as `seek`."""
        run = self._running()
        run.process_queue_of(queue)
        end = await run.offsets.max_offset(queue)
        run.restart(run.process_queue_of(queue), end)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to poll.

        Raises:
            ClientError: the queue is not assigned to this consumer.
        """
        pq = self._running().process_queue_of(queue)
        return pq.waiting[0].queue_offset if pq.waiting else pq.next_offset

    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return await self._running().offsets.offset_for_timestamp(queue, time_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of the group in *queue*, None if it has none."""
        return await self._running().committed(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets; returns when the brokers have them.

        Args:
            offsets: of the next message to consume, for queues of `assignment`; None for the current offset of all
                queues, where all messages polled so far count as consumed.

        Raises:
            ClientError: a queue is not assigned to this consumer.
            InvalidParameter: an offset is below 0 or beyond the end of its queue.
            NoRoute, BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: some offsets are not stored.
        """
        run = self._running()
        if offsets is None:
            run.finish_polled()
            await run.commit_current()
            return
        check_mapping("offsets", offsets)
        for queue, offset in offsets.items():
            run.process_queue_of(queue)
            end = await run.offsets.max_offset(queue)
            if not 0 <= offset <= end:
                raise InvalidParameter(f"offset {offset} cannot be committed: {queue} ends at {end}")
        await run.commit(offsets)

    def _running(self) -> LitePullRun:
        self._started()
        assert self._run is not None
        return self._run


_EITHER: Final = "a consumer either subscribes or assigns: create a second consumer for the other"


def _check_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    if not isinstance(queues, Iterable):
        raise InvalidParameter(f"queues is {shown(queues)}; expected a list of MessageQueue")
    found = list(queues)
    for queue in found:
        check_kind("a queue", queue, MessageQueue)
    return found
