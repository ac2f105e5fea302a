"""The broker's place in its cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gantrymq.model.queue import MessageQueue

__all__ = ["Registration", "RoutedBroker", "TopicRoute"]


class RoutedBroker(NamedTuple):
    """A broker with queues of a topic."""

    name: str  # brokerName
    broker_id: int  # 0: the master, or a slave in its place
    address: str  # host:port of its main listener
    listener_address: str  # of the listener that was asked for; empty if it has none, or no name server knows it
    read_queues: int
    write_queues: int
    perm: int  # of the topic on this broker name


class TopicRoute(NamedTuple):
    """The brokers of a topic."""

    topic: str
    brokers: Sequence[RoutedBroker]  # each broker name's by id
    attributes: Mapping[str, str]  # of the topic, such as message.type; empty if a name server does not know them


class Registration(Protocol):
    """The names under which a broker is registered with the name servers; `Broker.registration`."""

    @property
    def cluster(self) -> str:
        """The name of the cluster, brokerClusterName."""

    @property
    def broker_name(self) -> str:
        """The name of the broker, brokerName."""

    @property
    def address(self) -> str:
        """The advertised address, ``host:port``."""

    @property
    def broker_id(self) -> int:
        """The id under which the broker is registered; 0: master."""

    @property
    def ha_address(self) -> str:
        """The address of replication, which registrations contain."""

    @property
    def master_address(self) -> str:
        """The address of a slave's master as name servers tell it; empty if they do not, and for a master."""

    def change(
        self,
        *,
        broker_id: int | None = None,
        ha_address: str | None = None,
        heartbeat_timeout_ms: int | None = None,
        held: str | None = None,
    ) -> None:
        """Register with another id or address of replication from now on, at once with every name server.

        A name server replaces the entry of this address. Until it has done so, clients use the old one.

        Args:
            heartbeat_timeout_ms: this broker may act as its master, and a plugin sends its heartbeats to name servers,
                which remove it after that time without one. None: as before.
            held: why this broker is not to be registered, in a sentence, which `states` then returns; a registration
                that was made before stays. Empty: register. None: as before.
        """

    def changed(self) -> None:
        """Register again at once with every name server."""

    def on_master_told(self, callback: Callable[[str, str], Any]) -> Callable[[], None]:
        """Call *callback* with the master's address and its address of replication, as name servers tell a slave.

        It is called soon if they are known already, and when they change, perhaps again with the same ones. If name
        servers disagree, the present master stays as long as one of them tells it. Exceptions are logged. Return a
        function that removes it.
        """

    def states(self) -> Mapping[str, str | None]:
        """Return the last error of each name server by address; None if this broker is registered there."""

    async def route(self, topic: str, listener: str) -> TopicRoute | None:
        """Return the brokers of *topic* that name servers know, with the addresses of *listener*; None if unknown.

        An answer is a few seconds old at most while a name server responds, and the last one otherwise. Brokers that
        stopped answering this one 10 s ago are left out, unless all would be. Without a name server, and for a topic
        that is not registered yet, the route has this broker only.

        Raises:
            ClientError: no name server responds, and the topic is not on this broker.
        """

    async def cluster_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the readable queues of a topic on every broker of its route, in no particular order.

        Without a name server, the cluster consists of this broker; an unknown topic has no queues.

        Raises:
            ClientError: no name server responds.
        """
