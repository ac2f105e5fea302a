"""Message filtering on the pull path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gantrymq.formats.ext_unit import ExtUnit
from gantrymq.formats.record import RecordView
from gantrymq.model.subscription import Subscription

__all__ = ["BitMaps", "ExtUnit", "FilterType", "MessageFilter", "PropertiesFilter", "SliceFilter"]

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


class FilterType(Protocol):
    """An expression type, under the name that clients use (``TAG``, ``SQL92`` or a custom one)."""

    name: str

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Compile an expression. Raises SubscriptionParseFailed with position and reason."""
