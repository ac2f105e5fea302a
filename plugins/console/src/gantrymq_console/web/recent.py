"""The topics that a user looked at last, offered by the search."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["RecentTopics"]

MOST_USERS: Final = 1000
MOST_TOPICS: Final = 8


class RecentTopics:
    """Up to eight topics for each of the last thousand users, in memory."""

    def __init__(self) -> None:
        self._topics: OrderedDict[str, list[str]] = OrderedDict()

    def add(self, user: str, topic: str) -> None:
        """Put *topic* first."""
        others = [each for each in self._topics.pop(user, []) if each != topic]
        self._topics[user] = [topic, *others[: MOST_TOPICS - 1]]
        if len(self._topics) > MOST_USERS:
            self._topics.popitem(last=False)

    def of(self, user: str) -> tuple[str, ...]:
        """Return the topics of *user*, the last one first."""
        return tuple(self._topics.get(user, ()))
