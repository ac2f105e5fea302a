"""Keys of recently consumed messages. A key is added after its transaction was committed, never before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable


class RecentKeys:
    """Least recently used cache of keys; thread-safe."""

    def __init__(self, most: int) -> None:
        """Keep up to *most* keys; 0 disables the cache."""
        self._most = most
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, keys: Iterable[str]) -> bool:
        """Return True if one of *keys* is in the cache."""
        with self._guard:
            for key in keys:
                if key in self._keys:
                    self._keys.move_to_end(key)
                    return True
        return False

    def add(self, keys: Iterable[str]) -> None:
        """Add keys of committed messages."""
        with self._guard:
            for key in keys:
                self._keys[key] = None
                self._keys.move_to_end(key)
            while len(self._keys) > self._most:
                self._keys.popitem(last=False)
