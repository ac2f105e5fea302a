"""Uploaded documents, between their preview and the confirmation. In memory, a few, each for its user only."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from gantrymq.plugin.world import Clock

MOST: Final = 8
MOST_BYTES: Final = 4 * 1024 * 1024  # of one document
_KEPT_S: Final = 3600.0


class Documents:
    """The documents of a console."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[bytes, float]] = OrderedDict()  # with the time of the upload

    def keep(self, user: str, document: bytes) -> str:
        """Keep a document of a user; return its key. The oldest one of all is dropped if there are too many."""
        key = hashlib.sha256(document).hexdigest()[:24]
        self._kept[user, key] = document, self._clock.monotonic()
        self._kept.move_to_end((user, key))
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return key

    def find(self, user: str, key: str) -> bytes | None:
        """Return a document; None if it is not kept any more."""
        for each, (_, since_s) in list(self._kept.items()):
            if self._clock.monotonic() - since_s > _KEPT_S:
                del self._kept[each]
        return self._kept.get((user, key), (None, 0.0))[0]

    def drop(self, user: str, key: str) -> None:
        """Drop a document that was used."""
        self._kept.pop((user, key), None)
