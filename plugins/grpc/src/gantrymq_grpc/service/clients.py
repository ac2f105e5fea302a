"""The clients of one broker, by their ids.

A client is known from its first settings until it says that it ends, or sends no heartbeat for
``channelExpiredTimeout``. The close of a connection alone does not end it. It is a member of the broker's groups like a
client of remoting: the producer groups of a producer are its topics.

    settings on a stream --> `GrpcClient` --> `Clients.heartbeat` (groups, `group clients`, mqadmin)

A client that the broker ends, for example because it was suspended for minutes, loses its streams too: SDKs ignore the
refusal of a heartbeat, but open another stream a second later and send their settings again.

Source: apache/rocketmq proxy/.../grpc/v2/client/ClientActivity.java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from gantrymq.plugin.interfaces import Broker, ConsumerHeartbeat, Heartbeat
from gantrymq.plugin.model import SQL92, TAG, Subscription
from gantrymq.plugin.world import Timer
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.definitions import ClientType, Code, FilterExpression, FilterType, Settings
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.client import CONSUME_TYPES, GrpcClient
from gantrymq_grpc.service.lite import Lite

log = logging.getLogger("gantrymq.grpc")

MOST_NAMED: Final = 1000  # topics of a producer, or subscriptions of a consumer
MOST_OF_CONNECTION: Final = 8 * 1024 * 1024  # bytes of memory for the clients of a connection, see `_size`
MOST_OF_ALL: Final = 8 * MOST_OF_CONNECTION
_TIDY_S: Final = 10.0


class GrpcClients:
    """The clients of one broker."""

    def __init__(self, broker: Broker, lite: Lite, on_gone: Callable[[str], None]) -> None:
        """*on_gone* is called with the id of each client that ends."""
        self._broker = broker
        self._lite = lite
        self._on_gone = on_gone
        self._clients: dict[str, GrpcClient] = {}
        self._expires_ms = broker.settings.number("channelExpiredTimeout")
        self._sizes: dict[GrpcClient, tuple[_Room, int]] = {}
        self._room = _Room()
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[GrpcClient]:
        return iter(self._clients.values())

    def start(self) -> None:
        """End clients without heartbeats from now on."""
        self._timer = self._broker.world.clock.call_later(_TIDY_S, self._tidy)

    def close(self) -> None:
        """End all clients: the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
        for client in list(self._clients.values()):
            client.close()

    def get(self, caller: Caller) -> GrpcClient | None:
        """Return the client that sent a request, None before its settings.

        Raises:
            Refused: the client id belongs to a client of another user.
        """
        client = self._clients.get(caller.client_id)
        if client is None:
            return None
        if _user(client.principal) != _user(caller.principal):
            raise Refused(
                Code.UNAUTHORIZED,
                f"the client id {caller.client_id[:80]} belongs to a connected client of another user; give each "
                "client its own id",
            )
        return client

    def with_id(self, client_id: str) -> GrpcClient | None:
        """Return the client of an id, whatever its user, None before its settings."""
        return self._clients.get(client_id)

    def is_alive(self, client_id: str) -> bool:
        """Return whether a client is known and has sent a heartbeat in time."""
        client = self._clients.get(client_id)
        return client is not None and self._now_ms() - client.heard_ms <= self._expires_ms

    def apply(self, caller: Caller, settings: Settings) -> GrpcClient:
        """Register a client with its settings, or change them.

        Raises:
            Refused: a name or filter is not legal, the type of the client is not served, or there are too many clients.
            GantryError: the broker refuses it, for example for access control.
        """
        client = self.get(caller)
        heartbeat = self._heartbeat(caller, settings)
        room, size = self._check_room(client, caller, settings)
        is_new = client is None
        if client is None:
            client = GrpcClient(caller, self._broker, self._gone)
        client.connected(caller)
        try:
            self._broker.clients.heartbeat(heartbeat, client)
        except Exception:
            if is_new:  # it has no connection whose end would remove it
                self._broker.clients.gone(client)
            raise
        self._clients[caller.client_id] = client
        self._take_room(client, room, size)
        self._leave_old_groups(client, heartbeat)
        client.settings, client.heartbeat = settings, heartbeat
        client.heard_ms = self._now_ms()
        return client

    def heartbeat(self, caller: Caller) -> None:
        """Keep a client alive.

        Raises:
            Refused: it has sent no settings.
            GantryError: the broker refuses it.
        """
        client = self._known(caller)
        client.principal = caller.principal
        self._broker.clients.heartbeat(client.heartbeat._replace(principal=caller.principal), client)
        client.heard_ms = self._now_ms()

    def remove(self, caller: Caller) -> None:
        """End a client, as it asked.

        Raises:
            Refused: it is not known.
        """
        self._known(caller).leave()

    def _known(self, caller: Caller) -> GrpcClient:
        client = self.get(caller)
        if client is None:
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
        return client

    # --- settings -----------------------------------------------------------------------------------------------------

    def _heartbeat(self, caller: Caller, settings: Settings) -> Heartbeat:
        """Return what settings say about the groups of a client."""
        producers: list[str] = []
        consumers: list[ConsumerHeartbeat] = []
        if settings.WhichOneof("pub_sub") == "publishing":
            topics = settings.publishing.topics
            _check_number(len(topics), "topics")
            producers = [topic_of(each) for each in topics]
        else:
            group = group_of(settings.subscription.group)
            kind = CONSUME_TYPES.get(settings.client_type)
            if kind is None:
                raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, _unserved(settings.client_type))
            entries = settings.subscription.subscriptions
            _check_number(len(entries), "subscriptions")
            subscriptions = [self._subscription(group, topic_of(each.topic), each.expression) for each in entries]
            consumers = [ConsumerHeartbeat(group, kind, "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", False, subscriptions)]
        version = protocol_version(caller.version)
        return Heartbeat(caller.client_id, caller.language, version, producers, consumers, principal=caller.principal)

    def _subscription(self, group: str, topic: str, expression: FilterExpression) -> Subscription:
        kind = SQL92 if expression.type == FilterType.SQL else TAG
        wanted = Subscription(topic, expression.expression or "*", kind, self._broker.world.clock.now_ms(), group)
        self._broker.filters.compiled(wanted)
        return wanted

    def _leave_old_groups(self, client: GrpcClient, heartbeat: Heartbeat) -> None:
        """Remove a client from the groups that its settings no longer name."""
        unregister = self._broker.clients.unregister
        for producer in set(client.heartbeat.producers) - set(heartbeat.producers):
            unregister(client, producer, None)
        for consumer in {each.group for each in client.heartbeat.consumers} - {
            each.group for each in heartbeat.consumers
        }:
            unregister(client, None, consumer)
            self._lite.client_gone(consumer, client.client_id)

    # --- memory -------------------------------------------------------------------------------------------------------

    def _check_room(self, client: GrpcClient | None, caller: Caller, settings: Settings) -> tuple[_Room, int]:
        """Return where the settings of a client are counted, and their size. Raises Refused if there is no room."""
        room: _Room = caller.call.connection.notes.setdefault("clients", _Room())
        size = _size(settings)
        before, counted = (None, 0) if client is None else self._sizes[client]
        if room.used + size - (counted if before is room else 0) > MOST_OF_CONNECTION:
            raise Refused(
                Code.TOO_MANY_REQUESTS,
                f"the clients of this connection use {room.used} bytes for their settings, and these {size}; the limit "
                f"is {MOST_OF_CONNECTION}: use a connection for each client",
            )
        if self._room.used + size - counted > MOST_OF_ALL:
            for each in [each for each in self._clients.values() if not each.has_stream and each is not client]:
                each.close()
        if self._room.used + size - counted > MOST_OF_ALL:
            raise Refused(Code.TOO_MANY_REQUESTS, f"too many clients are connected ({len(self)}); try again later")
        return room, size

    def _take_room(self, client: GrpcClient, room: _Room, size: int) -> None:
        self._free_room(client)
        self._sizes[client] = room, size
        room.used += size
        self._room.used += size

    def _free_room(self, client: GrpcClient) -> None:
        room, size = self._sizes.pop(client, (self._room, 0))
        room.used -= size
        self._room.used -= size

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """End the clients without a heartbeat in time."""
        self._timer = self._broker.world.clock.call_later(_TIDY_S, self._tidy)
        for client in [each for each in self._clients.values() if not self.is_alive(each.client_id)]:
            seconds = self._expires_ms // 1000
            log.info("%s (%s) sent no heartbeat for %d s and is removed", client.client_id, client.address, seconds)
            client.close()

    def _gone(self, client: GrpcClient) -> None:
        if self._clients.get(client.client_id) is client:
            del self._clients[client.client_id]
            self._on_gone(client.client_id)
            for each in client.heartbeat.consumers:
                self._lite.client_gone(each.group, client.client_id)
        self._free_room(client)
        self._broker.clients.gone(client)

    def _now_ms(self) -> int:
        return int(self._broker.world.clock.monotonic() * 1000)


