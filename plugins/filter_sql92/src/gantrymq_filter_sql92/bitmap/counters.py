"""Counters of the bit map since the start of the broker."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import MetricFamily

__all__ = ["BitMapCounters", "bit_map_metrics"]


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
