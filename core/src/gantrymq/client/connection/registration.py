"""Heartbeats: register the groups of one client instance at brokers.

    when                                              to
    every 30 s, and when a group, a subscription or   every known broker; to slaves only while there is a consumer
    a broker is added
    at once on every new connection                   that broker, before any other request on the connection
    every 0.5 s after a connection was lost           that broker, until it answers or is in no route any more

A broker forgets its clients when it stops, and a client when its connection closes. So nothing is pulled over a new
connection before its heartbeat is answered, and listeners are notified of lost and new connections.

With a heartbeat a client describes itself:

    {"clientID":"10.0.0.1@1234#99","consumerDataSet":[{"consumeFromWhere":"..","consumeType":"CONSUME_ACTIVELY",
     "groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[..],"unitMode":false}],
     "heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}

Source: apache/rocketmq client/.../impl/factory/MQClientInstance.java (sendHeartbeatToAllBrokerWithLock,
unregisterClient, prepareHeartbeatData), client/.../impl/MQClientAPIImpl.java (ChannelEventListener, onChannelActive),
remoting/.../protocol/heartbeat/HeartbeatData.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol

import attrs

from gantrymq.client.calls.outages import Outages
from gantrymq.client.calls.rpc import CALL_TIMEOUT_S, RpcClient
from gantrymq.client.routing.route_cache import RouteCache
from gantrymq.errors import BrokerRefused, ClientError, GantryError
from gantrymq.loose_json import dumps
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.clients import HeartBeatRequest, UnregisterClientRequest
from gantrymq.world import Clock


@attrs.frozen
class ConsumerInfo:
    """One consumer group of a client. Strings are names of constants in RocketMQ's enumerations."""

    group: str
    consume_type: str  # CONSUME_ACTIVELY for a pull consumer, CONSUME_PASSIVELY for a push consumer
    message_model: str  # CLUSTERING or BROADCASTING
    consume_from: str  # CONSUME_FROM_LAST_OFFSET, ...
    subscriptions: Callable[[], Sequence[Subscription]]  # evaluated for each heartbeat
    unit_mode: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members that RocketMQ writes."""
        return {
            "consumeFromWhere": self.consume_from,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.message_model,
            "subscriptionDataSet": [subscription.to_json() for subscription in self.subscriptions()],
            "unitMode": self.unit_mode,
        }


def heartbeat_body(client_id: str, producers: Iterable[str], consumers: Iterable[ConsumerInfo]) -> bytes:
    """Return the body of request 34.

    Args:
        client_id: id of this client.
        producers: names of its producer groups.
        consumers: its consumer groups.
    """
    return dumps(
        {
            "clientID": client_id,
            "consumerDataSet": [consumer.to_json() for consumer in consumers],
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": group} for group in producers],
            "withoutSub": False,
        }
    )


HEARTBEAT_S: Final = 30.0  # ClientConfig.heartbeatBrokerInterval; brokers drop a client after 120 s
RECONNECT_S: Final = 0.5

Job = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
_Sent = tuple[int, asyncio.Future[GantryError | None]]  # version of a heartbeat, and its error


class BrokerListener(Protocol):
    """Listener for lost and new connections to masters."""

    def broker_lost(self, broker_name: str) -> None:
        """Handle a lost connection: the broker may have stopped, and no longer knows this client."""

    def broker_back(self, broker_name: str) -> None:
        """Handle the response to the first heartbeat of a new connection."""


class Registration:
    """Heartbeats of one client instance."""

    def __init__(
        self,
        client_id: str,
        remoting: RemotingClient,
        rpc: RpcClient,
        routes: RouteCache,
        clock: Clock,
        job: Job,
        outages: Outages,
    ) -> None:
        """Send nothing before `run` is called or a connection is made."""
        self.listeners = set[BrokerListener]()
        self._client_id = client_id
        self._rpc = rpc
        self._routes = routes
        self._clock = clock
        self._job = job
        self._outages = outages
        self._producers: list[str] = []
        self._consumers: dict[str, ConsumerInfo] = {}
        self._version = 0  # incremented when the content of heartbeats changes
        self._due = asyncio.Event()
        self._known: dict[
            str, list[str]
        ] = {}  # registered over the current connection: address to names of brokers whose master it is
        self._sent: dict[str, _Sent] = {}  # heartbeats in flight, by address
        self._reconnects: dict[str, asyncio.Task[None]] = {}
        self._ended = False
        remoting.on_open(self._opened)
        remoting.on_close(lambda address, _: self._closed(address))

    # --- groups -------------------------------------------------------------------------------------------------------

    def add_producer(self, group: str) -> None:
        """Add a producer group to the heartbeats.

        Raises:
            ClientError: this client already has a member of that group.
        """
        if group in self._producers:
            raise ClientError(
                f"producer group {group} is already in use by this client; close the other producer, or give one of "
                "them an instance_name of its own"
            )
        self._producers.append(group)
        self.heartbeat_now()

    def add_consumer(self, consumer: ConsumerInfo) -> None:
        """Add a consumer group and its subscriptions to the heartbeats.

        Raises:
            ClientError: this client already has a member of that group.
        """
        if consumer.group in self._consumers:
            raise ClientError(
                f"consumer group {consumer.group} is already in use by this client; close the other consumer, or give "
                "one of them an instance_name of its own"
            )
        self._consumers[consumer.group] = consumer
        self.heartbeat_now()

    async def remove_producer(self, group: str) -> None:
        """Remove a producer group from the heartbeats and unregister it at every broker."""
        self._producers.remove(group)
        await self._unregister(UnregisterClientRequest(client_id=self._client_id, producer_group=group))

    async def remove_consumer(self, group: str) -> None:
        """Remove a consumer group from the heartbeats and unregister it at every broker."""
        del self._consumers[group]
        await self._unregister(UnregisterClientRequest(client_id=self._client_id, consumer_group=group))

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat_now(self) -> None:
        """Send heartbeats soon, because their content changed."""
        self._version += 1
        self._due.set()

    def broker_found(self) -> None:
        """Send heartbeats soon, because there is a new broker."""
        self._due.set()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            self._due.clear()
            timer = self._clock.call_later(HEARTBEAT_S, self._due.set)
            try:
                await self.send_all()
                await self._due.wait()
            finally:
                timer.cancel()

    async def send_all(self) -> None:
        """Send one heartbeat to every broker; failures are logged."""
        await asyncio.gather(*(self._heartbeat(address) for address in self._addresses()))

    async def ensure_registered(self, address: str) -> None:
        """Wait until the broker at *address* has answered a heartbeat on its connection, which is opened if necessary.

        Returns at once if this client sends it no heartbeats.

        Raises:
            ConnectFailed, ConnectionLost, CallTimeout: the broker does not answer.
            RequestMalformed: the address is malformed.
        """
        if address in self._known or not self._beats_to(address):
            return
        await self._rpc.connect(address)
        problem = None if address in self._known else await self._answered(address, 0)
        if problem is not None and not isinstance(problem, BrokerRefused):
            raise problem

    def end(self) -> None:
        """Stop reconnecting and logging; call it before the connections are closed."""
        self._ended = True
        for task in self._reconnects.values():
            task.cancel()

    async def ended(self) -> None:
        """Wait for requests that were in flight when the connections were closed."""
        await asyncio.gather(
            *self._reconnects.values(), *(task for _, task in self._sent.values()), return_exceptions=True
        )

    def _addresses(self) -> list[str]:
        if not self._producers and not self._consumers:
            return []
        return self._routes.addresses(slaves=bool(self._consumers))

    def _beats_to(self, address: str) -> bool:
        return address in self._addresses()

    async def _heartbeat(self, address: str) -> None:
        try:
            await self._rpc.connect(address)
        except GantryError as problem:
            self._log("HEART_BEAT", problem)
        else:
            await self._answered(address, self._version)

    async def _answered(self, address: str, version: int) -> GantryError | None:
        """Return the error of a heartbeat of *version* or newer, or None on success; sends one if none is in flight."""
        while (sent := self._sent.get(address)) is not None and sent[0] < version:
            await asyncio.shield(sent[1])
        return await asyncio.shield((sent or self._send(address))[1])

    def _send(self, address: str) -> _Sent:
        sent = self._sent[address] = self._version, asyncio.ensure_future(self._sending(address))
        return sent

    async def _sending(self, address: str) -> GantryError | None:
        try:
            return await self._exchange(address)
        finally:  # not in a done callback, which runs later: until then the heartbeat would count as in flight
            sent = self._sent.get(address)
            if sent is not None and sent[1] is asyncio.current_task():
                del self._sent[address]

    async def _exchange(self, address: str) -> GantryError | None:
        body = heartbeat_body(self._client_id, self._producers, self._consumers.values())
        try:
            await self._rpc.call(address, RequestCode.HEART_BEAT, HeartBeatRequest(), body, CALL_TIMEOUT_S)
        except GantryError as problem:
            self._log("HEART_BEAT", problem)
            if not isinstance(problem, BrokerRefused):
                return problem
        if self._rpc.connected(address):
            new, names = address not in self._known, self._routes.broker_names_at(address)
            self._known[address] = names or self._known.get(address, [])
            if new:
                for name in names:
                    for watcher in list(self.listeners):
                        watcher.broker_back(name)
        return None

    async def _unregister(self, header: UnregisterClientRequest) -> None:
        """Unregister at all brokers concurrently; failures are logged."""

        async def tell(address: str) -> None:
            try:
                await self._rpc.call(address, RequestCode.UNREGISTER_CLIENT, header, None, CALL_TIMEOUT_S)
            except GantryError as problem:
                self._log("UNREGISTER_CLIENT", problem)

        await asyncio.gather(*(tell(address) for address in self._routes.addresses(slaves=True)))

    # --- connections --------------------------------------------------------------------------------------------------

    def _opened(self, address: str) -> None:
        self._forget(address)  # in case it replaces a connection that is being drained
        if self._beats_to(address):
            self._sent.pop(address, None)
            self._send(address)

    def _closed(self, address: str) -> None:
        if self._ended or self._rpc.connected(address):
            return
        self._forget(address)
        if self._beats_to(address) and address not in self._reconnects:
            self._reconnects[address] = self._job(self._reconnect(address))

    def _forget(self, address: str) -> None:
        for name in self._known.pop(address, ()):
            for watcher in list(self.listeners):
                watcher.broker_lost(name)

    async def _reconnect(self, address: str) -> None:
        try:
            while self._beats_to(address) and address not in self._known:
                await self._clock.sleep(RECONNECT_S)
                try:
                    await self.ensure_registered(address)
                except GantryError as problem:
                    self._log("HEART_BEAT", problem)
        finally:
            self._reconnects.pop(address, None)

    def _log(self, doing: str, problem: GantryError) -> None:
        if not self._ended:
            self._outages.failed(doing, problem)
