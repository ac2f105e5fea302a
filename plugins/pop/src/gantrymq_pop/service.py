"""The service ``pop``: pop consumption of one broker.

Deliveries are stored in the revive log before the consumer gets the messages, and so are acknowledgements. At start the
log is read from the committed position. After a crash, the offsets of groups, which are saved every few seconds, may
lag behind the deliveries; they are corrected from the checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gantrymq.errors import GantryError, ReceiptIllegal, RequestError, ServiceNotAvailable
from gantrymq.plugin.interfaces import (
    Broker,
    ClientChannel,
    InvisibleTime,
    LastPop,
    MetricFamily,
    PopAck,
    PopAnswer,
    PopRequest,
    SendBackRequest,
)
from gantrymq.plugin.model import Queue, Role
from gantrymq.plugin.names import is_system_group
from gantrymq.plugin.remoting import Command, Connection, Handler, handlers_of
from gantrymq.plugin.world import Timer
from gantrymq_pop.ack_requests import AckRequests
from gantrymq_pop.acknowledger import Acknowledger
from gantrymq_pop.acting import MemoryReviveLog
from gantrymq_pop.assignment import FILE as MODES_FILE
from gantrymq_pop.assignment import Assignment
from gantrymq_pop.checkpoints import Checkpoint
from gantrymq_pop.long_polling import LongPolling
from gantrymq_pop.operations import Pops
from gantrymq_pop.order_info import ORDER_FILE, OrderFile, OrderTable
from gantrymq_pop.pop_reader import PopReader
from gantrymq_pop.requests import PopRequests
from gantrymq_pop.revive_log import ReviveLog
from gantrymq_pop.topics import producer_topic

log = logging.getLogger(__name__)

REQUESTS: Final = {**handlers_of(PopRequests), **handlers_of(AckRequests), **handlers_of(Assignment)}
_TIDY_S: Final = 5.0


class PopService:
    """The service ``pop`` (`gantrymq.interfaces.PopService`) and its handlers."""

    name = "pop"
    roles = frozenset({Role.MASTER, Role.ACTING_MASTER})

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._timer: Timer | None = None
        self._tidying: asyncio.Task[None] | None = None

    def serve(self, request: Command, connection: Connection) -> Any:
        """Answer a request with a code in `REQUESTS`."""
        self._check_running()
        return self._handlers[request.code](request, connection)

    def acknowledge_together(self, requests: Sequence[Command], begin: int, connection: Connection) -> int:
        """Serve plain acknowledgements from index *begin* on and return their number (`AckRequests`)."""
        return self._acks.acknowledge_together(requests, begin, connection) if self._handlers else 0

    async def serve_pop(
        self, request: PopRequest, client: ClientChannel, respond: Callable[[PopAnswer | GantryError], None]
    ) -> None:
        """Pop messages, or wait for some."""
        self._check_running()
        await self._pops.serve(request, client, respond)

    async def receive(self, request: PopRequest, client: ClientChannel) -> PopAnswer:
        """Pop messages, waiting as long as the request allows."""
        self._check_running()
        return await self._pops.receive(request, client)

    def last_pop(self, group: str, topic: str) -> LastPop | None:
        """Return the last pop of a topic by a group, None if there was none within a minute."""
        return self._pops.last_pop(group, topic) if self._handlers else None

    async def ack(self, message: PopAck) -> None:
        """Acknowledge a message."""
        self._check_running()
        await self._acks.ack(message)

    async def change_invisible_time(self, message: PopAck, invisible_ms: int) -> InvisibleTime:
        """Make a message visible again *invisible_ms* from now."""
        self._check_running()
        return await self._acks.change_invisible_time(message, invisible_ms)

    def is_delivered(self, message: PopAck) -> bool:
        """Return whether a message is neither acknowledged nor visible again."""
        self._check_running()
        return self._acks.is_delivered(message)

    def give_back(self, messages: Sequence[PopAck]) -> None:
        """Make popped messages that did not reach their consumer visible again soon, unless the service has stopped."""
        if self._handlers:
            self._acks.give_back(messages)

    async def renew(self, message: PopAck, invisible_ms: int) -> list[int]:
        """Let all unacknowledged messages of a pop stay invisible, under their handles."""
        self._check_running()
        return await self._acks.renew(message, invisible_ms)

    async def forward_to_dead_letters(self, message: PopAck, log_offset: int) -> None:
        """Store a copy of a message in the group's dead letter topic, then acknowledge it."""
        self._check_running()
        record = await self._broker.messages.view(log_offset)
        if (record.topic, record.queue_id, record.queue_offset) != message[1:4]:
            raise ReceiptIllegal(
                f"log offset {log_offset} has message {record.queue_offset} of {record.topic}/{record.queue_id}, and "
                f"the receipt handle names message {message.queue_offset} of {message.topic}/{message.queue_id}; pass "
                "on the handle as the message had it"
            )
        await self._broker.messages.send_back(
            SendBackRequest(message.group, log_offset, delay_level=-1, principal=message.principal)
        )
        await self._acks.ack(message)

    def state_texts(self) -> Mapping[str, str]:
        """Return the texts of messageRequestMode.json and consumerOrderInfo.json (`gantrymq.interfaces.ServiceState`).

        RocketMQ's slaves do not copy the latter, so that ordered messages in flight are delivered again at once.
        """
        if not self._handlers:
            return {}
        return {MODES_FILE: self._assignment.modes_text(), ORDER_FILE: self._order_file.text()}

    def _check_running(self) -> None:
        if not self._handlers:
            raise ServiceNotAvailable(
                "pop consumption does not run on this broker now: it is a replica, or it starts or stops; ask its "
                "master, or again in a moment"
            )

    async def start(self, broker: Broker) -> None:
        """Read the saved state and start serving.

        Raises:
            FormatError: a state file cannot be read.
        """
        self._broker = broker
        config = broker.root / "config"
        broker_name = broker.settings.text("brokerName") or broker.world.host_name
        self._waiting = LongPolling(broker)
        self._revive = self._revive_log(broker, broker_name)
        orders = OrderTable()
        self._order_file = OrderFile(broker, config, orders)
        self._order_file.load()
        self._assignment = Assignment(broker, config)
        self._assignment.load()
        await self._recover()
        self._popping = PopReader(broker, broker_name, self._revive, orders, self._waiting.notify)
        self._acking = Acknowledger(broker, self._revive, orders, self._waiting.notify)
        self._acks = AckRequests(broker, broker_name, self._acking, self._revive)
        self._pops = Pops(broker, self._popping, self._waiting, self._acks.give_back)
        requests = PopRequests(broker, self._pops, self._popping, self._waiting)
        self._handlers = {**handlers_of(requests), **handlers_of(self._acks), **handlers_of(self._assignment)}
        broker.metrics.register(lambda: in_flight_metric(self._revive.in_flight, broker.topics.is_own))
        self._timer = broker.world.clock.call_later(_TIDY_S, self._tidy)

    def _revive_log(self, broker: Broker, broker_name: str) -> ReviveLog:
        if broker.role.current is Role.ACTING_MASTER:
            return MemoryReviveLog(broker, broker_name, self._waiting.notify, lambda: self._popping)
        return ReviveLog(broker, broker_name, self._waiting.notify)

    async def stop(self) -> None:
        """Answer held requests and save the state."""
        if self._timer is not None:
            self._timer.cancel()
        if self._tidying is not None:
            await asyncio.wait([self._tidying])  # its errors are logged
        if not self._handlers:
            return
        await self._pops.close()
        await self._acking.close()
        await self._revive.stop()
        await self._order_file.save()
        self._assignment.close()
        self._handlers = {}

    async def _recover(self) -> None:
        """Read the revive log, and after a crash move the offsets of groups over messages delivered before."""
        ends: dict[tuple[str, Queue], int] = {}

        def on_checkpoint(checkpoint: Checkpoint) -> None:
            key = checkpoint.key
            place = key.group, Queue(key.topic, key.queue_id)
            ends[place] = max(ends.get(place, 0), checkpoint.offsets[-1] + 1 if checkpoint.offsets else 0)

        await self._revive.catch_up(on_checkpoint)
        for (group, queue), end in ends.items():
            committed = self._broker.offsets.committed(group, queue)
            if self._broker.topics.get(queue.topic) is not None and (committed is None or committed < end):
                try:
                    self._broker.offsets.commit(group, queue, end)
                except RequestError as error:
                    log.warning("group %s of %s continues at its saved offset: %s", group, queue, error)
        for revive_queue in range(self._revive.queues):
            end = self._broker.store.bounds(Queue(self._revive.topic, revive_queue)).max_offset
            if end:  # otherwise the group would exist before it has an offset
                self._revive.counted(revive_queue, end)

    def _tidy(self) -> None:
        async def tidy() -> None:
            topics = self._broker.topics.view
            self._popping.forget(topics.__contains__)
            self._waiting.tidy()
            self._pops.forget_old()
            await self._order_file.save()
            await self._assignment.tidy()

        def again(task: asyncio.Task[None]) -> None:
            self._tidying = None
            if not task.cancelled() and task.exception() is not None:
                log.error("tidying up after pops failed", exc_info=task.exception())
            if self._handlers and not task.cancelled():
                self._timer = self._broker.world.clock.call_later(_TIDY_S, self._tidy)

        self._tidying = asyncio.get_running_loop().create_task(tidy())
        self._tidying.add_done_callback(again)


_IN_FLIGHT = "rocketmq_consumer_inflight_messages"
_IN_FLIGHT_LABELS = ("topic", "consumer_group", "is_retry", "is_system")


def in_flight_metric(counts: Mapping[tuple[str, str], int], is_own_topic: Callable[[str], bool]) -> MetricFamily:
    """Return the metric of popped and unacknowledged messages, as RocketMQ 5 (ConsumerLagCalculator.calculateInflight).

    Messages of ordered pops are not counted; they block their queue, and are few.

    Args:
        counts: messages by topic and group; a retry topic is reported under its original topic.
        is_own_topic: returns whether a topic belongs to the broker itself.
    """
    values: Counter[tuple[str, ...]] = Counter()
    for (real, group), count in counts.items():
        topic = producer_topic(real, group)
        system = is_own_topic(topic) or is_system_group(group)
        values[topic, group, str(topic != real).lower(), str(system).lower()] += count
    return MetricFamily(_IN_FLIGHT, "Messages that groups popped and have not acknowledged.", _IN_FLIGHT_LABELS, values)
