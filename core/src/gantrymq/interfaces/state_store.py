"""Where a broker keeps its topics, groups and committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["StateStore"]


class StateStore(Protocol):
    """Documents by name, such as ``topics.json``, ``subscriptionGroup.json`` and ``consumerOffset.json``.

    By default they are RocketMQ's files below ``config/``. A message store may keep them elsewhere
    (`StateStoreProvider`). The methods may block: they are called in a thread, one call at a time.
    """

    def load(self, name: str) -> Mapping[Any, Any] | None:
        """Return a document, None if there is none.

        Raises:
            FormatError: it is not a JSON object.
            OSError: it cannot be read.
        """

    def save(self, name: str, text: str) -> None:
        """Replace a document durably. Raises OSError; the old document is kept then.

        *text*: JSON in the form of RocketMQ's file, whose keys may be numbers: `gantrymq.loose_json` reads it.
        """

    def has(self, name: str) -> bool:
        """Return whether there is such a document. Raises OSError."""

    def place(self, name: str) -> str:
        """Return where a document is, for error sentences, such as a path."""
