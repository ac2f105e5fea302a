"""The broker's place in its cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gantrymq.model.queue import MessageQueue

__all__ = ["Registration"]


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

    async def cluster_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the readable queues of a topic on every broker of its route, in no particular order.

        Without a name server, the cluster consists of this broker; an unknown topic has no queues.

        Raises:
            ClientError: no name server responds.
        """
