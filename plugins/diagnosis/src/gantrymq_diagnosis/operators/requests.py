"""The base of handlers that need the broker: they have it between start and stop of the plugin's service."""

from __future__ import annotations

from gantrymq.errors import ServiceNotAvailable
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.remoting import SlicedResponses
from gantrymq.plugin.world import TimeSlices


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
        """The broker. Raises ServiceNotAvailable: it is stopping."""
        if self._running is None:
            raise stopping()
        return self._running

    @property
    def _long(self) -> SlicedResponses:
        """The creator of long responses. Raises ServiceNotAvailable: the broker is stopping."""
        if self._responses is None:
            raise stopping()
        return self._responses

    def _slices(self, items: int) -> TimeSlices:
        """Return slices of up to *items* items. Raises ServiceNotAvailable: the broker is stopping."""
        return TimeSlices(self._broker.world.clock, items)


def stopping() -> ServiceNotAvailable:
    """Return the refusal of requests while the broker stops."""
    return ServiceNotAvailable("the broker is stopping; ask again when it is back, see: gantrymq status")
