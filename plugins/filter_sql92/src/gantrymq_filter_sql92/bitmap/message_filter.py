"""The filter of a group during a pull: first its bits in the message's ext unit, then its expression on the message.

Bits are used if the group was known under the same expression when the message was stored. They may pass a message
that the expression rejects, never the reverse.

A message on its way through a retry topic has lost its original topic. With ``filterSupportRetry=true`` an SQL92
subscription to a retry topic uses the group's filter on the message's original topic; a message from a topic that the
group does not filter passes. The usual subscription to a retry topic is by tag, for all messages.

Source: apache/rocketmq broker/.../filter/ExpressionMessageFilter.java, ExpressionForRetryMessageFilter.java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from gantrymq.plugin.formats import MIN_UNIT_BYTES, RecordView
from gantrymq.plugin.interfaces import ExtUnit, MessageFilter, SkippingFilter, SliceFilter
from gantrymq.plugin.properties import RETRY_TOPIC
from gantrymq_filter_sql92.bitmap.counters import BitMapCounters
from gantrymq_filter_sql92.bitmap.filter_data import FilterData
from gantrymq_filter_sql92.bitmap.topic_bits import Matches

__all__ = ["BitMapFilter", "RetryFilter"]

_REMEMBERED: Final = 4096  # store times; a pull reads at most 800 messages


class BitMapFilter:
    """An expression of a group, combined with the group's bits."""

    __slots__ = (
        "_by_bits",
        "_counts",
        "_data",
        "_expression",
        "_inner",
        "_matches",
        "_passed",
        "candidates",
        "examined",
        "narrowed",
        "needles",
    )

    accepts_all = False
    needs_message = True

    def __init__(
        self, inner: SliceFilter, expression: str, data: Callable[[], FilterData | None], counts: BitMapCounters
    ) -> None:
        """Args:
        inner: the expression alone.
        data: return the current filter data of the group on the topic.
        """
        self._inner = inner
        self._matches = inner.match_properties
        self.needles = inner.needles
        if hasattr(inner, "candidates"):  # a SkippingFilter
            skipping = cast(SkippingFilter, inner)
            self.candidates, self.narrowed, self.examined = skipping.candidates, skipping.narrowed, skipping.examined
        self._by_bits = False  # whether the bits covered every entry of the last `match_units`
        self._expression = expression
        self._data = data
        self._counts = counts
        self._passed: set[int] = set()  # store times of messages passed by the bits

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Return whether the bits pass the message, or do not cover it."""
        self._by_bits = False
        if ext is None or not ext.bits:
            return True
        data = self._data()
        if data is None or data.expression != self._expression:
            return True
        passes = data.may_match(ext.bits, ext.store_timestamp)
        if passes is None:
            return True
        self._counts.checked += 1
        if not passes:
            self._counts.skipped += 1
            return False
        if len(self._passed) >= _REMEMBERED:
            self._passed.clear()
        self._passed.add(ext.store_timestamp)
        return True

    def match_units(self, runs: Sequence[tuple[bytes, int]]) -> bytes | None:
        """See `gantrymq.interfaces.PropertiesFilter.match_units`."""
        data, answers, checked, skipped = self._data(), [], 0, 0
        self._by_bits = data is not None and data.expression == self._expression
        for units, size in runs:
            answer, count = None, len(units) // size
            if self._by_bits and data is not None and size > MIN_UNIT_BYTES:
                answer = data.may_match_units(units, size)
                if answer is None:
                    return None
                checked += count
                skipped += answer.count(0)
            answers.append(b"\1" * count if answer is None else answer)
        self._by_bits = checked == sum(map(len, answers))
        self._counts.checked += checked
        self._counts.skipped += skipped
        return b"".join(answers)

    def match_message(self, record: RecordView) -> bool:
        """Return whether the expression is true of the message."""
        self._counts.evaluated += 1
        if self._inner.match_message(record):
            return True
        self._counts.false_positives += record.store_timestamp in self._passed
        return False

    def match_properties(self, properties: bytes) -> bool:
        """As `match_message`, called right after `match_entry` of the same message."""
        self._counts.evaluated += 1
        if self._matches(properties):
            return True
        self._counts.false_positives += self._by_bits
        return False

    def match_slice(self, properties: Sequence[bytes]) -> Sequence[int]:
        """See `gantrymq.interfaces.SliceFilter.match_slice`; called after `match_units` of the same messages."""
        self._counts.evaluated += len(properties)
        found = self._inner.match_slice(properties)
        self._counts.false_positives += self._by_bits and len(properties) - len(found)
        return found


class RetryFilter:
    """A subscription to the retry topic of a group."""

    __slots__ = ("_enabled", "_inner", "_of_topic")

    accepts_all = False
    needs_message = True

    def __init__(
        self, inner: MessageFilter, enabled: Callable[[], bool], of_topic: Callable[[str], Matches | None]
    ) -> None:
        """Use *inner* while not *enabled*, otherwise the group's filter on the original topic (*of_topic*)."""
        self._inner = inner
        self._enabled = enabled
        self._of_topic = of_topic

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Return True: the bits do not know the original topic."""
        return self._enabled() or self._inner.match_entry(tags_code, ext)

    def match_message(self, record: RecordView) -> bool:
        """Return whether the applicable expression is true of the message."""
        if not self._enabled():
            return self._inner.match_message(record)
        matches = self._of_topic(record.properties.get(RETRY_TOPIC, ""))
        return matches is None or matches(bytes(record.properties_bytes))
