"""Keys of messages that were consumed lately. A key comes in after its transaction was committed, never before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable


class RecentKeys:
    """For any number of threads; the key that was not asked for longest goes first."""

    def __init__(self, most: int) -> None:
        """Room for *most* keys; 0 for none."""
        self._most = most
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, keys: Iterable[str]) -> bool:
        """Whether one of *keys* is here."""
        with self._guard:
            for key in keys:
                if key in self._keys:
                    self._keys.move_to_end(key)
                    return True
        return False

    def add(self, keys: Iterable[str]) -> None:
        """*keys* were committed."""
        with self._guard:
            for key in keys:
                self._keys[key] = None
                self._keys.move_to_end(key)
            while len(self._keys) > self._most:
                self._keys.popitem(last=False)
