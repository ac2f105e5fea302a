"""The broker's place in its cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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

    def states(self) -> Mapping[str, str | None]:
        """Return the last error of each name server by address; None if this broker is registered there."""

    async def cluster_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the readable queues of a topic on every broker of its route, in no particular order.

        Without a name server, the cluster consists of this broker; an unknown topic has no queues.

        Raises:
            ClientError: no name server responds.
        """
