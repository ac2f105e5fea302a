"""Routes and assignments: which brokers clients connect to.

    the only gRPC listener of the cluster   the endpoint that the client asked, which is right behind a port mapping
    one of several                          each broker's address of the listener that was asked (`advertisedAddresses`)
    advertisedAddresses has it              that address, always

Slaves are left out: they serve no gRPC clients, and some SDKs do not start if one endpoint of a route is not reachable.
A slave answers with the address of its master.

Source: apache/rocketmq proxy/.../grpc/v2/route/RouteActivity.java.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from gantrymq.errors import ClientError
from gantrymq.plugin.interfaces import Broker, RoutedBroker, TopicRoute
from gantrymq.plugin.model import PERM_READ, is_ip_address, parse_address
from gantrymq_grpc.conversion.codes import Refused, ok
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.conversion.queues import permission_of, permissions
from gantrymq_grpc.conversion.validation import accepted_types
from gantrymq_grpc.definitions import (
    Address,
    AddressScheme,
    Assignment,
    Code,
    Endpoints,
    MessageQueue,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from gantrymq_grpc.definitions import Broker as BrokerMessage
from gantrymq_grpc.mastership import Mastership
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.others import MOST_KEPT, OtherBrokers
from gantrymq_grpc.service.sends import unknown_topic

MASTER: Final = 0
_LEARNED_S: Final = 30.0
_MOST_ENDPOINT_BYTES: Final = 2048  # as sent back with each queue of a topic


class RouteRequests:
    """Handlers of these requests."""

    def __init__(
        self,
        broker: Broker,
        listeners: Mapping[str, str],
        mastership: Mastership,
        others: OtherBrokers,
        asked: Callable[[Caller], None],
    ) -> None:
        """Serve them.

        Args:
            broker: this broker.
            listeners: advertised addresses of its gRPC listeners by name.
            mastership: whether it is a master.
            others: is told about the other brokers in routes.
            asked: is called for each client that gets a route.
        """
        self._broker = broker
        self._listeners = listeners
        self._mastership = mastership
        self._others = others
        self._asked_for_route = asked
        self._learned: dict[tuple[str, str], float] = {}  # monotonic time by topic and listener
        advertised = broker.settings.text("advertisedAddresses")
        self._fixed = {name for name in listeners if re.search(rf"(^|,)\s*{re.escape(name)}\s*=", advertised)}

    async def route(self, request: QueryRouteRequest, caller: Caller) -> QueryRouteResponse:
        """Return the queues of a topic."""
        topic = topic_of(request.topic)
        route, brokers = await self._brokers(topic, caller)
        kinds = accepted_types(route.attributes)
        is_only = await self._is_only_endpoint(caller)
        queues: list[tuple[int, str, MessageQueue]] = []
        for broker in brokers:
            message = self._message(broker, is_only, request.endpoints, caller)
            for number, permission in enumerate(permissions(broker.read_queues, broker.write_queues, broker.perm)):
                queue = MessageQueue(
                    topic=request.topic, id=number, permission=permission, broker=message, accept_message_types=kinds
                )
                queues.append((number, broker.name, queue))
        # SDKs go through them in this order: a simple consumer asks the next broker with its next receive.
        queues.sort(key=itemgetter(0, 1))
        self._asked_for_route(caller)
        return QueryRouteResponse(status=ok(), message_queues=[queue for _, _, queue in queues])

    async def assignment(self, request: QueryAssignmentRequest, caller: Caller) -> QueryAssignmentResponse:
        """Return what one member of a group receives from: each broker, or each queue if the group is ordered."""
        topic, group = topic_of(request.topic), group_of(request.group)
        _, brokers = await self._brokers(topic, caller)
        config = self._broker.groups.get(group)
        ordered = config is not None and config.consume_message_orderly
        is_only = await self._is_only_endpoint(caller)
        assignments = []
        for broker in brokers:
            if not broker.perm & PERM_READ or not broker.read_queues:
                continue
            message = self._message(broker, is_only, request.endpoints, caller)
            for number in range(broker.read_queues) if ordered else (-1,):
                queue = MessageQueue(
                    topic=request.topic, id=number, permission=permission_of(broker.perm), broker=message
                )
                assignments.append(Assignment(message_queue=queue))
        if not assignments:
            raise Refused(Code.FORBIDDEN, "no readable queue")
        return QueryAssignmentResponse(status=ok(), assignments=assignments)

    async def learn(self, topic: str, listener: str) -> None:
        """Note the other brokers of a topic of this one, unless that was done lately.

        SDKs ask for routes only at the address that they were configured with, and receive from all brokers of a route.
        """
        now, place = self._broker.world.clock.monotonic(), (topic, listener)
        if self._broker.topics.get(topic) is None or now - self._learned.get(place, -math.inf) < _LEARNED_S:
            return
        if len(self._learned) >= MOST_KEPT:
            self._learned.clear()
        self._learned[place] = now
        with contextlib.suppress(ClientError):  # no name server responds: others are not known
            route = await self._broker.registration.route(topic, listener)
            if route is not None:
                self._others.heard(topic, listener, _masters(route))

    async def _brokers(self, topic: str, caller: Caller) -> tuple[TopicRoute, Sequence[RoutedBroker]]:
        """Return the route of a topic, and the brokers in it that clients of this listener can use."""
        route = await self._broker.registration.route(topic, caller.call.listener)
        if route is None:
            raise Refused(Code.TOPIC_NOT_FOUND, unknown_topic(topic))
        masters = _masters(route)
        self._others.heard(topic, caller.call.listener, masters)
        usable = [each for each in masters if self._is_this(each) or each.listener_address]
        if not usable:
            raise Refused(
                Code.TOPIC_NOT_FOUND,
                f"topic {topic} is on {', '.join(each.name for each in masters) or 'no running master'} only, without "
                f"a gRPC listener {caller.call.listener}; add it there with: listeners={caller.call.listener}="
                "grpc://0.0.0.0:8081",
            )
        return route, usable

    def _is_this(self, broker: RoutedBroker) -> bool:
        """Return whether a master in a route is this broker, and not its master or its successor."""
        return broker.name == self._broker.registration.broker_name and self._mastership.is_master

    async def _is_only_endpoint(self, caller: Caller) -> bool:
        """Return whether the address that a client asked is that of all gRPC listeners of the cluster.

        The topic with the cluster's name, which each broker has, tells the brokers of the cluster.
        """
        listener, registration = caller.call.listener, self._broker.registration
        if listener in self._fixed or not self._mastership.is_master:
            return False
        try:
            route = await registration.route(registration.cluster, listener)
        except ClientError:
            return True  # no name server responds: others are not known
        return route is None or not any(
            each.listener_address for each in route.brokers if not (each.broker_id == MASTER and self._is_this(each))
        )

    def _message(self, broker: RoutedBroker, is_only: bool, asked: Endpoints, caller: Caller) -> BrokerMessage:
        """Return a broker as clients get it. *is_only*: see `_is_only_endpoint`."""
        is_this = self._is_this(broker)
        found = self._asked(asked, caller) if is_only and is_this else None
        if found is None:
            own = self._listeners[caller.call.listener] if is_this else ""
            found = endpoints_of(own or broker.listener_address)
        return BrokerMessage(name=broker.name, endpoints=found)

    def _asked(self, asked: Endpoints, caller: Caller) -> Endpoints | None:
        """Return the endpoints that a client asked; None if it does not say. Raises Refused if they are too long."""
        size = asked.ByteSize()
        if size > _MOST_ENDPOINT_BYTES:
            raise Refused(
                Code.ILLEGAL_ACCESS_POINT,
                f"the endpoints have {len(asked.addresses)} addresses in {size} bytes, at most {_MOST_ENDPOINT_BYTES} "
                "bytes are taken; name the addresses of one access point only",
            )
        if len(asked.addresses) > 1:  # of several brokers, of which the others do not run now
            own = endpoints_of(self._listeners[caller.call.listener])
            if own.addresses[0] in asked.addresses:
                return own
        if asked.addresses:
            return asked
        authority = caller.call.authority
        try:
            return endpoints_of(authority) if len(authority) <= _MOST_ENDPOINT_BYTES else None
        except ValueError:
            return None


def _masters(route: TopicRoute) -> list[RoutedBroker]:
    return [each for each in route.brokers if each.broker_id == MASTER]


def endpoints_of(address: str) -> Endpoints:
    """Return the endpoints of an address, ``host:port``. Raises ValueError if it is none."""
    host, port = parse_address(address)
    scheme = AddressScheme.DOMAIN_NAME
    if is_ip_address(host):
        scheme = AddressScheme.IPv6 if ":" in host else AddressScheme.IPv4
    return Endpoints(scheme=scheme, addresses=[Address(host=host, port=port)])
