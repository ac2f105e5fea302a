"""The base of handlers that need the broker: they have it between start and stop of the plugin's service."""

from __future__ import annotations

from typing import TypeVar

from gantrymq.errors import RequestNotSupported, RequestRefused
from gantrymq.plugin.interfaces import Broker

__all__ = ["BrokerRequests", "require"]

Optional = TypeVar("Optional")


class BrokerRequests:
    """Handlers of one broker; may be started again after a stop."""

    def __init__(self) -> None:
        """Create handlers that refuse requests until `start`."""
        self._running: Broker | None = None

    def start(self, broker: Broker) -> None:
        """Begin to answer."""
        self._running = broker

    def stop(self) -> None:
        """Refuse requests."""
        self._running = None

    @property
    def _broker(self) -> Broker:
        """The broker. Raises RequestRefused: code 1, it is stopping."""
        if self._running is None:
            raise RequestRefused(1, "the broker is stopping; ask again when it is back, see: gantrymq status")
        return self._running


def require(capability: Optional | None, what: str) -> Optional:
    """Return *capability* of the store, which *what* needs. Raises RequestNotSupported if the store lacks it."""
    if capability is None:
        raise RequestNotSupported(f"the broker's store does not support {what}; a broker with store=mmap does")
    return capability
