"""Filtering: which messages of a queue a consumer gets."""

from __future__ import annotations

from typing import Protocol

from gantrymq.formats.ext_unit import ExtUnit
from gantrymq.formats.record import RecordView
from gantrymq.model.subscription import Subscription

__all__ = ["ExtUnit", "FilterType", "MessageFilter"]


class MessageFilter(Protocol):
    """A compiled expression."""

    accepts_all: bool  # True lets the store skip both calls below

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """First stage, on the queue entry alone; True when unsure."""

    def match_message(self, record: RecordView) -> bool:
        """Second stage, on the record; asked only where ``needs_message`` is True."""

    needs_message: bool


class FilterType(Protocol):
    """One kind of expression, named as clients name it (``TAG``, ``SQL92``, yours)."""

    name: str

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Prepare an expression. Raises SubscriptionParseFailed with the place and the reason."""
