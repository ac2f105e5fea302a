"""What a broker keeps for consumers: offsets, queue locks, waiting pulls, compiled subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.interfaces.filtering import FilterType, MessageFilter
from gantrymq.interfaces.pulling import LastPull
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.model.subscription import Subscription

__all__ = ["Filters", "HeldPulls", "Offsets", "QueueLocks"]


class Offsets(Protocol):
    """Committed offsets of groups, and their last pulls; `Broker.offsets`."""

    def committed(self, group: str, queue: Queue) -> int | None:
        """Return the committed queue offset of a group, None if there is none."""

    def of_group(self, topic: str, group: str) -> Mapping[int, int]:
        """Return a copy of the committed queue offsets of a group for a topic, by queue id."""

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group.

        Raises:
            InvalidParameter: the offset is negative or greater than the queue's maximum offset.
            ServiceNotAvailable: the offset file could not be written for too long.
        """

    def forget(self, group: str, topic: str) -> Mapping[int, int]:
        """Remove the committed queue offsets of a group for a topic, and return them by queue id.

        The group begins again as a new one there. They are gone from the disk after at most
        ``flushConsumerOffsetInterval``.
        """

    def on_committed(self, callback: Callable[[str, Queue, int], Any]) -> Callable[[], None]:
        """Call *callback* with group, queue and queue offset after each commit. Return a function that ends this.

        Resets and the tables that a replica takes over are no commits.
        """

    def last_pull(self, group: str, queue: Queue) -> LastPull:
        """Return the last pull of a queue by a group; read-only."""

    def topics_of(self, group: str) -> Sequence[str]:
        """Return the topics with committed offsets of a group."""

    def groups_of(self, topic: str) -> Sequence[str]:
        """Return the groups with committed offsets for a topic."""

    def pending_reset(self, group: str, queue: Queue) -> int | None:
        """Return the queue offset of a reset that the group's next pull will take, None if there is none."""

    def take_reset(self, group: str, queue: Queue) -> int | None:
        """Return the offset of a pending reset once, None if there is none.

        The offset is already committed. Until the reset is taken, by this method or by a pull, commits of the group are
        ignored.
        """

    def reset(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group, whatever the queue contains, and a reset for its next pull.

        Commits of the group are ignored until the reset is taken. Only for masters.
        """

    def copy(self, topic: str, source: str, target: str) -> None:
        """Give the group *target* the committed queue offsets of the group *source* for a topic."""


class QueueLocks(Protocol):
    """Queue locks of ordered consumers, which expire 60 s after their last renewal; `Broker.locks`."""

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], user: str = ""
    ) -> Sequence[MessageQueue]:
        """Lock queues for a client of a group, or renew its locks. Return the queues that it holds.

        *user*: name of its principal; clients of different users are different ones, even with the same id.
        """

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue] | None = None, user: str = "") -> None:
        """Release queues, None: all, that a client holds; locks of other clients are kept."""

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Return the client id of the lock's owner, None if the queue is not locked."""


class HeldPulls(Protocol):
    """Pulls that wait for messages; `Broker.held_pulls`."""

    def hold(
        self,
        queue: Queue,
        queue_offset: int,
        match: MessageFilter,
        timeout_s: float,
        connection: ClientChannel | None,
        wake: Callable[[], None],
    ) -> bool:
        """Call *wake* once: when a matching message at *queue_offset* or later arrives, or at the timeout.

        If the queue already has a message at that offset, matching or not, *wake* is called soon: read first, then hold
        at the offset where the read ended. *wake* is also called when the topic changes and when the broker stops, and
        never after *connection* is closed. Exceptions of *wake* are logged.

        Args:
            timeout_s: at most 600.

        Returns:
            False if *wake* will not be called: the connection or the broker is at its limit of holds, the connection
            is closed, or the broker is stopping.
        """

    def of(self, group: str, queue: Queue) -> Sequence[ClientChannel | None]:
        """Return the connections of the waiting pulls of *group* from a queue; None for pulls without a connection."""


class Filters(Protocol):
    """Compiled subscriptions; `Broker.filters`."""

    def compiled(self, subscription: Subscription) -> MessageFilter:
        """Return the compiled filter of a subscription; results are cached.

        Raises:
            SubscriptionParseFailed: the expression does not compile, or raised an error while running.
            RequestRefused: no plugin serves its type (code 1).
        """

    def guard_with(self, guard: Callable[[Subscription, FilterType], MessageFilter | None]) -> None:
        """Let *guard* compile each new subscription; if it returns None, the filter type compiles it.

        Its filters may raise only FilterFailed. It is called again after the attributes of the subscription's group
        change.
        """
