"""Applying interceptors to messages.

An interceptor with ``properties`` is called only for messages that have one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gantrymq.broker.counted_plugins import counted_interceptor
from gantrymq.broker.counting.stats import Stats
from gantrymq.interfaces import Interceptor, StoreMessage
from gantrymq.model import properties as props


class InterceptorChain:
    """The interceptors of one broker, in ascending order."""

    def __init__(self, interceptors: Sequence[Interceptor], stats: Stats) -> None:
        self._counted = tuple((each, counted_interceptor(each, stats), _names(each)) for each in interceptors)
        self.of_all = tuple(call for _, call, names in self._counted if names is None)
        self.names = frozenset[str]().union(*(names or () for *_, names in self._counted))
        marks = b"|".join(re.escape(name.encode()) for name in sorted(self.names))
        self._asks = re.compile(rb"\x02(?:%b)\x01" % marks).search if marks else None
        self._stats = stats

    def __bool__(self) -> bool:
        """Return whether there is an interceptor."""
        return bool(self._counted)

    def for_batch_entries(self) -> InterceptorChain:
        """Return the interceptors to apply to entries of client batches."""
        return InterceptorChain([each for each, *_ in self._counted if getattr(each, "entries", True)], self._stats)

    def apply(self, message: StoreMessage, special: Mapping[str, str] | None) -> StoreMessage:
        """Apply the interceptors to *message*. *special*: its properties, None if it has none of `names`."""
        if special is None:
            for interceptor in self.of_all:
                message = interceptor(message)
            return message
        for _, interceptor, names in self._counted:
            if names is None or not names.isdisjoint(special):
                message = interceptor(message)
        return message

    def asks_for(self, properties: bytes) -> bool:
        """Return whether *properties* have one of `names`."""
        return self._asks is not None and self._asks(b"\x02" + properties) is not None

    def apply_undecoded(self, message: StoreMessage) -> StoreMessage:
        """Apply the interceptors to a message with undecoded properties."""
        asks = self.asks_for(message.properties)
        return self.apply(message, props.decode(message.properties) if asks else None)


def _names(interceptor: Interceptor) -> frozenset[str] | None:
    return getattr(interceptor, "properties", None)
