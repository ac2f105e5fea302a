"""Filtering: which messages of a queue a consumer gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gantrymq.formats.ext_unit import ExtUnit
from gantrymq.formats.record import RecordView
from gantrymq.model.queue import Queue
from gantrymq.model.subscription import Subscription

__all__ = ["BitMaps", "ExtUnit", "FilterType", "MessageFilter", "PropertiesFilter"]

BitMaps = dict[str, Callable[[bytes], bytes]]
"""By topic, what makes the bits of a new message's ext unit of its stored properties; it never raises, and gives no
bits where it cannot tell."""


class MessageFilter(Protocol):
    """A compiled expression. One that reads nothing but properties is better a `PropertiesFilter`."""

    accepts_all: bool  # True lets the store skip both calls below

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """First stage, on the queue entry alone; True when unsure."""

    def match_message(self, record: RecordView) -> bool:
        """Second stage, on the record; asked only where ``needs_message`` is True."""

    needs_message: bool


class PropertiesFilter(MessageFilter, Protocol):
    """A compiled expression over properties, which a store may ask in ways that cost less; it may also not."""

    needles: tuple[bytes, ...]  # the stored text of a message that matches holds one of them; empty: nobody knows

    def match_properties(self, properties: bytes) -> bool:
        """What ``match_message`` says of a record with these, see `gantrymq.model.properties`."""

    def match_units(self, runs: Sequence[tuple[bytes, int]]) -> bytes | None:
        """``match_entry`` of *runs* of ext units of one size (bytes): 0 or 1 each; None: ask of each; no unit: True."""

    def candidates(self, queue: Queue, queue_offset: int) -> tuple[int, int]:
        """The next entries from *queue_offset* on that may match, ``[start, end)``; asked once for all of them.

        None of ``[queue_offset, start)`` matches, so they need not be read; of those behind *end* ask again.
        """


class FilterType(Protocol):
    """One kind of expression, named as clients name it (``TAG``, ``SQL92``, yours)."""

    name: str

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Prepare an expression. Raises SubscriptionParseFailed with the place and the reason."""
