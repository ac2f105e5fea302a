"""Who came last: whether somebody has a server to himself for the moment."""

from __future__ import annotations

import weakref
from collections.abc import Callable

__all__ = ["LastPeer"]


class LastPeer:
    """Remembers one peer, a connection for example, and does not keep it alive."""

    def __init__(self) -> None:
        self._peer: Callable[[], object] = lambda: None  # while it is there

    def is_repeat(self, peer: object) -> bool:
        """Whether *peer* came the last time too; it is the last one from now on."""
        if self._peer() is peer:
            return True
        self._peer = weakref.ref(peer)
        return False
