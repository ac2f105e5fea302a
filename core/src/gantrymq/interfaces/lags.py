"""Lag of consumer groups: messages that a group has not consumed, by queue and by topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import attrs

from gantrymq.interfaces.store import Bounds
from gantrymq.model.queue import Queue

__all__ = ["Backlog", "GroupLag", "LagReading", "Lags", "QueueLag"]


class QueueLag(NamedTuple):
    """Lag of a group in one queue."""

    bounds: Bounds
    committed: int | None
    begin: int  # the first message that the group has not consumed, of those that exist
    behind: int | None  # messages from there to the end; 0 if the group left the topic, None: not known
    deleted: int  # messages that were deleted before the group consumed them


@attrs.define
class Backlog:
    """The messages of one topic."""

    topic: str
    begins: dict[int, int] = attrs.field(factory=dict)  # first offset by queue id, of read queues that had messages
    ends: dict[int, int] = attrs.field(factory=dict)
    filled: int = 0  # read queues with messages
    messages: int = 0  # in the read queues
    kept: int = 0  # in all queues
    end: int = 0  # sum of the ends of all queues


@attrs.define
class GroupLag:
    """Lag of a group on one topic, summed over the read queues."""

    topic: str
    group: str
    backlog: Backlog
    committed: Mapping[int, int]  # by queue id
    behind: int | None = 0  # messages; 0 if the group left the topic, None: not known
    deleted: int = 0  # messages that were deleted before the group consumed them
    unread: dict[int, int] = attrs.field(factory=dict)  # first unread message by queue id, of queues with a commit
    fresh: int = 0  # queues with messages without a commit: everything in them is unread


class LagReading(Protocol):
    """One look at many groups: the bounds of each topic's queues are read once. Yields to the event loop."""

    async def backlog(self, topic: str) -> Backlog:
        """Return the messages of a topic; nothing if it does not exist."""

    async def of(self, group: str, topic: str) -> GroupLag:
        """Return the lag of a group on a topic."""


class Lags(Protocol):
    """The lag of groups; `Broker.lags`.

    A group without a commit in a queue begins at its first message. A group whose online members subscribe to other
    topics only has left a topic, and has no lag there. The lag of a group that broadcasts is not known, because its
    members keep their offsets. Retry topics are always read, in clustering mode. A group of lite topics reads the light
    queues that it has offsets for or is subscribed to, and not the queues of the parent topic.
    """

    def follows(self, group: str, topic: str) -> bool:
        """Return False if the members of an online group do not subscribe to the topic."""

    def read_lite(self, subscriptions: Callable[[str], Collection[str]] | None) -> None:
        """Ask *subscriptions* for the light queues that members of a group of lite topics are subscribed to now."""

    def lite_subscriptions(self, group: str) -> Collection[str] | None:
        """Return the light queues that members of a group of lite topics are subscribed to, None: not known here."""

    def topics(self, group: str) -> Sequence[str]:
        """Return the existing topics that a group reads: with a commit, or in its subscriptions; no retry topics."""

    def queue(self, group: str, queue: Queue) -> QueueLag:
        """Return the lag of a group in one queue."""

    def reading(self, queues_together: int) -> LagReading:
        """Start a look at many groups, which yields to the event loop after some queues."""

    async def stored_ms(self, queue: Queue, queue_offset: int) -> int | None:
        """Return the store time of a message, None if it cannot be read."""
