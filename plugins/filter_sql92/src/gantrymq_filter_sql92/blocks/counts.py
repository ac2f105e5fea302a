"""What block filters did, as figures."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gantrymq.interfaces import MetricFamily

__all__ = ["Counts", "figures_of"]


@attrs.define
class Counts:
    """Since the start. Blocks of queue entries but for `evaluated`."""

    checked: int = 0  # a pull asked about them
    skipped: int = 0  # of those, passed over unread
    evaluated: int = 0  # messages in memory whose expression was evaluated
    false_positives: int = 0  # said maybe, were read from end to end, and had no message that matched
    made: int = 0
    dropped: int = 0  # files that were damaged, or about messages that are not there any more


def figures_of(counts: Counts, kept: Callable[[], int]) -> list[Callable[[], MetricFamily]]:
    """What to hand to `Broker.register_metrics`.

    Args:
        counts: are read at each showing.
        kept: how many filters are in memory.
    """

    def total(name: str, text: str, value: Callable[[], int]) -> Callable[[], MetricFamily]:
        return lambda: MetricFamily(f"gantrymq_filter_{name}_total", text, (), {(): value()}, counter=True)

    return [
        total("blocks_checked", "Blocks of a queue that an SQL92 pull had a filter of.", lambda: counts.checked),
        total("blocks_skipped", "Blocks that such a pull passed over unread.", lambda: counts.skipped),
        total(
            "blocks_false_positives",
            "Blocks whose filter said maybe and in which nothing matched.",
            lambda: counts.false_positives,
        ),
        total("blocks_made", "Block filters that were made.", lambda: counts.made),
        total(
            "blocks_dropped",
            "Block filters that were damaged, or about messages that are gone.",
            lambda: counts.dropped,
        ),
        total(
            "blocks_evaluated",
            "Messages in memory whose SQL92 expression was evaluated.",
            lambda: counts.evaluated,
        ),
        lambda: MetricFamily("gantrymq_filter_blocks", "Block filters in memory.", (), {(): kept()}),
    ]
