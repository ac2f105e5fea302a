"""The filter of a group during a pull: first its bits in the message's ext unit, then its expression on the message.

Bits are used if the group was known under the same expression when the message was stored. They may pass a message
that the expression rejects, never the reverse.

A message on its way through a retry topic has lost its original topic. With ``filterSupportRetry=true`` an SQL92
subscription to a retry topic uses the group's filter on the message's original topic; a message from a topic that the
group does not filter passes. The usual subscription to a retry topic is by tag, for all messages.

A new message gets the bits of each group with a matching expression (`TopicBits`). An expression shared by several
groups is evaluated once. A group with an expression that cannot be evaluated here gets its bits in every message, so
that a broker able to evaluate it reads them all. A map is left out if computing it would exceed the share of the event
loop: a message without a map is evaluated when it is read.

Source: apache/rocketmq broker/.../filter/ExpressionMessageFilter.java, ExpressionForRetryMessageFilter.java,
CommitLogDispatcherCalcBitMap.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from gantrymq.plugin.formats import MIN_UNIT_BYTES, RecordView
from gantrymq.plugin.interfaces import ExtUnit, MessageFilter, MetricFamily, SkippingFilter, SliceFilter
from gantrymq.plugin.properties import RETRY_TOPIC
from gantrymq_filter_sql92.bitmap.filter_data import FilterData

MOST_COST: Final = 100_000  # cost of the expressions of one topic: 4 ms per message
EACH_COSTS: Final = 64  # cost of an expression besides its characters
WINDOW_S: Final = 0.02
SHARE_S: Final = 0.01  # s of each window
Matches = Callable[[bytes], bool]  # whether stored properties match; an expression that fails does not match
_REMEMBERED: Final = 4096  # store times; a pull reads at most 800 messages


class BitMapCounters:
    """Counters that only grow.

    A message counts each time a pull reads it: a message left over by a full pull counts in the next pull again.
    """

    __slots__ = ("checked", "evaluated", "false_positives", "made", "skipped", "withheld")

    def __init__(self) -> None:
        self.checked = 0  # messages with bits for the group of the pull
        self.skipped = 0  # of them, messages skipped because of the bits
        self.evaluated = 0  # messages evaluated against the expression, with bits or without
        self.false_positives = 0  # of them, messages that passed the bits but not the expression
        self.made = 0  # maps made for new messages
        self.withheld = 0  # messages without a map: evaluating all expressions would have exceeded the time budget


def bit_map_metrics(counts: BitMapCounters) -> list[Callable[[], MetricFamily]]:
    """Return the metrics for `Metrics.register`."""

    def asked() -> MetricFamily:
        text = "Messages that pulls filtering by SQL92 looked at: what became of them at the filter bit map."
        values: dict[tuple[str, ...], float] = {
            ("checked",): counts.checked,
            ("skipped",): counts.skipped,
            ("evaluated",): counts.evaluated,
            ("false_positive",): counts.false_positives,
        }
        return MetricFamily("gantrymq_filter_bitmap_asked_total", text, ("outcome",), values, counter=True)

    def made() -> MetricFamily:
        text = "New messages of topics that groups filter by SQL92: whether they got a filter bit map."
        values: dict[tuple[str, ...], float] = {("made",): counts.made, ("withheld",): counts.withheld}
        return MetricFamily("gantrymq_filter_bitmap_messages_total", text, ("outcome",), values, counter=True)

    return [asked, made]


class EvaluationTime:
    """Limits the event loop's time for maps to `SHARE_S` of each `WINDOW_S`, plus one message."""

    __slots__ = ("_monotonic", "_since", "_spent_s")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """*monotonic*: clock in seconds."""
        self._monotonic = monotonic
        self._since = monotonic()
        self._spent_s = 0.0

    def begin(self) -> float | None:
        """Return the start time, or None if the budget is used up."""
        now = self._monotonic()
        if now - self._since >= WINDOW_S:
            self._since, self._spent_s = now, 0.0
        return now if self._spent_s < SHARE_S else None

    def end(self, begun: float) -> None:
        """Account for work started at *begun*."""
        self._spent_s += self._monotonic() - begun


class TopicBits:
    """Computes the maps of one topic for its current filters."""

    __slots__ = ("_always", "_asked", "_byte_count", "_cost", "_counts", "_time")

    def __init__(
        self,
        filters: Iterable[FilterData],
        compiled: Callable[[FilterData], Matches | None],
        time: EvaluationTime,
        counts: BitMapCounters,
    ) -> None:
        """*filters*: at least one; *compiled*: return the predicate of a group's expression, None if it has none."""
        self._time = time
        self._counts = counts
        self._always = self._byte_count = 0
        masks: dict[tuple[str, str], int] = {}
        first: dict[tuple[str, str], FilterData] = {}
        for data in filters:
            key = data.type, data.expression
            masks[key] = masks.get(key, 0) | data.mask
            first.setdefault(key, data)
            self._byte_count = data.byte_count
        self._asked: list[tuple[Matches, int]] = []
        self._cost = sum(EACH_COSTS + len(data.expression) for data in first.values())
        for key, data in first.items() if self._cost <= MOST_COST else ():
            matches = compiled(data)
            if matches is None:
                self._always |= masks[key]
            else:
                self._asked.append((matches, masks[key]))

    def __call__(self, properties: bytes) -> bytes:
        """Return the map of a message with these stored *properties*; empty if the time budget is used up."""
        begun = self._time.begin() if self._cost <= MOST_COST else None
        if begun is None:
            self._counts.withheld += 1
            return b""
        bits = self._always
        for matches, mask in self._asked:
            if mask & ~bits and matches(properties):
                bits |= mask
        self._time.end(begun)
        self._counts.made += 1
        return bits.to_bytes(self._byte_count, "little")


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
