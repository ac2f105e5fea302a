"""Facts about a message and about each group of its topic: the input of every verdict.

Offsets are queue offsets, times are wall times in ms since 1970.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from gantrymq.plugin.model import MessageQueue, Subscription

_YEAR_2001_MS: Final = 10**12
_YEAR_2096_MS: Final = 4 * 10**12


class Fact(enum.Enum):
    """Kinds of facts that servers are asked for."""

    ROUTE = "route"
    TOPICS = "topics"
    GROUPS = "groups"  # which groups consume the topic
    MESSAGE = "message"  # the message itself, by its unique id
    COMMITTED = "committed"
    PULLED = "pulled"
    MEMBERS = "members"
    POSITIONS = "positions"  # of members, asked through the broker
    FILTER = "filter"
    RETRIES = "retries"  # copies in the group's retry topics
    DEAD_LETTERS = "dead-letters"
    DELAYED = "delayed"  # copies that wait for a delay
    TRACE = "trace"
    POPS = "pops"  # in flight
    BROKER = "broker"  # version, start and settings of the message's broker


COPIES = frozenset({Fact.RETRIES, Fact.DEAD_LETTERS, Fact.DELAYED, Fact.MESSAGE})


@attrs.frozen
class MissingFact:
    """Something that could not be asked."""

    fact: Fact
    broker: str  # its name; empty for name servers
    why: str  # "deadline", "refused", "unreachable", "incomplete", "no-unique-id", "not-indexed"
    detail: str = ""  # the error, for people
    code: int | None = None  # response code of a refusal
    group: str | None = None  # None: concerns all groups


class Kind(enum.Enum):
    """The kind of the message in question."""

    NORMAL = "normal"
    RETRY = "retry"  # a copy for the retries of one group
    DEAD_LETTER = "dead-letter"
    DELAYED = "delayed"  # not delivered yet
    HALF = "half"  # of a transaction that is undecided or was rolled back
    DISCARDED = "discarded"  # a half message given up after too many checks


class Stage(enum.Enum):
    """Where a copy of a failed message is."""

    DELAYED = "delayed"
    RETRY = "retry"
    DEAD_LETTER = "dead-letter"


class Fit(enum.Enum):
    """Whether the present subscription of a group matches the message."""

    MATCHES = "matches"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@attrs.frozen
class Copy:
    """A copy of the message that was stored because a group failed to consume it."""

    stage: Stage
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    stored_ms: int
    failures: int  # number of failed tries at that time
    offset_id: str
    popped: bool = False  # in a retry topic of pop
    due_ms: int | None = None  # delivery time of a delayed copy
    committed: int | None = None  # the group's committed offset in that queue, of a RETRY; None if not known
    pulled: int | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key: the newest copy is the last."""
        return self.stored_ms, self.failures, _STAGES.index(self.stage)


_STAGES = (Stage.DELAYED, Stage.RETRY, Stage.DEAD_LETTER)


@attrs.frozen
class Try:
    """One delivery to a consumer, according to the trace."""

    client_host: str  # of the client that wrote the trace
    began_ms: int | None
    ended_ms: int | None = None
    success: bool | None = None  # None: not ended yet, or the end was not recorded
    took_ms: int | None = None
    failures: int | None = None  # failed tries before this one


@attrs.frozen
class Pop:
    """The last known pop of the message, or of its newest copy."""

    popped_ms: int
    visible_ms: int  # when it can be popped again, unless it is acknowledged
    acknowledged: bool


@attrs.frozen
class MemberPosition:
    """A member's report about the message's queue, if the queue is assigned to it."""

    client_id: str
    committed: int  # in the member's memory, at least its committed offset at the broker
    cached_min: int
    cached_max: int
    cached_count: int
    locked: bool

    def may_hold(self, queue_offset: int) -> bool:
        """Return whether the message is in the member's memory, or was consumed before an earlier one."""
        return self.cached_count > 0 and self.cached_min <= queue_offset <= self.cached_max

    def holds(self, queue_offset: int) -> bool:
        """Return whether the message is in the member's memory: the first one, or any of an ordered consumer."""
        return self.may_hold(queue_offset) and (self.locked or queue_offset == self.cached_min)

    @property
    def idle(self) -> bool:
        """Whether the member has consumed all that it has pulled."""
        return self.cached_count == 0 and not self.locked  # an ordered consumer may be consuming one not counted


@attrs.frozen
class MessageFacts:
    """The message that groups consume."""

    queue: MessageQueue
    queue_offset: int
    unique_id: str
    offset_id: str  # empty if the message itself is gone, and only a copy is known
    stored_ms: int
    tags: str | None = None
    same_id: int = 0  # other messages of the topic with the same unique id
    pulls_recorded: bool = False  # whether the broker knows every pull since the message was stored


@attrs.frozen
class GroupFacts:
    """One group, seen from the message. Facts in *unknown* could not be asked."""

    group: str
    committed: int | None = None  # in the message's queue
    pulled: int | None = None  # next offset of the last pull; None if the broker does not keep it, or it is not needed
    model: str = ""  # CLUSTERING, BROADCASTING; empty without members
    consume_type: str = ""
    members: tuple[str, ...] = ()  # client ids connected to the message's broker
    positions: tuple[MemberPosition, ...] = ()
    subscription: Subscription | None = None
    fit: Fit = Fit.UNKNOWN
    copies: tuple[Copy, ...] = ()
    tries: tuple[Try, ...] = ()
    pops: bool = False  # whether the group is known to pop the topic
    pop: Pop | None = None
    unknown: frozenset[Fact] = frozenset()

    @property
    def subscribed_ms(self) -> int | None:
        """When a client had the present subscription at the latest, by its clock; None if it does not report it.

        RocketMQ's client in Java writes the time of the last rebalance; others write nanoseconds, or other numbers.
        """
        since_ms = self.subscription.version if self.subscription is not None else 0
        return since_ms if _YEAR_2001_MS < since_ms < _YEAR_2096_MS else None
