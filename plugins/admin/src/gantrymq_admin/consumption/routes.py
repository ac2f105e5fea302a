"""Which brokers have a topic, with as few requests to name servers as possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gantrymq.client import Admin
from gantrymq.errors import NoRoute
from gantrymq.plugin.client import BrokerAddresses

__all__ = ["Routes", "addresses_of"]


class Routes:
    """The brokers of topics; each route is requested once, and none if there is only one broker."""

    def __init__(self, admin: Admin, brokers: Sequence[BrokerAddresses] | None, topics: Collection[str] | None) -> None:
        """Create it.

        Args:
            admin: requests routes.
            brokers: all brokers that name servers know; None: not known.
            topics: all topics that name servers know; None: not known.
        """
        self._admin = admin
        self._only = brokers[0] if brokers is not None and len(brokers) == 1 else None
        self.topics = topics
        self._known: dict[str, dict[str, BrokerAddresses]] = {}

    def may_exist(self, topic: str) -> bool:
        """Return whether name servers may know *topic*."""
        return self.topics is None or topic in self.topics

    async def brokers_of(self, topic: str) -> Mapping[str, BrokerAddresses]:
        """Return the brokers that may have *topic*, by name; empty if name servers do not know it.

        Raises ClientError: no name server answers.
        """
        if not self.may_exist(topic):
            return {}
        if self._only is not None:
            return {self._only.name: self._only} if self._only.addresses else {}
        if topic not in self._known:
            try:
                route = await self._admin.route(topic)
            except NoRoute:
                self._known[topic] = {}
            else:
                self._known[topic] = {each.name: each for each in route.brokers if each.addresses}
        return self._known[topic]


def addresses_of(brokers: Mapping[str, BrokerAddresses]) -> dict[str, str]:
    """Return where each broker is queried: its master if it has one."""
    return {name: address for name, each in brokers.items() if (address := each.readable()) is not None}
