"""Message filtering on the pull path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gantrymq.formats.dispatch_entry import ExtUnit
from gantrymq.formats.record import RecordView
from gantrymq.model.queue import Queue
from gantrymq.model.subscription import Subscription

__all__ = [
    "BitMaps",
    "Candidates",
    "ExtUnit",
    "FilterType",
    "MessageFilter",
    "PropertiesFilter",
    "SkippingFilter",
    "SliceFilter",
    "ValuesOf",
]

BitMaps = dict[str, Callable[[bytes], bytes]]
"""By topic, a function from a new message's stored properties to the bits of its ext unit. It never raises; it returns
no bits if it cannot decide."""


class MessageFilter(Protocol):
    """A compiled expression. If it reads only properties, implement `PropertiesFilter`."""

    accepts_all: bool  # True: the store skips both calls below

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """First stage, on the queue entry alone. Return True if undecided."""

    def match_message(self, record: RecordView) -> bool:
        """Second stage, on the record; called only if ``needs_message`` is True."""

    needs_message: bool


class PropertiesFilter(MessageFilter, Protocol):
    """A compiled expression over properties. A store may use the cheaper calls below, but does not have to."""

    needles: tuple[bytes, ...]  # the stored properties of a match contain one of these; empty: unknown

    def match_properties(self, properties: bytes) -> bool:
        """Return the result of ``match_message`` for a record with these properties (`gantrymq.model.properties`)."""

    def match_units(self, runs: Sequence[tuple[bytes, int]]) -> bytes | None:
        """Apply ``match_entry`` to *runs*, each of ext units of one size (bytes). Return a byte 0 or 1 for each unit.

        Return None if ``match_entry`` must be called for each one. Entries without a unit match.
        """


class SliceFilter(PropertiesFilter, Protocol):
    """A `PropertiesFilter` that evaluates many messages in one call, which a store prefers to one call for each."""

    def match_slice(self, properties: Sequence[bytes]) -> Sequence[int]:
        """Return the indexes, ascending, of those *properties* for which ``match_properties`` returns True.

        A store may evaluate more messages than it returns, and evaluate these again in a later read.
        """


class Candidates(NamedTuple):
    """A part of a queue that a get should examine: what is before *begin* cannot match."""

    queue: Queue
    version: int
    begin: int  # queue offset; the end of the queue if nothing can match
    end: int  # queue offset at which the next part that cannot match may begin
    queue_end: int


ValuesOf = Callable[[str, int, int], list[tuple[int, set[bytes]]] | None]
"""Return the stored values of a property in the messages from one queue offset to another, run by run.

Each run has its first queue offset, and values of which each of its messages has one, or none. None: the store does not
have the messages in memory.
"""


class SkippingFilter(SliceFilter, Protocol):
    """A `SliceFilter` that knows parts of queues without a match. A store may read these parts nevertheless."""

    def candidates(self, queue: Queue, version: int, begin: int, end: int) -> Candidates:
        """Return the first part of ``[begin, end)`` that may have a match; *end* is the end of the queue.

        *version* is another number, never used before, after each change of the queue that is not an append. Called on
        the event loop before a get reads anything.
        """

    def narrowed(self, part: Candidates, end: int, values: ValuesOf) -> tuple[list[int], int] | None:
        """Return the queue offsets of messages that may match, and up to which offset this is known; None if unknown.

        Called before a get examines messages from ``part.begin`` to *end*, unless the queue has a new version by then.
        """

    def examined(self, part: Candidates, end: int) -> None:
        """Note that a get has examined the messages from ``part.begin`` to *end*, without `narrowed`."""


class FilterType(Protocol):
    """An expression type, under the name that clients use (``TAG``, ``SQL92`` or a custom one)."""

    name: str

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Compile an expression. Raises SubscriptionParseFailed with position and reason."""
