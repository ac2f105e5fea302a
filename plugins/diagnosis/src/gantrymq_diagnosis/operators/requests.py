"""The base of handlers that need the broker: they have it between start and stop of the plugin's service."""

from __future__ import annotations

from typing import TypeVar

from gantrymq.errors import RequestNotSupported, RequestRefused
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.remoting import SlicedResponses

__all__ = ["BrokerRequests", "require"]

Optional = TypeVar("Optional")


class BrokerRequests:
    """Handlers of one broker; may be started again after a stop."""

    def __init__(self) -> None:
        """Create handlers that refuse requests until `start`."""
        self._running: Broker | None = None
        self._responses: SlicedResponses | None = None

    def start(self, broker: Broker, responses: SlicedResponses) -> None:
        """Begin to answer; *responses* creates the long ones, of all handlers that share it."""
        self._running, self._responses = broker, responses

    def stop(self) -> None:
        """Refuse requests."""
        self._running = self._responses = None

    @property
    def _broker(self) -> Broker:
        """The broker. Raises RequestRefused: code 1, it is stopping."""
        if self._running is None:
            raise _stopping()
        return self._running

    @property
    def _long(self) -> SlicedResponses:
        """The creator of long responses. Raises RequestRefused: code 1, the broker is stopping."""
        if self._responses is None:
            raise _stopping()
        return self._responses


def _stopping() -> RequestRefused:
    return RequestRefused(1, "the broker is stopping; ask again when it is back, see: gantrymq status")


def require(capability: Optional | None, what: str) -> Optional:
    """Return *capability* of the store, which *what* needs. Raises RequestNotSupported if the store lacks it."""
    if capability is None:
        raise RequestNotSupported(f"the broker's store does not support {what}; a broker with store=mmap does")
    return capability
