"""What is known of a group and of a queue that it reads: the input of every sentence."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from gantrymq_diagnosis.conflicts import Conflict

__all__ = ["GroupFacts", "MemberFacts", "QueueFacts", "Told", "TopicFacts"]


class Told(NamedTuple):
    """What a plugin says of a group, see `gantrymq.interfaces.metrics.MetricFamily.sentences`."""

    word: str  # the figure's name, without gantrymq_ and with hyphens
    topic: str  # that it is about; empty: the whole group
    sentence: str


@attrs.frozen
class MemberFacts:
    """One connection of a group."""

    client_id: str
    address: str  # host:port
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    topics: frozenset[str] = frozenset()  # that it pulled a queue of, or waits for one


@attrs.frozen
class GroupFacts:
    """One group at one broker."""

    group: str
    members: tuple[MemberFacts, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    broker_readable: bool = True  # brokerPermission
    retry_behind: int = 0  # messages on the retry topic that the group has before it
    retry_waiting: int = 0  # messages in delay queues that go to the retry topic
    retry_waiting_more: bool = False  # there may be more of them than were counted
    retry_due_ms: int | None = None  # when the next of them is due, wall time
    dead_letters: int = 0  # kept on the dead letter topic
    told: tuple[Told, ...] = ()  # by plugins


@attrs.frozen
class TopicFacts:
    """One topic as the group has it."""

    topic: str
    exists: bool = True
    readable: bool = True
    read_queues: int = 1
    expression: str | None = "*"  # None: no member subscribes to it
    allowed: bool = True  # for this group
    popped: bool = False  # what the group reads of it goes over pop


@attrs.frozen
class QueueFacts:
    """One queue as the group has it; times are of the moment they were taken at."""

    topic: TopicFacts
    queue_id: int
    min_offset: int = 0
    max_offset: int = 0
    committed: int | None = None
    next_pull: int = -1  # -1: no pull since the broker's start
    pulled_ms_ago: int | None = None
    pulled_by: str = ""  # client id, else address
    puller_online: bool = True
    held_by: tuple[str, ...] = ()  # client ids, else addresses
    checked: int = 0  # messages that filters looked at
    matched: int = 0  # of these
    reset: int | None = None
    locked_by: str | None = None
    holder_online: bool = True
    oldest_ms_ago: int | None = None  # since the oldest message before the group was stored

    @property
    def begin(self) -> int:
        """Where the group goes on."""
        return max(self.committed or 0, self.min_offset)

    @property
    def behind(self) -> int:
        """Messages before the group."""
        return max(0, self.max_offset - self.begin)

    @property
    def hit_rate(self) -> float | None:
        """Part of the messages looked at that matched; None where no filter looked at any."""
        return self.matched / self.checked if self.checked else None

    @property
    def owner(self) -> str | None:
        """Who reads it, as far as the broker can see: a pull that waits, a lock, the last pull."""
        if self.held_by:
            return self.held_by[0]
        if self.locked_by and self.holder_online:
            return self.locked_by
        return self.pulled_by if self.pulled_by and self.puller_online else None
