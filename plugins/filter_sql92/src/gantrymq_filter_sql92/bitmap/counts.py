"""What the bit map was good for since the start."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.interfaces import MetricFamily

__all__ = ["Counts", "figures_of"]


class Counts:
    """Numbers that only grow.

    A message counts each time a pull looks at it: those that a full pull left for the next count with both.
    """

    __slots__ = ("checked", "evaluated", "false_positives", "made", "skipped", "withheld")

    def __init__(self) -> None:
        self.checked = 0  # messages whose bits said something of the group that asked
        self.skipped = 0  # of them, those that were not read because of it
        self.evaluated = 0  # messages that were read and asked the expression, with bits or without
        self.false_positives = 0  # of them, those that the bits had let pass and the expression did not
        self.made = 0  # maps made for new messages
        self.withheld = 0  # messages that got none: there were too many expressions for the time there is


def figures_of(counts: Counts) -> list[Callable[[], MetricFamily]]:
    """What to hand to `Broker.register_metrics`."""

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
