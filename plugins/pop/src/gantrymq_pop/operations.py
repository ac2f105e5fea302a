"""Pops as operations: checks in RocketMQ's order, reading, and waiting for messages.

A pop is refused if broker, topic, group, filter or invisible time do not allow it.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java, NotificationProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Final, NamedTuple, TypeVar

from gantrymq.errors import (
    ConnectionLost,
    GantryError,
    InvalidParameter,
    NoPermission,
    RequestRefused,
    ServiceNotAvailable,
    SubscriptionParseFailed,
    TopicNotExist,
)
from gantrymq.plugin.interfaces import (
    Broker,
    BrokerConsumers,
    ClientChannel,
    LastPop,
    MessageFilter,
    PopAck,
    PopAnswer,
    PopRequest,
)
from gantrymq.plugin.model import ALL, PERM_READ, TAG, Principal, Subscription, TopicConfig
from gantrymq.plugin.remoting import AnsweringTasks
from gantrymq.plugin.world import outcome_into
from gantrymq_pop.checkpoints import MOST
from gantrymq_pop.headers import NotificationRequest
from gantrymq_pop.long_polling import LongPolling, PollingKey
from gantrymq_pop.pop_reader import PopOutcome, PopReader

_MOST_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000  # as far as RocketMQ's timer reaches
log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Respond = Callable[[Answer | GantryError], None]
_POLLING_FULL: Final = 209
_POLLING_TIMEOUT: Final = 210
_TOO_MANY: Final = (
    "too many pops wait on this broker; pop again later, or let more wait with: gantrymq broker config set "
    "popPollingSize=N (for one queue of a group), popPollingMapSize=N (queues of groups), maxPopPollingSize=N (in all)"
)
_LATE_MS: Final = 500  # a pop that arrives this long after its deadline is refused
_NEARLY_MS: Final = 50  # a pop is not held for less than this
_LONGEST_S: Final = 600.0
_SOON_S: Final = 0.05
_RECENT_S: Final = 60.0
_MOST_ATTEMPTS: Final = 50  # reads of one pop while a filter rejects all messages


class PopChecks:
    """The checks of one broker."""

    def __init__(self, broker: BrokerConsumers, waiting: LongPolling) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._waiting = waiting

    def check_broker(self) -> None:
        """Raise NoPermission if this broker is not readable, ServiceNotAvailable if it is stopping."""
        if not self._settings.number("brokerPermission") & PERM_READ:
            raise NoPermission(
                "this broker's brokerPermission forbids reading; allow it with: gantrymq broker config set "
                "brokerPermission=6"
            )
        if self._waiting.closed:
            raise ServiceNotAvailable("this broker is stopping; pop again in a moment")

    def checked_topic(self, name: str, queue_id: int) -> TopicConfig:
        """Return a readable topic that has the queue. Raises TopicNotExist, NoPermission, InvalidParameter."""
        topic = self._broker.topics.get(name)
        if topic is None:
            raise TopicNotExist(
                f"topic {name} does not exist on this broker; create it with: gantrymq topic create -t {quote(name)}"
            )
        if not topic.readable:
            raise NoPermission(
                f"topic {name} may not be read (perm {topic.perm}); allow it with: gantrymq topic create -t "
                f"{quote(name)} --perm 6"
            )
        if queue_id >= topic.read_queues:
            raise InvalidParameter(
                f"queueId {queue_id} is outside topic {name}, with {topic.read_queues} read queues; -1 pops "
                f"from all, and gantrymq topic create -t {quote(name)} -r {queue_id + 1} makes more"
            )
        return topic

    def check_group(self, name: str) -> None:
        """Raise GroupNotExist or NoPermission if the group may not pop."""
        if not self._broker.groups.require(name).consume_enable:
            raise NoPermission(
                f"consumer group {name} is switched off (consumeEnable=false); switch it on with: gantrymq group "
                f"create -g {name} --consume"
            )
        online = self._broker.clients.consumer_group(name)
        if online is not None and online.message_model == "BROADCASTING":
            raise NoPermission(
                f"consumer group {name} consumes by broadcasting, and what is popped goes to one member; pop with "
                "another group, or let this one consume by CLUSTERING"
            )

    def filter(self, request: PopRequest) -> MessageFilter:
        """Return the filter of a pop. Raises SubscriptionParseFailed."""
        expression, kind = (request.expression, request.expression_type or TAG) if request.expression else (ALL, TAG)
        subscription = Subscription(request.topic, expression, kind, 0, request.group)
        try:
            return self._broker.filters.compiled(subscription)
        except SubscriptionParseFailed:
            raise
        except RequestRefused as error:
            raise SubscriptionParseFailed(str(error)) from error


def check_invisible(invisible_ms: int) -> None:
    """Raise InvalidParameter if *invisible_ms* is out of bounds."""
    if not 0 <= invisible_ms <= _MOST_INVISIBLE_MS:
        raise InvalidParameter(
            f"invisibleTime {invisible_ms} ms is not between 0 and {_MOST_INVISIBLE_MS} (three days), as far as a "
            "message may be hidden; ask for less"
        )


class _Pop(NamedTuple):
    request: PopRequest
    client: ClientChannel
    respond: Respond[PopAnswer]
    abandoned: Callable[[], bool]


class Pops:
    """Serves pops and notifications of one broker."""

    def __init__(
        self, broker: Broker, popping: PopReader, waiting: LongPolling, give_back: Callable[[Sequence[PopAck]], None]
    ) -> None:
        """*give_back* is called with messages that were popped for a client that is gone."""
        self._broker = broker
        self._give_back = give_back
        self._clock = broker.world.clock
        self._popping = popping
        self._waiting = waiting
        self.checks = PopChecks(broker, waiting)
        self._answering = AnsweringTasks(log, "a pop that waited failed")
        self._last: dict[tuple[str, str], LastPop] = {}  # by group and topic

    async def serve(
        self,
        request: PopRequest,
        client: ClientChannel,
        respond: Respond[PopAnswer],
        *,
        abandoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """Pop messages, or wait for some (`gantrymq.interfaces.PopService.serve_pop`).

        *abandoned*: whether no client waits for the answer any more; a held pop is then not repeated, and messages that
        were popped meanwhile are given back.
        """
        self._broker.access.check_consumer(request.principal, request.group, request.topic)
        now_ms = self._clock.now_ms()
        request = request._replace(born_ms=request.born_ms or now_ms)
        if now_ms - request.born_ms - request.wait_ms > _LATE_MS:
            raise RequestRefused(
                _POLLING_TIMEOUT,
                "this pop arrived after its time was up (bornTime + pollTime); compare the clocks of client "
                "and broker, or "
                "let it wait for longer",
            )
        self.checks.check_broker()
        if not 1 <= request.max_count <= MOST:
            raise InvalidParameter(f"maxMsgNums {request.max_count} is not between 1 and {MOST}; pop more often")
        check_invisible(request.invisible_ms)
        topic = self.checks.checked_topic(request.topic, request.queue_id)
        self.checks.check_group(request.group)
        match = self.checks.filter(request)
        self._last[request.group, request.topic] = LastPop(self._clock.monotonic(), client.peer)
        await self._attempt(_Pop(request, client, respond, abandoned), topic, match)

    def last_pop(self, group: str, topic: str) -> LastPop | None:
        """Return the last pop of a topic by a group (`gantrymq.interfaces.PopService.last_pop`)."""
        now = self._clock.monotonic()
        if (waiting := self._waiting.client_of(topic, group)) is not None:
            return LastPop(now, waiting.peer)
        last = self._last.get((group, topic))
        return last if last is not None and now - last.at <= _RECENT_S else None

    def forget_old(self) -> None:
        """Forget pops of more than a minute ago."""
        oldest = self._clock.monotonic() - _RECENT_S
        self._last = {key: last for key, last in self._last.items() if last.at >= oldest}

    async def receive(self, request: PopRequest, client: ClientChannel) -> PopAnswer:
        """Pop messages, waiting as long as the request allows."""
        answered: asyncio.Future[PopAnswer] = asyncio.get_running_loop().create_future()
        respond = outcome_into(answered)
        # In a task of its own: a cancelled caller must not interrupt the storing of checkpoints.
        self._answering.start(self.serve(request, client, respond, abandoned=answered.done), respond)
        try:
            return await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and answered.exception() is None:
                self._return(request, answered.result())
            raise

    def notified(
        self,
        request: NotificationRequest,
        topic: TopicConfig,
        client: ClientChannel,
        principal: Principal | None,
        respond: Respond[dict[str, str]],
    ) -> None:
        """Call *respond* with the fields of the answer as soon as a pop would find messages, or at the deadline."""
        group, order = request.consumer_group, request.order
        found = self._popping.has_message(group, topic, request.queue_id, request.attempt_id, order=order)
        ext = {"hasMsg": "true" if found else "false"}
        left_ms = request.born_time + request.poll_time - self._clock.now_ms()
        if not found and request.poll_time > 0 and left_ms > _NEARLY_MS and not self._waiting.closed:

            async def again() -> None:
                self._broker.access.check_consumer(principal, group, request.topic)  # for each attempt, like pops
                checked = self.checks.checked_topic(request.topic, request.queue_id)
                self.notified(request, checked, client, principal, respond)

            place = PollingKey(request.topic, group, request.queue_id)
            seconds = min(left_ms / 1000, _LONGEST_S)
            if self._waiting.wait(place, client, principal, seconds, lambda: self._answering.start(again(), respond)):
                return
            ext["pollingFull"] = "true"
        if found:
            self._waiting.notify(request.topic, group)  # another pop may wait for the same messages
        respond(ext)

    async def _attempt(self, pop: _Pop, topic: TopicConfig, match: MessageFilter) -> None:
        request, client, respond, abandoned = pop
        popped = await client.response_limiter.run(self._popping.pop(request, topic, match))
        attempts = 1
        while not popped.buffers and popped.rest > 0 and not popped.busy and attempts < _MOST_ATTEMPTS:
            await asyncio.sleep(0)
            popped = await client.response_limiter.run(self._popping.pop(request, topic, match))
            attempts += 1
        if popped.buffers:
            if popped.rest > 0:
                self._waiting.notify(request.topic, request.group)
            answer = popped.answer(0, "FOUND")
            if client.closed or abandoned():
                self._return(request, answer)
                respond(_lost(client))
            else:
                respond(answer)
            return
        code = self._hold(pop, popped)
        if code is not None:
            respond(popped.answer(code, _TOO_MANY if code == _POLLING_FULL else "NO_MESSAGE_IN_QUEUE"))

    def _hold(self, pop: _Pop, popped: PopOutcome) -> int | None:
        """Hold a pop until messages arrive. Return the response code if it cannot be held, else None."""
        request, client, respond, _ = pop
        now_ms = self._clock.now_ms()
        left_ms = request.born_ms + request.wait_ms - now_ms
        if request.wait_ms <= 0 or left_ms <= _NEARLY_MS or self._waiting.closed:
            return _POLLING_TIMEOUT
        seconds = min(left_ms / 1000, _LONGEST_S)
        topic = self._broker.topics.get(request.topic)
        arrived = topic is not None and self._popping.has_message(
            request.group, topic, request.queue_id, request.attempt_id, order=False
        )  # a message may have arrived in a queue that was read before the last one
        if popped.busy or popped.rest > 0 or (arrived and not request.order):
            seconds = min(seconds, _SOON_S)
        if popped.free_at_ms is not None:
            seconds = min(seconds, max(popped.free_at_ms - now_ms, 1) / 1000)
        place = PollingKey(request.topic, request.group, request.queue_id)

        waits = self._waiting.wait(
            place, client, request.principal, seconds, lambda: self._retry(pop), lambda: respond(_lost(client))
        )
        return None if waits else _POLLING_FULL

    def _return(self, request: PopRequest, answer: PopAnswer) -> None:
        self._give_back([PopAck.of(request.group, request.topic, each) for each in answer.receipts()])

    def _retry(self, pop: _Pop) -> None:
        request, _, respond, abandoned = pop

        async def try_again() -> None:
            if abandoned():
                return
            self._broker.access.check_consumer(request.principal, request.group, request.topic)
            topic = self.checks.checked_topic(request.topic, request.queue_id)
            self.checks.check_group(request.group)
            await self._attempt(pop, topic, self.checks.filter(request))

        self._answering.start(try_again(), respond)

    async def close(self) -> None:
        """Answer all held requests."""
        self._waiting.close()
        await self._answering.ended()


def _lost(client: ClientChannel) -> ConnectionLost:
    return ConnectionLost(f"{client.address} closed its connection while its pop waited")
