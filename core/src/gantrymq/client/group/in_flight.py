"""In-flight messages: consumed, failed, given back or timed out.

Source: apache/rocketmq client/.../impl/consumer/ConsumeMessageConcurrentlyService.java (processConsumeResult),
ProcessQueue.java (cleanExpiredMsg).
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import Final

from gantrymq.client.group.broker_callbacks import DirectConsumption
from gantrymq.client.group.delivery_queue import Delivery
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.process_queue import ConsumeStats, ProcessQueue
from gantrymq.client.group.redelivery import Redelivery
from gantrymq.client.group.unacked_messages import UnackedMessages
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller
from gantrymq.client.tracing.hooks import ConsumeContext, ConsumeOutcome

_CHECKS_PER_TIMEOUT: Final = 15  # checks for timed out messages during one consume timeout
_MAX_TIMED_OUT: Final = 16  # per queue and check, as in RocketMQ


class DeliveryHolder:
    """A loop or worker that has messages in flight. `close` of the consumer waits for the holders of other tasks."""

    in_task = True  # whether messages are consumed in the task that takes them; passed to hooks

    def __init__(self, in_flight: InFlight) -> None:
        """Register the holder until `close`."""
        self._in_flight = in_flight
        self.task: asyncio.Task[object] | None = None
        self.delivery: Delivery | None = None
        in_flight.holders.add(self)

    def close(self) -> None:
        """Give the messages back and unregister the holder."""
        self.give_back()
        self._in_flight.holders.discard(self)

    def accept(self, delivery: Delivery) -> None:
        """Store *delivery* as in flight in the current task."""
        self.task = asyncio.current_task(self._in_flight.loop)
        self.delivery = delivery

    def done(self, count: int | None = None) -> None:
        """Finish the first *count* messages as consumed, None for all; the rest stays in flight."""
        delivery = self.delivery
        if delivery is None:
            return
        if count is None or count >= len(delivery.messages):
            self._release()
            self._in_flight.done(delivery.process_queue, delivery.messages)
        else:
            self._in_flight.done(delivery.process_queue, delivery.messages[:count])
            self.delivery = Delivery(delivery.process_queue, delivery.messages[count:])

    def keep_first(self, count: int) -> None:
        """Keep the first *count* messages in flight and give the others back."""
        delivery = self.delivery
        if delivery is not None and count < len(delivery.messages):
            self.delivery = Delivery(delivery.process_queue, delivery.messages[:count])
            self._in_flight.give_back(Delivery(delivery.process_queue, delivery.messages[count:]))

    async def failed(self, level: int, error: BaseException | None = None, cause: BaseException | None = None) -> None:
        """Redeliver the messages; *error* is the exception of the handler, *cause* that of its `ReconsumeLater`."""
        delivery = self.delivery
        if delivery is not None:
            self._release()
            remark = None if error is None else _described(error)
            failure = remark if cause is None else _described(cause)
            try:
                await self._in_flight.failed(delivery.process_queue, delivery.messages, level, remark, failure)
            except asyncio.CancelledError:
                self._in_flight.give_back(delivery)
                raise

    def give_back(self) -> None:
        """Return the messages to their process queue, to be delivered to any consuming task."""
        delivery = self.delivery
        if delivery is not None:
            self._release()
            self._in_flight.give_back(delivery)

    def is_busy(self, closers: Container[object]) -> bool:
        """Return True if a task other than *closers* has messages in flight."""
        task = self.task
        return self.delivery is not None and task is not None and task not in closers and not task.done()

    def _release(self) -> None:
        self.delivery = self.task = None
        if self._in_flight.closing:
            self._in_flight.released.set()


class _HookedDeliveryHolder(DeliveryHolder):
    """A holder that calls hooks before and after its messages are consumed."""

    def __init__(self, in_flight: InFlight, hooks: ConsumeHookCaller, *, batch: bool) -> None:
        self._hooks = hooks
        self._batch = batch
        self._context: ConsumeContext | None = None
        super().__init__(in_flight)

    def accept(self, delivery: Delivery) -> None:
        super().accept(delivery)
        queue, messages = delivery.process_queue.queue, delivery.messages
        self._context = self._hooks.before(queue, messages, batch=self._batch, in_task=self.in_task)

    def done(self, count: int | None = None) -> None:
        context, delivery = self._context, self.delivery
        if context is not None and delivery is not None:
            if count is None or count >= len(delivery.messages):
                self._after(ConsumeOutcome.SUCCESS)
            else:
                context.consumed += count
        super().done(count)

    async def failed(self, level: int, error: BaseException | None = None, cause: BaseException | None = None) -> None:
        self._after(ConsumeOutcome.FAILED if error is None else ConsumeOutcome.EXCEPTION, error)
        await super().failed(level, error, cause)

    def give_back(self) -> None:
        self._after(ConsumeOutcome.GIVEN_BACK)
        super().give_back()

    def _after(self, outcome: ConsumeOutcome, error: BaseException | None = None) -> None:
        context, self._context = self._context, None
        if context is not None:
            self._hooks.after(context, outcome, error)


def _described(error: BaseException) -> str:
    """Return class and text of an application's exception, in characters that can be sent."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    name = type(error).__name__
    return f"{name}: {text}".encode(errors="replace").decode() if text else name


