"""Detection of consecutive calls by the same peer."""

from __future__ import annotations

import weakref
from collections.abc import Callable


class LastPeer:
    """Weak reference to the last peer, such as a connection."""

    def __init__(self) -> None:
        self._peer: Callable[[], object] = lambda: None  # returns None once the peer is gone

    def is_repeat(self, peer: object) -> bool:
        """Return whether *peer* is the peer of the previous call, and remember it."""
        if self._peer() is peer:
            return True
        self._peer = weakref.ref(peer)
        return False
