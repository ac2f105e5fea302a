"""The topics and consumer groups of a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig

__all__ = ["Groups", "Topics"]


class Topics(Protocol):
    """The topics of a broker; `Broker.topics`."""

    @property
    def view(self) -> Mapping[str, TopicConfig]:
        """All topics by name; read-only, and always current."""

    def page(self, start: int = 0, most: int = 2000) -> tuple[Sequence[TopicConfig], int]:
        """Return at most *most* topics from number *start* on, in the order of the table, and the number of all."""

    def get(self, name: str) -> TopicConfig | None:
        """Return the configuration of a topic, None if it does not exist."""

    def is_own(self, name: str) -> bool:
        """Return whether a topic belongs to the broker: a system topic, or one named after the broker or cluster."""

    def put(self, topic: TopicConfig) -> None:
        """Create or replace a topic, persist it and register it with the name servers.

        Raises:
            InvalidParameter: the configuration cannot be read back from topics.json.
            ServiceNotAvailable: this broker is a replica.
        """

    def on_deleted(self, callback: Callable[[str], Any]) -> Callable[[], None]:
        """Call *callback* with the name of each deleted topic. Exceptions are logged.

        Return a function that removes the callback.
        """


class Groups(Protocol):
    """The consumer groups of a broker; `Broker.groups`."""

    @property
    def view(self) -> Mapping[str, GroupConfig]:
        """All groups by name; read-only, and always current."""

    def page(self, start: int = 0, most: int = 2000) -> tuple[Sequence[GroupConfig], int]:
        """Return at most *most* groups from number *start* on, in the order of the table, and the number of all."""

    def get(self, name: str) -> GroupConfig | None:
        """Return the configuration of a group, None if it does not exist."""

    def require(self, name: str) -> GroupConfig:
        """Return the configuration of a group, creating it if allowed. Raises GroupNotExist.

        A replica creates no group, and returns the defaults where a master would create it.
        """

    def may_read(self, group: str, topic: str) -> bool:
        """Return whether a group is allowed to read a topic."""

    def on_deleted(self, callback: Callable[[str], Any]) -> Callable[[], None]:
        """Call *callback* with the name of each group that is deleted with its offsets. Exceptions are logged.

        Return a function that removes the callback.
        """
