"""The service ``lite``: lite topics of one broker.

Messages and the committed offsets of groups are on the disk. Subscriptions and what is delivered are in memory, as in
RocketMQ: after a restart, and on a new master, clients send their complete sets again, and unacknowledged messages are
delivered again at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from gantrymq.errors import (
    LiteSubscriptionQuotaExceeded,
    LiteTopicIllegal,
    PoppedMessageGone,
    ReceiptIllegal,
    ServiceNotAvailable,
)
from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import (
    Broker,
    ClientChannel,
    InvisibleTime,
    LiteAction,
    LiteGroup,
    LiteMessage,
    LiteRequest,
    LiteSubscription,
    MetricFamily,
    OffsetKind,
    OffsetOption,
    PopAnswer,
    SendBackRequest,
)
from gantrymq.plugin.model import (
    LIGHT_QUEUE_ID,
    POP_ORDER_REVIVE_QUEUE,
    LiteUnsubscription,
    Principal,
    Queue,
    Role,
    check_lite_topic,
    light_queue_offsets,
    lite_queue,
    lite_topic_of,
)
from gantrymq.plugin.remoting import Command, Connection, Handler, handlers_of
from gantrymq.plugin.world import Timer, TimeSlices
from gantrymq_lite.attributes import light_queues_problem, lite_group, resets
from gantrymq_lite.checks import LiteChecks, check_invisible
from gantrymq_lite.in_flight import InFlight
from gantrymq_lite.interceptor import LiteTopicInterceptor
from gantrymq_lite.lite_topics import LiteTopics
from gantrymq_lite.receives import Receives
from gantrymq_lite.requests import LiteRequests
from gantrymq_lite.subscriptions import Consumer, Subscriptions

log = logging.getLogger(__name__)
REQUESTS: Final = handlers_of(LiteRequests)
_GIVEN_BACK_MS: Final = 1000  # as for pops
_FIRST: Final = OffsetOption(OffsetKind.POLICY, 1)
_TOGETHER: Final = 64


class LiteService:
    """The service ``lite`` (`gantrymq.interfaces.LiteService`) and its handlers."""

    name = "lite"
    roles = frozenset({Role.MASTER})

    def __init__(self) -> None:
        self.interceptor = LiteTopicInterceptor()
        self._handlers: dict[int, Handler] = {}
        self._timers: dict[str, Timer] = {}  # by the setting of their interval
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, request: Command, connection: Connection) -> Any:
        """Answer a request with a code in `REQUESTS`."""
        self._check_running()
        return self._handlers[request.code](request, connection)

    # --- groups and subscriptions -----------------------------------------------------------------------------------

    def group(self, name: str) -> LiteGroup | None:
        """Return the attributes of a group of lite topics."""
        self._check_running()
        return lite_group(self._broker.groups.get(name))

    def check_consumer(self, group: str, topic: str, principal: Principal | None = None) -> None:
        """Check that a group may consume the lite topics of *topic*."""
        self._check_running()
        self._checks.consumer(group, topic, principal)

    async def subscribe(self, change: LiteSubscription, client: ClientChannel) -> None:
        """Change the subscriptions of a client."""
        if change.action is LiteAction.COMPLETE_REMOVE:
            self._check_running()
            self._broker.access.check_consumer(change.principal, change.group, change.topic)
            self.client_gone(change.group, change.client_id)
            return
        self.check_consumer(change.group, change.topic, change.principal)
        for each in change.lite_topics:
            check_lite_topic(each)
        asked = [lite_queue(change.topic, each) for each in change.lite_topics]
        consumer = self._subscriptions.get(change.group, change.client_id)
        now_ms = self._broker.world.clock.now_ms()
        if consumer is None or consumer.topic != change.topic:
            self.client_gone(change.group, change.client_id)
            consumer = Consumer(change.group, change.client_id, change.topic, client, now_ms)
        consumer.channel, consumer.heard_ms = client, now_ms
        if change.action is LiteAction.PARTIAL_REMOVE:
            gone = self._subscriptions.remove(consumer, asked)
            if resets(self._broker.groups.get(change.group), "unsubscribe"):
                for each in gone:
                    await self._begin(change.group, each, _FIRST)
        elif change.action is LiteAction.PARTIAL_ADD:
            await self._add(consumer, asked, change.offset)
        else:
            await self._complete(consumer, asked)

    async def _add(self, consumer: Consumer, asked: list[str], offset: OffsetOption | None) -> None:
        most = self._broker.settings.number("maxLiteSubscriptionCount")
        if asked and self._subscriptions.count >= most:
            raise LiteSubscriptionQuotaExceeded(
                f"there are {self._subscriptions.count} subscriptions of lite topics, and maxLiteSubscriptionCount is "
                f"{most}; unsubscribe from lite topics that are not used, or allow more with: gantrymq broker config "
                "set maxLiteSubscriptionCount=N"
            )
        group = consumer.group
        bound = self.group(group)
        for each in asked:
            others = self._others(consumer, each) if bound is not None and bound.exclusive else []
            for other in others:
                self._subscriptions.remove(other, [each])
                self._unsubscribed(other, each)
            if others and resets(self._broker.groups.get(group), "exclusive"):
                await self._begin(group, each, _FIRST)
            if offset is not None:
                await self._begin(group, each, offset)
            self._subscriptions.add(consumer, [each])
            self._receives.mark_if_free((each, group))

    async def _complete(self, consumer: Consumer, asked: list[str]) -> None:
        bound = self.group(consumer.group)
        if bound is not None and bound.exclusive:
            for each in asked:
                if self._others(consumer, each):  # the client did not get the news that another one has it
                    self._unsubscribed(consumer, each)
            asked = [each for each in asked if not self._others(consumer, each)]
        wanted = set(asked)
        self._subscriptions.remove(consumer, [each for each in consumer.queues if each not in wanted])
        self._subscriptions.add(consumer, asked)
        slices = TimeSlices(self._broker.world.clock, _TOGETHER)
        for each in asked:  # all of them: an offset may have been reset since the last time
            if each in consumer.queues and each not in consumer.marks:
                self._receives.mark_if_free((each, consumer.group))
            await slices.item_done()

    def _others(self, consumer: Consumer, light_queue: str) -> list[Consumer]:
        of_group = next(self._subscriptions.of_queue(light_queue, consumer.group), [])
        return [each for each in of_group if each is not consumer]

    def _unsubscribed(self, consumer: Consumer, light_queue: str) -> None:
        names = lite_topic_of(light_queue)
        if names is not None:
            consumer.channel.lite_unsubscribed(LiteUnsubscription(consumer.group, consumer.client_id, *names))

    async def _begin(self, group: str, light_queue: str, option: OffsetOption) -> None:
        """Let a group begin at another message of a light queue."""
        queue = Queue(light_queue, LIGHT_QUEUE_ID)
        committed = self._broker.offsets.committed(group, queue)
        at: int | None = None
        match option:
            case OffsetKind.POLICY, 1:
                at = 0
            case OffsetKind.POLICY, 2:
                at = self._broker.store.bounds(queue).max_offset
            case OffsetKind.OFFSET, value:
                at = value
            case OffsetKind.TAIL_N, value if committed is not None:
                at = committed - value
            case OffsetKind.TIMESTAMP, value:
                at = await self._broker.messages.offset_at(queue, value)
        if at is None:
            return
        at = max(0, min(at, self._broker.store.bounds(queue).max_offset))
        if at != committed:
            self._broker.offsets.take_reset(group, queue)
            self._broker.offsets.commit(group, queue, at)
            self._in_flight.clear((light_queue, group))

    def client_gone(self, group: str, client_id: str) -> None:
        """Remove all subscriptions of a client that is gone."""
        if not self._handlers:
            return
        consumer = self._subscriptions.get(group, client_id)
        if consumer is not None:
            self._subscriptions.remove(consumer, list(consumer.queues))

    # --- messages ---------------------------------------------------------------------------------------------------

    async def receive(self, request: LiteRequest, client: ClientChannel) -> PopAnswer:
        """Return messages of the client's lite topics, waiting as long as the request allows."""
        self._check_running()
        return await self._receives.receive(request, client)

    async def ack(self, message: LiteMessage) -> None:
        """Acknowledge a message."""
        queue, offset = self._named(message)
        group = message.group
        committed = self._broker.offsets.committed(group, queue)
        first = self._broker.store.bounds(queue).min_offset
        key = queue.topic, group
        position = self._in_flight.acknowledged(key, offset, message.receipt.pop_ms, max(committed or 0, first))
        if position is not None and position > (committed or 0):
            self._broker.offsets.commit(group, queue, position)
        if position is not None:
            self._receives.mark_if_free(key)

    async def change_invisible_time(self, message: LiteMessage, invisible_ms: int) -> InvisibleTime:
        """Make a message visible again *invisible_ms* from now."""
        check_invisible(invisible_ms)
        queue, offset = self._named(message)
        pop_ms, key = message.receipt.pop_ms, (queue.topic, message.group)
        at_ms = self._broker.world.clock.now_ms() + invisible_ms
        if self._in_flight.visible_later(key, offset, pop_ms, at_ms):
            self._receives.mark_if_free(key)
        return InvisibleTime(pop_ms, at_ms - pop_ms, POP_ORDER_REVIVE_QUEUE)

    def is_delivered(self, message: LiteMessage) -> bool:
        """Return whether a message was delivered last under its receipt, and is neither acknowledged nor visible."""
        self._check_running()
        queue = self._queue_of(message)
        return self._in_flight.is_open(
            (queue.topic, message.group), message.receipt.queue_offset, message.receipt.pop_ms
        )

    def renew(self, message: LiteMessage, invisible_ms: int) -> Sequence[int]:
        """Let the unacknowledged messages of a delivery stay invisible."""
        check_invisible(invisible_ms)
        self._check_running()
        at_ms = self._broker.world.clock.now_ms() + invisible_ms
        return self._in_flight.renew((self._queue_of(message).topic, message.group), message.receipt.pop_ms, at_ms)

    def give_back(self, messages: Sequence[LiteMessage]) -> None:
        """Make received messages that did not reach their consumer visible again, one second from now."""
        if not self._handlers:
            return
        at_ms = self._broker.world.clock.now_ms() + _GIVEN_BACK_MS
        for each in messages:
            key = self._queue_of(each).topic, each.group
            if self._in_flight.visible_later(key, each.receipt.queue_offset, each.receipt.pop_ms, at_ms):
                self._receives.mark_if_free(key)

    async def forward_to_dead_letters(self, message: LiteMessage, log_offset: int) -> None:
        """Store a copy of a message in the group's dead letter topic, then acknowledge it."""
        queue, offset = self._named(message)
        record = await self._broker.messages.view(log_offset)
        if (queue.topic, offset) not in light_queue_offsets(record.topic, record.properties):
            raise ReceiptIllegal(
                f"log offset {log_offset} has another message than message {offset} of the lite topic "
                f"{message.lite_topic} that the receipt handle names; pass on the handle as the message had it"
            )
        await self._broker.messages.send_back(
            SendBackRequest(message.group, log_offset, delay_level=-1, principal=message.principal)
        )
        await self.ack(message)

    def _named(self, message: LiteMessage) -> tuple[Queue, int]:
        """Return the queue and the queue offset of a message. Raises as `ack`."""
        self.check_consumer(message.group, message.topic, message.principal)
        queue, offset = self._queue_of(message), message.receipt.queue_offset
        end = self._broker.store.bounds(queue).max_offset
        if not 0 <= offset < end:
            raise PoppedMessageGone(
                f"the lite topic {message.lite_topic} of {message.topic} has no message {offset}, it ends before "
                f"{end}; name the lite topic of the message"
            )
        return queue, offset

    def _queue_of(self, message: LiteMessage) -> Queue:
        lite_topic, at = message.lite_topic, message.receipt.log_offset
        if not lite_topic and at is not None:
            record = self._broker.messages.read(at)
            if record is not None and record.topic == message.topic:
                lite_topic = record.properties.get(props.LITE_TOPIC, "")
        if not lite_topic:
            raise LiteTopicIllegal(
                f"group {message.group} consumes lite topics, and the request does not name the message's lite topic; "
                "name it, or update the SDK"
            )
        check_lite_topic(lite_topic)
        return Queue(lite_queue(message.topic, lite_topic), LIGHT_QUEUE_ID)

    # --- life -------------------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if not self._handlers:
            raise ServiceNotAvailable(
                "lite topics are not served by this broker now: it is a replica, or it starts or stops; ask its "
                "master, or again in a moment"
            )

    async def start(self, broker: Broker) -> None:
        """Start serving."""
        self._broker = broker
        self._checks = LiteChecks(broker)
        self._subscriptions = Subscriptions()
        self._in_flight = InFlight()
        self._topics = LiteTopics(broker, self._forget)
        self._receives = Receives(
            broker,
            self._subscriptions,
            self._in_flight,
            lambda request: self._checks.consumer(request.group, request.topic, request.principal),
            self.give_back,
            self._topics.arrived,
        )
        requests = LiteRequests(
            broker, self, self._checks, self._subscriptions, self._in_flight, self._topics, self._receives
        )
        self._handlers = handlers_of(requests)
        self._ends = (
            broker.topics.on_deleted(lambda topic: self._run(self._topics.remove_all(topic))),
            broker.groups.on_deleted(self._group_deleted),
        )
        if not light_queues_problem(broker.settings):
            broker.metrics.register(self._topics_metric)
            broker.metrics.register(self._subscriptions_metric)
        broker.lags.read_lite(self._subscriptions.of_group)
        self.interceptor.broker, self.interceptor.sent = broker, self._topics.sent
        self._repeat("liteTtlCheckInterval", self._topics.remove_expired)
        self._repeat("liteSubscriptionCheckInterval", self._remove_silent)

    async def stop(self) -> None:
        """Answer held receives, and stop."""
        if not self._handlers:
            return
        self.interceptor.broker = None
        self._broker.lags.read_lite(None)
        for timer in self._timers.values():
            timer.cancel()
        for end in self._ends:
            end()
        await self._receives.close()
        self._handlers = {}
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _repeat(self, interval: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run *work* again and again, with the setting *interval*, ms, in between."""

        async def run() -> None:
            await work()
            if self._handlers:
                self._repeat(interval, work)

        seconds = self._broker.settings.number(interval) / 1000
        self._timers[interval] = self._broker.world.clock.call_later(seconds, lambda: self._run(run()))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("the upkeep of lite topics failed", exc_info=error)

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(done)

    async def _remove_silent(self) -> None:
        """Remove the subscriptions of clients that send no requests any more."""
        slices = TimeSlices(self._broker.world.clock, _TOGETHER)
        longest_ms = self._broker.settings.number("liteSubscriptionCheckTimeoutMills")
        for consumer in list(self._subscriptions.all()):
            if self._broker.world.clock.now_ms() - consumer.heard_ms > longest_ms:
                self.client_gone(consumer.group, consumer.client_id)
            await slices.item_done()

    def _forget(self, light_queue: str) -> None:
        """Forget where groups are in a light queue that is removed. Subscriptions stay until their clients go."""
        for group in self._broker.offsets.groups_of(light_queue):
            self._broker.offsets.forget(group, light_queue)
        self._in_flight.clear_queue(light_queue)

    def _group_deleted(self, group: str) -> None:
        for consumer in [each for each in self._subscriptions.all() if each.group == group]:
            self.client_gone(group, consumer.client_id)
        self._in_flight.clear_group(group)

    def _topics_metric(self) -> MetricFamily:
        values: dict[tuple[str, ...], float] = {(parent,): count for parent, count in self._topics.counts().items()}
        return MetricFamily("gantrymq_lite_topics", "Lite topics by parent topic.", ("topic",), values)

    def _subscriptions_metric(self) -> MetricFamily:
        values: Counter[tuple[str, ...]] = Counter()
        for each in self._subscriptions.all():
            values[each.topic, each.group] += len(each.queues)
        text = "Subscriptions of lite topics by parent topic and group."
        return MetricFamily("gantrymq_lite_subscriptions", text, ("topic", "consumer_group"), values)
