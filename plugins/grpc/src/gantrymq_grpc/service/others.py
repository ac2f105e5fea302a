"""What routes have said about the other brokers of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from gantrymq.plugin.interfaces import RoutedBroker
from gantrymq.plugin.model import PERM_READ
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.definitions import Code

log = logging.getLogger("gantrymq.grpc")

MOST_KEPT: Final = 10_000  # topics, and addresses


class OtherBrokers:
    """The other brokers with gRPC listeners, as the last routes named them."""

    def __init__(self, own_name: str) -> None:
        """*own_name*: brokerName of this broker."""
        self._own_name = own_name
        self._topics: dict[str, None] = {}  # with readable queues on other brokers
        self._addresses: dict[tuple[str, str], str] = {}  # by name of broker and listener
        self._without: set[tuple[str, str]] = set()  # reported brokers without a listener

    def heard(self, topic: str, listener: str, brokers: Iterable[RoutedBroker]) -> None:
        """Note the masters in the route of *topic*, with their addresses of *listener*."""
        others = [each for each in brokers if each.name != self._own_name]
        for each in others:
            place = each.name, listener
            if each.listener_address:
                if len(self._addresses) >= MOST_KEPT:
                    self._addresses.clear()
                self._addresses[place] = each.listener_address
                self._without.discard(place)
            elif place not in self._without and len(self._without) < MOST_KEPT:
                self._without.add(place)
                log.warning(
                    "broker %s has queues of topic %s and no gRPC listener %s, so gRPC clients neither send to them "
                    "nor receive from them; add it there with: listeners=%s=grpc://0.0.0.0:8081",
                    *(each.name, topic, listener, listener),
                )
        if any(each.listener_address and each.perm & PERM_READ and each.read_queues for each in others):
            if len(self._topics) >= MOST_KEPT:
                self._topics.clear()
            self._topics[topic] = None
        else:
            self._topics.pop(topic, None)

    def have(self, topic: str) -> bool:
        """Return whether clients receive messages of *topic* from other brokers, too."""
        return topic in self._topics

    def check(self, name: str, listener: str, code: Code = Code.INVALID_RECEIPT_HANDLE) -> None:
        """Check that a request for the broker *name* may be served here; an empty name is any broker.

        Raises:
            Refused: with *code*, it is another broker.
        """
        if not name or name == self._own_name:
            return
        where = self._addresses.get((name, listener))
        advice = f"send it to {where}" if where else "send it to the address of that broker in the route"
        raise Refused(
            code,
            f"this is broker {self._own_name}, and the request is for {name[:80]}: {advice}; brokers behind one "
            "address cannot be told apart, so give each its own (advertisedAddresses)",
        )
