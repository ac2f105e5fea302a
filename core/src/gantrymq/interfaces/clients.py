"""Connected clients: what their heartbeats say, and queries about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import attrs

from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.model.access import Principal
from gantrymq.model.subscription import Subscription

__all__ = [
    "ClientConnection",
    "Clients",
    "ConnectedGroup",
    "ConsumerHeartbeat",
    "Heartbeat",
    "HeartbeatRefusal",
    "OnlineClient",
]


class HeartbeatRefusal(NamedTuple):
    """The last heartbeat of a connection, if it was refused."""

    client_id: str
    consumers: Sequence[str]  # groups, at most 20
    reason: str
    at_ms: int  # wall clock
    principal: Principal | None


class ClientConnection(NamedTuple):
    """An open connection that has sent a request, with what its heartbeats say."""

    connection: ClientChannel
    since_ms: int  # time of its first request, wall clock
    client_id: str = ""  # this and the following are empty or 0 without a heartbeat
    language: str = ""
    version: int = 0
    heard_ms: int = 0
    producers: Sequence[str] = ()  # groups
    consumers: Sequence[str] = ()
    principal: Principal | None = None  # who sent the heartbeat; None without access control
    refusal: HeartbeatRefusal | None = None  # of its last heartbeat


@attrs.define(eq=False)
class OnlineClient:
    """One connection of one client in one group, as described by its last heartbeat."""

    connection: ClientChannel
    client_id: str
    language: str  # RocketMQ's name for it
    version: int  # protocol version of the client
    heard_ms: int  # time of the last heartbeat, wall clock
    principal: Principal | None = None  # who sent it; None without access control


class ConnectedGroup(Protocol):
    """A consumer group with connected members, as described by their last heartbeats. The broker's own: read-only."""

    @property
    def consume_type(self) -> str:
        """CONSUME_ACTIVELY, or CONSUME_PASSIVELY of consumers that are pushed to."""

    @property
    def message_model(self) -> str:
        """CLUSTERING or BROADCASTING."""

    @property
    def consume_from_where(self) -> str:
        """Where the group starts in queues without a committed offset."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions by topic."""


class ConsumerHeartbeat(NamedTuple):
    """The part of a heartbeat about one consumer group."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    unit_mode: bool
    subscriptions: Sequence[Subscription] | None  # None: unchanged


class Heartbeat(NamedTuple):
    """A heartbeat of a client."""

    client_id: str
    language: str  # RocketMQ's name for it
    version: int  # protocol version of the client
    producers: Sequence[str]  # groups
    consumers: Sequence[ConsumerHeartbeat]
    fingerprint: int = 0  # hash of the subscriptions; 0 from clients without heartbeat version 2
    principal: Principal | None = None  # the client; None: not checked


class Clients(Protocol):
    """Connected producers and consumers; `Broker.clients`."""

    def heartbeat(self, heartbeat: Heartbeat, connection: ClientChannel) -> bool:
        """Register a client in its groups. Return whether its next heartbeat must have the full subscriptions.

        Raises:
            RequestRefused: code 1, the connection would be in too many groups; the client joins none of them.
            GantryError: a plugin refuses the heartbeat; the client joins no group.
        """

    def unregister(self, connection: ClientChannel, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove a client from the given groups."""

    def gone(self, connection: ClientChannel) -> None:
        """Remove a closed connection from all groups, and end what waits for it."""

    def producers(self, group: str) -> Sequence[OnlineClient]:
        """Return the connected producers of a group, in order of registration."""

    def producer(self, client_id: str) -> OnlineClient | None:
        """Return the connected producer with this client id in any group; the most recent one if there are several.

        Raises:
            RequestRefused: producers of several users have the client id (code 1).
        """

    def consumers(self, group: str) -> Sequence[OnlineClient]:
        """Return the connected consumers of a group, in order of registration."""

    def connections(self) -> Iterator[ClientConnection]:
        """Iterate over the open connections, in order of their first request.

        Each is read when it is yielded, so the caller may yield to the loop; new ones are left out.
        """

    def consumer_group(self, group: str) -> ConnectedGroup | None:
        """Return a consumer group with connected members, None if it has none."""

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return the subscription of an online group to a topic."""

    def on_heartbeat(self, check: Callable[[Heartbeat, ClientChannel], Any]) -> Callable[[], None]:
        """Call *check* with each heartbeat before it is processed. If it raises, the heartbeat is refused.

        Return a function that removes the check.
        """

    def on_gone(self, callback: Callable[[ClientChannel], Any]) -> Callable[[], None]:
        """Call *callback* with each closed connection that has sent a request. Exceptions are logged.

        Return a function that removes the callback.
        """

    def on_group_changed(self, callback: Callable[[str], Any]) -> Callable[[], None]:
        """Call *callback* with a consumer group after its members or topics change. Exceptions are logged.

        Return a function that removes the callback.
        """
