"""Cache of routes and broker addresses, filled and refreshed from name servers.

Each request goes to one name server (see `nameservers`); while that is silent, also to the next one. A lookup that an
application waits for tries every server once, so that one dead server does not fail it; the refresh every 30 s tries
one server and leaves the rest to the next round.

Errors and warnings about a topic without a route name an existing topic with a similar name.

Sources: apache/rocketmq client/.../impl/factory/MQClientInstance.java (updateTopicRouteInfoFromNameServer,
findBrokerAddressInPublish, findBrokerAddressInSubscribe), client/.../impl/producer/DefaultMQProducerImpl.java
(tryToFindTopicPublishInfo).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gantrymq.client.calls.outages import UNREACHABLE, Outages
from gantrymq.client.calls.rpc import CALL_TIMEOUT_S, RpcClient, refused
from gantrymq.client.errors import NameServerClosed, NoNameServer, NotANameServer
from gantrymq.client.routing.nameservers import NameServerList
from gantrymq.client.routing.routes import BrokerAddresses, TopicRoute, parse_route
from gantrymq.errors import ClientError, ConnectFailed, ConnectionLost, GantryError, HandshakeFailed, NoRoute
from gantrymq.loose_json import loads
from gantrymq.model import names
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX, similar_name
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest
from gantrymq.world import Clock

AGAIN_S: Final = 600.0  # between two requests for the same topic
TIMEOUT_S: Final = 3.0
_MOST: Final = 100  # remembered topics

Names = Callable[[str], str]


class SimilarTopics:
    """Asks a name server for its topics, once for each missing topic in `AGAIN_S`."""

    def __init__(
        self,
        request_any: Callable[[RequestCode, None, float], Awaitable[tuple[Command, str]]],
        clock: Clock,
        wrap: Names,
        unwrap: Names,
    ) -> None:
        """*wrap* adds the namespace to a name, *unwrap* removes it."""
        self._request_any, self._clock, self._wrap, self._unwrap = request_any, clock, wrap, unwrap
        self._hints: dict[str, tuple[float, str]] = {}  # by topic, with the time of the request

    async def hint(self, topic: str) -> str:
        """Return `` (did you mean ...?)`` for a missing topic, or an empty text."""
        now = self._clock.monotonic()
        if not isinstance(topic, str) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return ""
        at, hint = self._hints.get(topic, (-AGAIN_S, ""))
        if now - at >= AGAIN_S:
            if len(self._hints) >= _MOST:
                self._hints.clear()
            self._hints[topic] = now, ""  # concurrent calls do not ask as well
            hint = await self._asked(topic)
            self._hints[topic] = now, hint
        return hint

    async def _asked(self, topic: str) -> str:
        try:
            reply, _ = await self._request_any(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, TIMEOUT_S)
            names = (
                [str(each) for each in loads(reply.payload)["topicList"]] if reply.code == ResponseCode.SUCCESS else []
            )
        except (GantryError, KeyError, TypeError, ValueError):
            return ""  # not allowed, or no answer: the error itself is the same
        found = similar_name(self._wrap(topic), (each for each in names if not each.startswith("%")))
        return f" (did you mean {self._unwrap(found)}?)" if found else ""


logger = logging.getLogger(__name__)

SILENT_S = 0.5  # without an answer, after which the next server is asked too, and a cancelled request has failed
AWAY_S = 3.0  # after which a replica that no connection reaches is not asked, although name servers list it
RENEW_S = 0.05  # minimum interval between refreshes caused by failures

T = TypeVar("T")


class RouteCache:
    """Routes by topic, addresses by broker name."""

    def __init__(
        self,
        rpc: RpcClient,
        servers: NameServerList,
        clock: Clock,
        outages: Outages,
        changed: Callable[[], None],
        *,
        wrap: Callable[[str], str] = str,
        unwrap: Callable[[str], str] = str,
    ) -> None:
        """*changed* is called after an update that added an address; *wrap* and *unwrap* are of the namespace."""
        self._rpc = rpc
        self._similar = SimilarTopics(self.request_any, clock, wrap, unwrap)
        self._clock = clock
        self._servers = servers
        self._outages = outages
        self._changed = changed
        self._routes: dict[str, TopicRoute] = {}  # by topic, the newest is last
        self._borrowed: dict[str, tuple[str, int]] = {}  # topics that a send will create: default topic, most queues
        self._publish: dict[str, tuple[MessageQueue, ...]] = {}  # queues to send to, for existing and new topics
        self._brokers: dict[str, BrokerAddresses] = {}
        self._lookup = asyncio.Lock()  # concurrent sends of a new topic share one request
        self._renewed: dict[str, float] = {}  # by topic: monotonic seconds

    def master(self, broker_name: str) -> str | None:
        """Return the address of the master of a broker name, or None without one."""
        broker = self._brokers.get(broker_name)
        return broker.master if broker is not None else None

    def readable(self, broker_name: str, broker_id: int = 0) -> str | None:
        """Return the address to pull from: *broker_id* if registered, else another replica."""
        broker = self._brokers.get(broker_name)
        return broker.readable(broker_id) if broker is not None else None

    def replicas(self, broker_name: str) -> list[str]:
        """Return the addresses of a broker name, the master's first."""
        broker = self._brokers.get(broker_name)
        return [] if broker is None else [address for _, address in sorted(broker.addresses.items())]

    def broker_names_at(self, address: str) -> list[str]:
        """Return the names of brokers whose master is at *address*, sorted."""
        return sorted(name for name, broker in self._brokers.items() if broker.master == address)

    def addresses(self, *, slaves: bool) -> list[str]:
        """Return every known master and, with *slaves*, every other replica; without duplicates, sorted."""
        return sorted(
            {
                address
                for broker in self._brokers.values()
                for broker_id, address in broker.addresses.items()
                if slaves or broker_id == 0
            }
        )

    def queues_known(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the cached queues to send to; empty before `publish_queues`."""
        return self._publish.get(topic, ())

    def any_topic_of(self, broker_name: str) -> str | None:
        """Return an existing topic with a queue at a broker, or None."""
        for topic, queues in self._publish.items():
            if topic not in self._borrowed and any(queue.broker_name == broker_name for queue in queues):
                return topic
        return None

    async def publish_queues(
        self, topic: str, default_topic: str, default_queues: int, timeout_s: float = CALL_TIMEOUT_S
    ) -> tuple[MessageQueue, ...]:
        """Return the queues to send to, at least one.

        A topic without a route gets the queues of *default_topic*, at most *default_queues* per broker: the broker
        creates it with the first message.

        Raises:
            NoRoute: neither has a route, or the route does not permit writing.
            ConnectFailed: no name server answers.
        """
        queues = self._publish.get(topic)
        if queues:
            return queues
        async with self._lookup:
            queues = self._publish.get(topic)
            if queues:
                return queues
            if await self._round(lambda: self.refresh(topic, timeout_s)) is None:
                await self._borrow(topic, default_topic, default_queues, timeout_s)
            queues = self._publish.get(topic)
        if not queues:
            raise NoRoute(f"topic {topic} has no queue to write to: its permission forbids it")
        return queues

    async def readable_queues(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> tuple[MessageQueue, ...]:
        """Return the queues to pull from, after a refresh.

        Raises:
            NoRoute: no name server knows the topic, or no broker permits reading.
            ConnectFailed: no name server answers.
        """
        route = await self._round(lambda: self.refresh(topic, timeout_s))
        if route is None:
            raise await self._no_route(topic)
        queues = route.readable_queues(topic)
        if not queues:
            raise NoRoute(f"topic {topic} has no queue to read from: no broker of its route grants reading")
        return queues

    async def fetch_route(self, topic: str, *, required: bool = True) -> TopicRoute | None:
        """Fetch the route of *topic*; None if there is none and it is not *required*.

        Raises:
            NoRoute: no name server knows the topic.
            ConnectFailed: no name server answers.
        """
        route = await self._round(lambda: self._ask(topic, CALL_TIMEOUT_S))
        if route is None and required:
            raise await self._no_route(topic)
        return route

    async def find_broker(self, topic: str, broker_name: str, broker_id: int | None = None) -> str:
        """Return the address of the master, or with *broker_id* of any replica; fetches the route once if it is
        unknown. A replica that has been unreachable for `AWAY_S` is replaced by another one.

        Raises:
            NoRoute: the topic is unknown, or the broker still has no (master's) address.
            ConnectFailed: no name server answers.
        """
        route: TopicRoute | None = None
        for fresh in (False, True):
            if fresh:
                route = await self._round(lambda: self.refresh(topic))
            found = self.master(broker_name) if broker_id is None else self._reachable(broker_name, broker_id)
            if found is not None:
                return found
        if route is None:
            raise await self._no_route(topic)
        what = "no master" if broker_id is None else "no address"
        raise NoRoute(f"broker {broker_name} has {what} in the route of {topic}; is it running and registered?")

    def _reachable(self, broker_name: str, broker_id: int) -> str | None:
        """Return `readable`, or another replica if that one has been unreachable for `AWAY_S` and the other is not.

        A name server lists a broker whose machine was lost, without closing its connection, for two minutes more.
        """
        found, away = self.readable(broker_name, broker_id), self._outages.away
        if found is None or found not in away or self._clock.monotonic() - away[found] < AWAY_S:
            return found
        return next((each for each in self.replicas(broker_name) if each not in away), found)

    async def refresh(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> TopicRoute | None:
        """Fetch the route of *topic* from one name server and cache it; None if the server has none (the cache is
        unchanged).

        Raises:
            ConnectFailed, ConnectionLost, CallTimeout: no response; the next call uses the next server.
            BrokerRefused: the server returns another error.
            ClientError: the topic is of a kind that this client cannot read.
        """
        route = await self._ask(topic, timeout_s)
        if route is None:
            return None
        if route.static:
            raise ClientError(f"topic {topic} is a static topic (logical queues), which this client does not read")
        self._publish[topic] = route.publish_queues(topic)
        self._borrowed.pop(topic, None)
        self._keep(topic, route)
        return route

    async def renew(self, topic: str, timeout_s: float) -> None:
        """Refresh the route of *topic* because its brokers fail; concurrent failures share one request.

        Errors are logged, and the cached route remains.
        """
        now = self._clock.monotonic()
        if now - self._renewed.get(topic, -RENEW_S) < RENEW_S:
            return
        self._renewed[topic] = now
        try:
            await self._refresh_or_borrow(topic, timeout_s)
        except GantryError as problem:
            logger.info("refreshing the route of %s failed: %s", topic, problem)

    async def hint(self, topic: str) -> str:
        """Return `` (did you mean ...?)`` with the name most similar to a missing topic; empty without one."""
        return await self._similar.hint(topic)

    async def _no_route(self, topic: str) -> NoRoute:
        if str(topic).startswith(names.RETRY_PREFIX):
            return NoRoute(f"no name server knows {topic}; its group has not retried a message yet")
        return NoRoute(
            f"no name server knows topic {topic}{await self.hint(topic)}; create it, or check that its brokers run and "
            "are registered"
        )

    async def request_any(self, code: RequestCode, header: Header | None, timeout_s: float) -> tuple[Command, str]:
        """Return the first response of a name server, with any code, and that server's address.

        Raises:
            ConnectFailed: none responds.
        """
        return await self._round(lambda: self._ask_one(code, header, timeout_s))

    async def refresh_all(self) -> None:
        """Refresh the route of every topic in use; failures are left to the next round."""
        for topic in [*self._routes, *self._borrowed]:
            try:
                await self._refresh_or_borrow(topic)
            except GantryError as problem:
                self._outages.failed("refreshing routes", problem)

    async def _refresh_or_borrow(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Refresh a route; that of the default topic, while *topic* does not exist yet: its master may be another."""
        if await self.refresh(topic, timeout_s) is None and topic in self._borrowed:
            await self._borrow(topic, *self._borrowed[topic], timeout_s)

    async def _borrow(self, topic: str, default_topic: str, default_queues: int, timeout_s: float) -> None:
        route = await self._round(lambda: self._ask(default_topic, timeout_s))
        if route is None:
            raise await self._no_route(topic)
        self._borrowed[topic] = (default_topic, default_queues)
        self._publish[topic] = route.capped(default_queues).publish_queues(topic)
        self._keep(default_topic, route)

    async def _ask(self, topic: str, timeout_s: float) -> TopicRoute | None:
        header = GetRouteinfoByTopicRequest(topic=topic, accept_standard_json_only=True)
        reply, server = await self._ask_one(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_s)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotANameServer(RequestCode.GET_ROUTEINFO_BY_TOPIC, server, reply.remark or "")
        if reply.code != ResponseCode.SUCCESS:
            raise refused(reply, server, RequestCode.GET_ROUTEINFO_BY_TOPIC)
        return parse_route(reply.payload)

    async def _ask_one(self, code: RequestCode, header: Header | None, timeout_s: float) -> tuple[Command, str]:
        """Return the response of the selected server, or of the next one that responds while it is silent."""
        if len(self._servers) == 1:
            return await self._exchange(self._servers.choose(), code, header, timeout_s)
        asked: dict[str, asyncio.Task[tuple[Command, str]]] = {}
        try:
            while True:
                server = self._servers.choose()
                if server not in asked:
                    asked[server] = asyncio.ensure_future(self._exchange(server, code, header, timeout_s))
                waiting = [each for each in asked.values() if not each.done()]
                await self._first_of(waiting, SILENT_S if len(asked) < len(self._servers) else timeout_s)
                ended = [each for each in asked.values() if each.done()]
                for each in ended:
                    if not isinstance(each.exception(), UNREACHABLE):
                        return each.result()
                if len(ended) == len(asked):
                    return ended[-1].result()  # raises
                self._servers.failed(server)
        finally:
            for each in asked.values():
                each.cancel()
            await asyncio.wait(asked.values())
            for each in asked.values():
                if not each.cancelled():
                    each.exception()  # marks the exception as handled: no caller waited for this server

    async def _first_of(self, tasks: list[asyncio.Task[tuple[Command, str]]], most_s: float) -> None:
        """Wait until one of *tasks* ends, at most *most_s*."""
        late = asyncio.ensure_future(self._clock.sleep(most_s))
        try:
            await asyncio.wait([late, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
            await asyncio.wait([late])

    async def _exchange(
        self, server: str, code: RequestCode, header: Header | None, timeout_s: float
    ) -> tuple[Command, str]:
        began_s = self._clock.monotonic()
        try:
            return await self._rpc.exchange(server, code, header, timeout_s=timeout_s), server
        except UNREACHABLE:
            self._servers.failed(server)
            raise
        except asyncio.CancelledError:
            if self._clock.monotonic() - began_s >= SILENT_S:  # the caller does not wait longer for this server
                self._servers.failed(server)
            raise

    async def _round(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call *ask*, which uses the next server each time, until it succeeds or each server was tried once."""
        for left in reversed(range(len(self._servers))):
            try:
                return await ask()
            except UNREACHABLE as problem:
                if left:
                    continue
                error: ConnectFailed
                if isinstance(problem, HandshakeFailed):
                    advice = "check the certificates and the settings of TLS of both sides"
                    error = HandshakeFailed(f"no TLS connection to a name server: {problem}; {advice}")
                elif isinstance(problem, ConnectionLost):
                    known = problem.address or ", ".join(self._servers.addresses)
                    sentence = "the name server closed the connection before the answer; it may require TLS"
                    error = NameServerClosed(f"{known}: {sentence}, or a client certificate{NameServerClosed.ADVICE}")
                else:
                    known = ", ".join(self._servers.addresses)
                    error = NoNameServer(f"no name server answers at {known} ({problem}){NoNameServer.ADVICE}")
                error.address = problem.address
                raise error from None  # the sentence has the cause; its traceback would hide it below 60 lines
        raise AssertionError("the list of name servers is never empty")

    def _keep(self, topic: str, route: TopicRoute) -> None:
        """Cache a route and rebuild the addresses, which drops those that no route mentions.

        The newest route with a broker tells its addresses: after a change of the master the others are old.
        """
        before = set(self.addresses(slaves=True))
        self._routes.pop(topic, None)
        self._routes[topic] = route
        self._brokers = {broker.name: broker for each in self._routes.values() for broker in each.brokers}
        if not before.issuperset(self.addresses(slaves=True)):
            self._changed()
