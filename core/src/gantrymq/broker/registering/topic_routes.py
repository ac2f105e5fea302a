"""The route of a topic: its queues on all brokers of the cluster, from a name server.

`TopicRoutes.route` is asked by every client of a protocol that does not ask name servers itself, so an answer is kept,
and one question to a name server serves all who wait for it. A kept answer is renewed in the background once it is
`FRESH_S` old. Callers wait for that, but only a moment if the topic is known: a broker that is gone is left out soon
after its name server knows, and a slow name server delays no client. While no name server responds, clients get the
last answer.

Source: apache/rocketmq broker/.../topic/TopicRouteInfoManager.java (getTopicSubscribeInfo).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.registering.silent_brokers import SilentBrokers
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import ClientError, ServiceNotAvailable
from gantrymq.interfaces import RoutedBroker, TopicRoute
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import PERM_READ
from gantrymq.remoting.client import RemotingClient, ask_route
from gantrymq.world import Clock
from gantrymq.world.clock import wait_set

FRESH_S: Final = 5.0
KEPT_S: Final = 30.0
WAIT_S: Final = 0.2  # for a name server, with an answer that is not older than `KEPT_S`
MOST_WAIT_S: Final = 1.0  # with an older one, or a topic of this broker; clients wait 3 s for a route
MOST_KEPT: Final = 10_000  # topics


class _Broker(NamedTuple):
    """A broker in a name server's answer."""

    broker: RoutedBroker
    listeners: Mapping[str, str]  # addresses by name


class _Route(NamedTuple):
    brokers: Sequence[_Broker]
    attributes: Mapping[str, str]
    at: float  # monotonic time of the answer


class TopicRoutes:
    """Queries the name servers of this broker; without one, the cluster consists of this broker."""

    def __init__(
        self,
        identity: Callable[[], BrokerIdentity],
        topics: TopicTable,
        client: RemotingClient,
        name_servers: Sequence[str],
        clock: Clock,
    ) -> None:
        """*identity* returns the present one; *name_servers* are tried in order until one responds."""
        self._identity = identity
        self._topics = topics
        self._client = client
        self._name_servers = name_servers
        self._clock = clock
        self._kept: dict[str, _Route] = {}
        self._silent = SilentBrokers(client, clock)
        self._asked: dict[str, asyncio.Task[ClientError | None]] = {}

    async def readable(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic, in no particular order; empty for an unknown topic.

        Raises:
            ClientError: no name server responds.
        """
        found = await ask_route(self._client, self._name_servers, topic, partial(_readable, topic))
        return self._own_queues(topic) if found is None else found

    async def route(self, topic: str, listener: str) -> TopicRoute | None:
        """Return the route of *topic*, with the addresses of *listener*; None for an unknown topic.

        Raises:
            ClientError: no name server responds, and neither a former answer nor this broker has the topic.
        """
        if self._name_servers and not self._is_kept(topic, FRESH_S):
            await self._renewed(topic)
        kept = self._kept.get(topic)
        return self._own(topic, listener) if kept is None else self._through(topic, kept, listener)

    async def stop(self) -> None:
        """Stop asking name servers and brokers."""
        await self._silent.stop()
        asked = list(self._asked.values())
        for task in asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked)

    def _is_kept(self, topic: str, age_s: float) -> bool:
        kept = self._kept.get(topic)
        return kept is not None and self._clock.monotonic() - kept.at <= age_s

    async def _renewed(self, topic: str) -> None:
        """Wait until a name server was asked about *topic*; only for a moment if the topic is known."""
        task = self._asked.get(topic)
        if task is None:
            task = self._asked[topic] = asyncio.get_running_loop().create_task(self._ask(topic))
        if topic in self._kept or self._topics.get(topic) is not None:
            done = asyncio.Event()
            task.add_done_callback(lambda _: done.set())
            await wait_set(self._clock, done, WAIT_S if self._is_kept(topic, KEPT_S) else MOST_WAIT_S)
            return
        await asyncio.wait([task])  # unlike await, a cancelled caller does not cancel it
        if task.cancelled():
            raise ServiceNotAvailable("the broker is stopping")
        if (problem := task.result()) is not None:
            raise problem

    async def _ask(self, topic: str) -> ClientError | None:
        """Ask a name server and keep its answer. Return the error if none responds."""
        try:
            found = await ask_route(self._client, self._name_servers, topic, self._read, with_details=True)
        except ClientError as problem:
            return problem
        finally:
            del self._asked[topic]
        self._kept.pop(topic, None)
        if found:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            (self._kept[topic],) = found
        return None

    def _read(self, route: Any) -> list[_Route]:
        """Return the route in an answer; brokers without an address are left out."""
        grants = {str(each["brokerName"]): each for each in route["queueDatas"]}
        brokers = []
        for members in route["brokerDatas"]:
            name = str(members["brokerName"])
            if (grant := grants.get(name)) is None:
                continue
            queues = int(grant["readQueueNums"]), int(grant["writeQueueNums"]), int(grant["perm"])
            known = members.get("listenerAddrs") or {}
            for broker_id, address in sorted(members["brokerAddrs"].items(), key=lambda item: int(item[0])):
                listeners = {str(key): str(value) for key, value in (known.get(broker_id) or {}).items()}
                broker = RoutedBroker(name, int(broker_id), str(address), "", *queues)
                brokers.append(_Broker(broker, listeners))
        attributes: Any = next((each["attributes"] for each in grants.values() if each.get("attributes")), {})
        return [_Route(brokers, {str(key): str(attributes[key]) for key in attributes}, self._clock.monotonic())]

    def _through(self, topic: str, kept: _Route, listener: str) -> TopicRoute:
        """Return the route through *listener*, without brokers that are silent, unless all are."""
        identity = self._identity()
        brokers, answering = [], []
        for broker, listeners in kept.brokers:
            is_own = (broker.name, broker.broker_id) == (identity.broker_name, identity.broker_id)
            is_own = is_own or broker.address == identity.address
            found = broker._replace(listener_address=(identity.listeners if is_own else listeners).get(listener, ""))
            brokers.append(found)
            if is_own or not self._silent.is_silent(broker.address):
                answering.append(found)
        own = self._topics.get(topic)
        return TopicRoute(topic, answering or brokers, kept.attributes if own is None else own.attributes)

    def _own(self, name: str, listener: str) -> TopicRoute | None:
        """Return the route over this broker only, which may not be registered yet."""
        topic, identity = self._topics.registered_one(name), self._identity()
        if topic is None:
            return None
        address, queues = identity.listeners.get(listener, ""), (topic.read_queues, topic.write_queues, topic.perm)
        broker = RoutedBroker(identity.broker_name, identity.broker_id, identity.address, address, *queues)
        return TopicRoute(name, (broker,), topic.attributes)

    def _own_queues(self, name: str) -> list[MessageQueue]:
        topic = self._topics.get(name)
        if topic is None or not topic.readable:
            return []
        return [MessageQueue(name, self._identity().broker_name, each) for each in range(topic.read_queues)]


def _readable(topic: str, route: Any) -> list[MessageQueue]:
    return [
        MessageQueue(topic, str(grant["brokerName"]), queue_id)
        for grant in route["queueDatas"]
        if int(grant["perm"]) & PERM_READ
        for queue_id in range(int(grant["readQueueNums"]))
    ]