class _Room:
    """Bytes of memory in use."""

    def __init__(self) -> None:
        self.used = 0


_CLIENT_BYTES: Final = 2000
_ENTRY_BYTES: Final = 700  # of the tables of members and subscriptions


def _size(settings: Settings) -> int:
    """Return about how much memory a client with these settings takes."""
    entries = len(settings.publishing.topics) + len(settings.subscription.subscriptions)
    return _CLIENT_BYTES + entries * _ENTRY_BYTES + settings.ByteSize()


def _check_number(number: int, what: str) -> None:
    if number > MOST_NAMED:
        raise Refused(Code.BAD_REQUEST, f"the settings name {number} {what}, at most {MOST_NAMED} are taken")


def _user(principal: Any) -> str:
    return "" if principal is None else principal.name


def _unserved(client_type: int) -> str:
    name = ClientType(client_type).name if client_type in ClientType._value2member_map_ else str(client_type)
    if client_type == ClientType.LITE_SIMPLE_CONSUMER:
        return f"clients of type {name} are not served; use a lite push consumer"
    return f"Client type is not consumer, type: {name}"


_V5_0_0: Final = 413
_OF_MINOR: Final = 20  # a minor release has ten patches, each with a snapshot


def protocol_version(version: str) -> int:
    """Return RocketMQ's number of a version, such as 5.0.8; that of 5.0.0 if it is no version of 5."""
    parts = version.lstrip("vV").replace("_", ".").split(".")
    numbers = [int(part) for part in parts[:3] if part.isascii() and part.isdecimal() and len(part) < 3]
    if len(numbers) < 3 or numbers[0] != 5 or numbers[2] > 9:
        return _V5_0_0
    return _V5_0_0 + numbers[1] * _OF_MINOR + 2 * numbers[2]
