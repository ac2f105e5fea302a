"""The state of a group and of the queues it reads: the input of every reason."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from gantrymq_diagnosis.conflicts import Conflict


class PluginFinding(NamedTuple):
    """A metric of a plugin about a group, see `gantrymq.interfaces.metrics.MetricFamily.sentences`."""

    word: str  # the metric's name, without gantrymq_ and with hyphens
    topic: str  # the topic; empty: the whole group
    sentence: str


class Read(NamedTuple):
    """The last pull or pop of a client that is no member."""

    client: str  # client id, or the address without one
    ago_ms: int


@attrs.frozen
class MemberState:
    """One connection of a group."""

    client_id: str
    address: str  # host:port
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    topics: frozenset[str] = frozenset()  # whether it pulled a queue of the group, or waits for one


@attrs.frozen
class GroupState:
    """One group at one broker."""

    group: str
    members: tuple[MemberState, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    broker: str = "ADDRESS"  # where commands reach it
    broker_readable: bool = True  # brokerPermission
    retry_behind: int = 0  # messages on the retry topic that the group has not consumed
    retry_waiting: int = 0  # messages in delay queues for the retry topic
    retry_waiting_more: bool = False  # whether there may be more than were counted
    retry_due_ms: int | None = None  # when the next one is due, wall time
    dead_letters: int = 0  # messages on the dead letter topic
    deleted: int = 0  # messages that were deleted before the group consumed them
    plugin_findings: tuple[PluginFinding, ...] = ()
    slave_of: str | None = None  # the master's address, empty if it is not known; None: this broker is a master
    slave_reads: bool = False  # slaveReadEnable
    other_reader: Read | None = None  # of a group without members: the last client that read


@attrs.frozen
class TopicState:
    """One topic of the group."""

    topic: str
    exists: bool = True
    similar: str = ""  # the existing topic with the most similar name, if this one does not exist; empty: none
    readable: bool = True
    read_queues: int = 1
    queues: int = 1  # with messages that the group has to read: of writing too, and those of before
    expression: str | None = "*"  # None: no member subscribes to it
    refused: str = ""  # code and reason with which the broker refuses the expression; empty: it does not
    allowed: bool = True  # for this group
    popped: bool = False  # whether the group pops it
    lite_subscribed: bool | None = None  # whether a member is subscribed to this lite topic; None: not known
    other_reader: Read | None = None  # of a group without members: the last client that read one of its queues


@attrs.frozen
class QueueState:
    """One queue of the group; times are of the moment of the query."""

    topic: TopicState
    queue_id: int
    min_offset: int = 0
    max_offset: int = 0
    committed: int | None = None
    begin: int = 0  # the first message that the group has not consumed, of those that exist
    behind: int | None = 0  # messages the group has not consumed; None: not known, its members keep their offsets
    deleted: int = 0  # messages that were deleted before the group consumed them
    next_pull: int = -1  # -1: no pull since the start of the broker
    pulled_ms_ago: int | None = None
    moved_ms_ago: int | None = None  # the committed offset changed, or its client began to pull; None: neither
    pulled_by: str = ""  # client id, or the address without one
    other_reader: Read | None = None  # of a group without members
    puller_online: bool = True
    held_by: tuple[str, ...] = ()  # client ids, or addresses without one
    checked: int = 0  # messages evaluated by filters
    matched: int = 0  # messages that matched
    reset: int | None = None
    locked_by: str | None = None
    holder_online: bool = True
    oldest_ms_ago: int | None = None  # age of the oldest message the group has not consumed

    @property
    def hit_rate(self) -> float | None:
        """The fraction of evaluated messages that matched; None if no filter evaluated any."""
        return self.matched / self.checked if self.checked else None

    @property
    def owner(self) -> str | None:
        """The reader as far as the broker knows: the client of a held pull, of the lock, or of the last pull."""
        if self.held_by:
            return self.held_by[0]
        if self.locked_by and self.holder_online:
            return self.locked_by
        return self.pulled_by if self.pulled_by and self.puller_online else None
