"""Where an acting master's services store: on another broker name that has the topic, by normal sends (code 10).

An acting master cannot append to its log, which is its master's. The queue is chosen by round robin over the writable
queues of the topic's route, without this broker name. A message that cannot be sent now is kept by the service that
stores it, and tried again by it; `problem` says why. Those behind it are kept as well, because a returning master takes
over one position for all of them: messages sent after that position would be sent again. So the routes of all messages
are looked at first, and nothing is sent from the first one on that no other broker can take. Only of messages that are
sent concurrently some may be stored behind one that is refused, and after a lost answer a message may be stored twice.

A message that waited keeps its properties, without the delay that is over. Sends of other delayed messages carry it, so
that the other broker makes them wait.

Source: apache/rocketmq broker/.../failover/EscapeBridge.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.plugin import properties as props
from gantrymq.plugin.headers import SendMessageRequest
from gantrymq.plugin.interfaces import BrokerCluster, PutResult, PutStatus, StoreMessage
from gantrymq.plugin.model import PERM_WRITE
from gantrymq.plugin.names import DEFAULT_TOPIC, is_system_topic
from gantrymq.plugin.network import RemotingClient, ask_route
from gantrymq.plugin.properties import ordered_text
from gantrymq.plugin.remoting import RequestCode, request
from gantrymq.plugin.sys_flag import COMPRESSED, COMPRESSION_MASK, MULTI_TAGS, TRANSACTION_PREPARED

log = logging.getLogger("gantrymq.replication")

_CALL_S: Final = 3.0
_ROUTE_S: Final = 10.0  # how long a route is used
_TOGETHER: Final = 32  # messages sent concurrently
_STORED: Final = frozenset({0, 10, 11, 12})  # put statuses of a stored message
_TIMES: Final = (props.TIMER_DELIVER_MS, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS)
_KEPT_FLAGS: Final = COMPRESSED | COMPRESSION_MASK | MULTI_TAGS | TRANSACTION_PREPARED
_SENT: Final = PutResult(PutStatus.OK, 0, 0, 0, 0)
_SWITCHED_OFF: Final = "enableRemoteEscape=false: what this acting master should store waits for its master"


class _Route(NamedTuple):
    until: float
    queues: list[tuple[str, int]]  # address and queue id


class Escape:
    """Sends for one broker; a `gantrymq.interfaces.MessageOutlet`."""

    def __init__(self, broker: BrokerCluster, client: RemotingClient, name: str, broker_id: int) -> None:
        """*name*, *broker_id*: of this broker."""
        self._registration, self._clock, self._client = broker.registration, broker.world.clock, client
        self._name = name
        self._group = f"InnerProducerGroup_{name}_{broker_id}"
        self._routes: dict[str, _Route] = {}
        self._turn = count()
        self._problems: dict[str, str] = {}  # by topic, why its messages wait
        self.sent = 0

    @property
    def problem(self) -> str:
        """Why messages wait; empty if they do not."""
        return next(iter(self._problems.values()), "")

    def forget(self) -> None:
        """Discard the known facts about other brokers when acting begins."""
        self._problems.clear()
        self._routes.clear()

    async def __call__(self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False) -> list[PutResult]:
        """Send *messages* up to the first one that cannot be sent."""
        results: list[PutResult] = []
        ready, problem = await self._ready(messages)
        while len(results) < ready:
            together = 1 if messages[len(results)].topic in self._problems else _TOGETHER
            part = messages[len(results) : min(ready, len(results) + together)]
            sends = (self._send(each, waited=skip_interceptors) for each in part)
            failed = ""
            for message, outcome in zip(part, await asyncio.gather(*sends, return_exceptions=True), strict=True):
                if outcome is not None:
                    failed = failed or self._failed(message.topic, outcome)
                    results.append(_later(str(outcome) or type(outcome).__name__))
                    continue
                results.append(_SENT)
                self.sent += 1
                if not failed and self._problems.pop(message.topic, ""):
                    log.info("other brokers take messages of topic %s of this acting master again", message.topic)
            if failed:
                self._routes.clear()
                return results + [_later(failed)] * (len(messages) - len(results))
        if problem is not None:
            topic = messages[ready].topic
            self._routes.pop(topic, None)
            results += [_later(self._failed(topic, problem))] * (len(messages) - ready)
        return results

    async def _ready(self, messages: Sequence[StoreMessage]) -> tuple[int, GantryError | None]:
        """Return how many of *messages* other brokers can take, up to the first one that they cannot, and why."""
        known: set[str] = set()
        for number, message in enumerate(messages):
            if message.topic not in known:
                try:
                    await self._queues(message.topic)
                except GantryError as error:
                    return number, error
                known.add(message.topic)
        return len(messages), None

    def _failed(self, topic: str, error: BaseException) -> str:
        """Note and return why messages of *topic* wait."""
        problem = str(error) or type(error).__name__
        if problem != self._problems.get(topic):
            log.warning(
                "messages of this acting master wait: %s",
                problem,
                exc_info=not isinstance(error, GantryError) and error,
            )
        self._problems[topic] = problem
        return problem

    async def _send(self, message: StoreMessage, *, waited: bool) -> None:
        own = props.decode(bytes(message.properties))
        topic = message.topic
        queues = await self._queues(topic)
        address, queue_id = queues[next(self._turn) % len(queues)]
        header = SendMessageRequest(
            producer_group=self._group,
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=8,
            queue_id=queue_id,
            sys_flag=message.sys_flag & _KEPT_FLAGS,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=sent_properties(own, waited=waited).decode(),
            reconsume_times=message.reconsume_times,
        )
        command = request(RequestCode.SEND_MESSAGE, header.to_ext(), message.body)
        answer = await self._client.call(address, command, _CALL_S)
        if answer.code not in _STORED:
            raise BrokerRefused(answer.code, answer.remark or "", address)

    # --- routes -------------------------------------------------------------------------------------------------------

    async def _queues(self, topic: str) -> list[tuple[str, int]]:
        """Return the queues of other broker names, at least one. Raises ClientError."""
        if is_system_topic(topic):
            raise BrokerRefused(1, f"topic {topic} belongs to each broker itself", self._name)
        known = self._routes.get(topic)
        if known is None or known.until < self._clock.monotonic():
            known = self._routes[topic] = _Route(self._clock.monotonic() + _ROUTE_S, await self._ask(topic))
        if not known.queues:
            raise BrokerRefused(1, f"no other broker name has writable queues of topic {topic}", self._name)
        return known.queues

    async def _ask(self, topic: str) -> list[tuple[str, int]]:
        read = partial(_writable, without=self._name)
        found = await ask_route(self._client, self._registration.states(), topic, read)
        if found is None:
            raise BrokerRefused(1, "no name server", self._name)
        return found


def _writable(route: Any, without: str) -> list[tuple[str, int]]:
    masters = {
        each["brokerName"]: {int(key): at for key, at in each["brokerAddrs"].items()} for each in route["brokerDatas"]
    }
    return [
        (str(masters[each["brokerName"]][0]), queue_id)
        for each in route["queueDatas"]
        if each["brokerName"] != without and int(each["perm"]) & PERM_WRITE and 0 in masters.get(each["brokerName"], {})
        for queue_id in range(int(each["writeQueueNums"]))
    ]


def sent_properties(own: dict[str, str], *, waited: bool) -> bytes:
    """Return the properties to send for a message with the properties *own*; without its delay if it *waited*."""
    sent = {**own, props.WAIT: "false"}
    if waited:
        sent.pop(props.DELAY, None)
        if props.TIMER_OUT_MS not in own:
            for name in _TIMES:
                sent.pop(name, None)
    return ordered_text(sent)


def _later(problem: str) -> PutResult:
    return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, -1, -1, 0, 0, problem)


class NoEscape:
    """The outlet without enableRemoteEscape: everything waits."""

    problem = ""

    def forget(self) -> None:
        """Say again why messages wait."""
        self.problem = ""

    async def __call__(self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False) -> list[PutResult]:
        """Refuse *messages*."""
        if not self.problem:
            log.warning(_SWITCHED_OFF)
        self.problem = _SWITCHED_OFF
        return [_later(_SWITCHED_OFF)] * len(messages)
