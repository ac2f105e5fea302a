"""The lite pull consumer: the application polls, and says itself where to read and what is done with.

    async with LitePullConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        await consumer.subscribe("Orders")            # or: await consumer.assign(queues)
        for message in await consumer.poll(timeout_s=5):
            print(message.body)
        await consumer.commit()

    subscribed   a member of the group: queues are shared out among the members
    assigned     no member: it has the queues it names, whatever members do, and brokers see its pulls alone

What a poll returned counts as consumed at the next one, or at `commit`. With ``auto_commit`` the progress is stored
every 5 s, otherwise by `commit` alone.

Sources: apache/rocketmq client/.../consumer/DefaultLitePullConsumer.java,
client/.../impl/consumer/DefaultLitePullConsumerImpl.java. Brokers 4.9 do not know its request code (361), so pulls are
plain ones (11) here.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Unpack

import attrs

from gantrymq.client.allocation import allocation_strategy
from gantrymq.client.base import BaseClient
from gantrymq.client.connection_config import split_options
from gantrymq.client.group.consumer import ConsumerOptions, GroupOptions, RebalanceListener
from gantrymq.client.group.lite_pull_run import LitePullRun
from gantrymq.client.group.membership import join_group, subscription_of, subscriptions_of
from gantrymq.client.group.settings import ConsumerSettings, SettingOptions
from gantrymq.client.instance import ClientInstance
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

__all__ = ["LitePullConsumer", "OwnLitePullOptions"]

logger = logging.getLogger("gantrymq.client")

POLL_TIMEOUT_S: Final = 5.0
ITERATION_S: Final = 3600.0
MOST_POLLED: Final = 1024

QueuesChanged = Callable[[str, tuple[MessageQueue, ...]], object]


class OwnLitePullOptions(GroupOptions, total=False):
    """What a lite pull consumer of a `Client` takes besides group and topics."""

    auto_commit: bool


class LitePullConsumer(BaseClient):
    """Polled by one task; used as ``async with``, or between `start` and `close`."""

    def __init__(
        self,
        group: str,
        topics: str | Mapping[str, str] | None = None,
        namesrv: str | None = None,
        *,
        expression: str = ALL,
        expression_type: str = TAG,
        auto_commit: bool = True,
        on_rebalance: RebalanceListener | None = None,
        offsets_folder: str | None = None,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            group: consumer group whose progress is read and stored.
            topics: to be subscribed to from the start: one topic, or several with an expression each; None for
                `subscribe` or `assign` later.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            expression: of the one topic: ``TagA || TagB``, ``*`` for all, or what the filter type understands.
            expression_type: TAG or SQL92; of all topics.
            auto_commit: whether the progress is stored every ``commit_every_s`` seconds and at `close`.
            on_rebalance: called with the queues taken and those given up; plain or async.
            offsets_folder: for broadcasting, in place of ~/.rocketmq_offsets.
            hooks: are told of what is polled, see `gantrymq.client.tracing.hooks`.
            trace: whether that is traced in a topic of the cluster; a `MessageTrace` says how.
            **options: of `ConsumerSettings`, but those of order and of failed messages, and of `ConnectOptions`.

        Raises:
            InvalidParameter: a name or setting is not legal, or there is no option of a name given.
            PluginAbsent: no installed plugin offers the allocation strategy, which *topics* need.
        """
        names.check_group(group)
        settings, connect = split_options(type(self), options, SettingOptions.__annotations__)
        for name in ("orderly", "max_tries", "consume_timeout_s", "suspend_s"):
            if name in settings:
                raise InvalidParameter(f"{name} is no option of a lite pull consumer, whose application decides")
        self.group = group
        self.settings = ConsumerSettings(**settings)
        super().__init__(namesrv, **connect)
        self._subscriptions = subscriptions_of({} if topics is None else topics, expression, expression_type)
        self._strategy = self._loaded_strategy() if self._subscriptions else None
        self._auto_commit = auto_commit
        if on_rebalance is not None:
            check_function(on_rebalance, f"on_rebalance of {group}")
        self._on_rebalance = on_rebalance
        self._offsets_folder = offsets_folder
        self._instrumentation = Instrumentation(hooks, trace)
        self._run: LitePullRun | None = None

    def _register(self, instance: ClientInstance) -> None:
        self._run = LitePullRun(
            instance,
            self.group,
            self.settings,
            self._subscriptions,
            auto_commit=self._auto_commit,
            on_rebalance=self._on_rebalance,
            instance_name=self._connection_config.instance_name,
            offsets_folder=self._offsets_folder,
        )
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
        """What counts the records of its message trace; None where there is none."""
        return self._instrumentation.trace

    def _join(self, instance: ClientInstance, run: LitePullRun) -> None:
        """Become a member of the group. Raises ClientError: this client has one already."""
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

    # --- what is read -------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* (as well), or with another expression, as a member of the group.

        Raises:
            InvalidParameter: the topic's name is not legal.
            ClientError: queues were assigned; the client has a consumer of the group already.
            PluginAbsent: no installed plugin offers the allocation strategy, which *topics* need.
        """
        wanted = subscription_of(topic, expression, expression_type)
        run, instance = self._running(), self._started()
        if run.is_assigned:
            raise ClientError(f"the consumer of {self.group} has assigned queues; {_EITHER}")
        self._subscriptions[topic] = attrs.evolve(wanted, version=instance.world.clock.now_ms())
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
        """Consume *topic* no more: its queues are given up at once. Harmless where it was not consumed."""
        run = self._running()
        if run.is_subscribed and self._subscriptions.pop(topic, None) is not None:
            await run.give_up([queue for queue in run.member.process_queues if queue.topic == topic])
            self._started().registration.heartbeat_now()

    async def assign(
        self, queues: Iterable[MessageQueue], *, expression: str = ALL, expression_type: str = TAG
    ) -> None:
        """Read *queues* and no others; those that it had go on where they are.

        A new one begins at the group's progress, or where ``consume_from`` says.

        Args:
            queues: of `queues`.
            expression: of all their topics.
            expression_type: TAG or SQL92.

        Raises:
            ClientError: topics were subscribed to; a broker does not say where to begin, and nothing changed.
        """
        run = self._running()
        if run.is_subscribed:
            raise ClientError(f"the consumer of {self.group} has subscribed to topics; {_EITHER}")
        wanted = dict.fromkeys(queues)
        subscriptions = {topic: subscription_of(topic, expression, expression_type) for topic, _, _ in wanted}
        await run.assign(tuple(wanted), subscriptions)

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that it has, sorted."""
        return () if self._run is None else tuple(sorted(self._run.member.commit_offsets()))

    async def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """The queues that it has, once every topic subscribed to was shared out.

        Raises:
            CallTimeout: that is not so after *timeout_s* seconds.
            NoPermission: the cluster does not let the consumer in.
        """
        run = self._running()
        if run.is_subscribed:
            await run.wait_balanced(timeout_s)
        return self.assignment

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Readable queues of *topic*, as `Reader.queues`."""
        names.check_topic(topic)
        return await self._started().routes.readable_queues(topic)

    async def on_queues_changed(self, topic: str, listener: QueuesChanged) -> tuple[MessageQueue, ...]:
        """Call ``listener(topic, queues)`` whenever the queues of *topic* change; looked at every 30 s.

        *listener* may be plain or async; what it raises is logged. Returns the queues of now. Raises as `queues`, and
        InvalidParameter: *listener* is not callable or a generator function.
        """
        check_function(listener, f"the listener of {topic}")
        run, now = self._running(), await self.queues(topic)
        run.watch(topic, now, listener)
        return now

    # --- messages -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = POLL_TIMEOUT_S, max_count: int = 32) -> tuple[ReceivedMessage, ...]:
        """Messages of one queue, as many as wait there; those of the poll before count as consumed.

        Args:
            timeout_s: how long to wait for the first one; 0 for what is there.
            max_count: messages, at most; 1 to 1024.

        Returns:
            Nothing when the time is over, or the consumer was closed meanwhile.

        Raises:
            InvalidParameter: an argument is out of bounds.
            ClientError: nothing is subscribed to or assigned.
        """
        if not 1 <= max_count <= MOST_POLLED or timeout_s < 0:
            raise InvalidParameter(
                f"poll(timeout_s={timeout_s}, max_count={max_count}); expected 0 s or more, and 1 to {MOST_POLLED}"
            )
        run = self._running()
        if not run.is_subscribed and not run.is_assigned:
            raise ClientError(f"the consumer of {self.group} has nothing to poll; subscribe or assign first")
        return await run.poll(max_count, timeout_s)

    async def __aiter__(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Messages one by one, each polled: it counts as consumed when the loop asks for the next one."""
        deliveries = self._running().member.deliveries
        while not deliveries.closed:
            for message in await self.poll(ITERATION_S, 1):
                yield message

    def pause(self, *queues: MessageQueue) -> None:
        """Pull *queues* no more, all that it has where none is named; what is pulled is still polled."""
        run = self._running()
        run.member.paused_queues.update(queues or run.member.process_queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, all where none is named."""
        paused = self._running().member.paused_queues
        paused.difference_update(queues or tuple(paused))

    # --- places -------------------------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at *offset* of *queue*: what was pulled of it and not polled is forgotten.

        Args:
            queue: of `assignment`.
            offset: queue offset of the next message, from the queue's first to its end.

        Raises:
            ClientError: the queue is not assigned to this consumer.
            InvalidParameter: it has no such offset.
            NoRoute, BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not say.
        """
        run = self._running()
        run.process_queue_of(queue)
        offsets = run.member.offsets
        least, end = await asyncio.gather(offsets.min_offset(queue), offsets.max_offset(queue))
        if not least <= offset <= end:
            raise InvalidParameter(f"offset {offset} cannot be sought: {queue} has {least} to {end}")
        run.restart(run.process_queue_of(queue), offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """`seek` to the first message that the queue still has. Raises as `seek`."""
        run = self._running()
        run.process_queue_of(queue)
        least = await run.member.offsets.min_offset(queue)
        run.restart(run.process_queue_of(queue), least)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """`seek` to the message that comes next. Raises as `seek`."""
        run = self._running()
        run.process_queue_of(queue)
        end = await run.member.offsets.max_offset(queue)
        run.restart(run.process_queue_of(queue), end)

    def position(self, queue: MessageQueue) -> int:
        """The offset that `poll` goes on at. Raises ClientError: the queue is not assigned to this consumer."""
        pq = self._running().process_queue_of(queue)
        return pq.waiting[0].queue_offset if pq.waiting else pq.next_offset

    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return await self._running().member.offsets.offset_for_timestamp(queue, time_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset in *queue*, None when it has none."""
        return await self._running().committed(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store the progress; done when the brokers have it.

        Args:
            offsets: of the next message to consume, for queues of `assignment`; None for what was polled so far in
                all of them, which counts as consumed from now on.

        Raises:
            ClientError: a queue is not assigned to this consumer.
            InvalidParameter: an offset is below 0 or beyond the end of its queue.
            NoRoute, BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: not all of it is stored.
        """
        run = self._running()
        if offsets is None:
            run.finish_polled()
            await run.commit_reached()
            return
        for queue, offset in offsets.items():
            run.process_queue_of(queue)
            end = await run.member.offsets.max_offset(queue)
            if not 0 <= offset <= end:
                raise InvalidParameter(f"offset {offset} cannot be committed: {queue} ends at {end}")
        await run.commit(offsets)

    def _running(self) -> LitePullRun:
        self._started()
        assert self._run is not None
        return self._run


_EITHER: Final = "a consumer either subscribes or assigns: make another one for the other"