class InFlight:
    """Outcomes of the in-flight messages of one member."""

    def __init__(
        self,
        member: GroupMember,
        redelivery: Redelivery,
        stats: ConsumeStats,
        direct_consumptions: dict[int, DirectConsumption],
        hooks: ConsumeHookCaller | None = None,
    ) -> None:
        """Create the state of one member.

        *direct_consumptions* are messages sent by tools for direct consumption, by the id of their process queue.
        """
        self.unacked = UnackedMessages(member, hooks)
        self._member = member
        self._redelivery = redelivery
        self._stats = stats
        self._direct_consumptions = direct_consumptions
        self._hooks = hooks
        self._clock = member.instance.world.clock
        self.loop = asyncio.get_running_loop()
        self.holders: set[DeliveryHolder] = set()
        self.closing = False  # whether `wait_released` is running
        self.released = asyncio.Event()  # set while closing, when a holder has no messages any more

    @property
    def hooked(self) -> bool:
        """Whether hooks are called for messages."""
        return self._hooks is not None

    def new_holder(self, *, batch: bool) -> DeliveryHolder:
        """Return a new holder; with *batch* it takes several messages at a time."""
        return DeliveryHolder(self) if self._hooks is None else _HookedDeliveryHolder(self, self._hooks, batch=batch)

    def done(self, pq: ProcessQueue, messages: Sequence[ReceivedMessage]) -> int:
        """Finish messages of *pq* as consumed. Return how many of them were unfinished before."""
        now = self._clock.monotonic()
        since = pq.in_flight_since.get(messages[0].queue_offset, now)
        count = pq.finish(messages)
        pq.last_consumed_s = now
        window = pq.stats_window
        if now >= window.ends_s:
            window = pq.stats_window = self._stats.window(pq.queue.topic, now)
        window.done += count
        window.spent_s += (now - since) * count
        if self._direct_consumptions:
            self._settle_direct(pq, "CR_SUCCESS", None)
        if pq.waiting and not pq.queued:
            self._member.deliveries.offer(pq)
        return count

    async def failed(
        self,
        pq: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        level: int,
        remark: str | None = None,
        failure: str | None = None,
    ) -> None:
        """Redeliver messages of *pq* that were not consumed; *failure* is for their dead letters."""
        if id(pq) in self._direct_consumptions:
            self._settle_direct(pq, "CR_THROW_EXCEPTION" if remark else "CR_LATER", remark)
            return
        now = self._clock.monotonic()
        since = pq.in_flight_since.get(messages[0].queue_offset, now)
        window = self._stats.window(pq.queue.topic, now)
        window.failed += len(messages)
        window.spent_s += (now - since) * len(messages)
        for message in messages:
            await self._redelivery.failed(pq, message, level, failure)

    def give_back(self, delivery: Delivery) -> None:
        """Return in-flight messages to their process queue."""
        delivery.process_queue.give_back(delivery.messages)
        delivery.process_queue.changed.set()
        self._member.deliveries.offer(delivery.process_queue)

    async def wait_released(self, closers: Container[object]) -> None:
        """Wait until no task other than *closers* has messages in flight; tasks that ended have none."""
        self.closing = True
        while any(holder.is_busy(closers) for holder in self.holders):
            self.released.clear()
            await self.released.wait()

    async def watch_timeouts(self) -> None:
        """Send back messages that exceed the consume timeout, until cancelled. Not used by orderly consumers."""
        limit_s = self._member.settings.consume_timeout_s
        while True:
            await self._clock.sleep(limit_s / _CHECKS_PER_TIMEOUT)
            for pq in list(self._member.process_queues.values()):
                late = [at for at, since in pq.in_flight_since.items() if self._clock.monotonic() - since >= limit_s]
                for offset in sorted(late)[:_MAX_TIMED_OUT]:
                    if (message := self._find_held(pq, offset)) is not None:
                        await self._redelivery.timed_out(pq, message)
                    elif (message := self.unacked.get(pq, offset)) is not None:
                        await self._unacked_timed_out(pq, message)

    async def _unacked_timed_out(self, pq: ProcessQueue, message: ReceivedMessage) -> None:
        self.unacked.pop(message)  # so that it cannot be acknowledged or sent back a second time meanwhile
        await self._redelivery.timed_out(pq, message)
        if pq.holds(message):
            self.unacked.restore(pq, message)
        else:
            self.unacked.settle(message, ConsumeOutcome.GIVEN_BACK)

    def _find_held(self, pq: ProcessQueue, offset: int) -> ReceivedMessage | None:
        for holder in self.holders:
            if holder.delivery is not None and holder.delivery.process_queue is pq:
                for message in holder.delivery.messages:
                    if message.queue_offset == offset:
                        return message
        return None

    def _settle_direct(self, pq: ProcessQueue, result: str, remark: str | None) -> None:
        direct = self._direct_consumptions.get(id(pq))
        if direct is not None and not direct.result.done():
            direct.result.set_result((result, remark))
