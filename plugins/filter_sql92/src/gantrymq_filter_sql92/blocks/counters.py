"""Counters of block filters."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gantrymq.interfaces import MetricFamily

__all__ = ["BlockCounters", "block_metrics"]


@attrs.define
class BlockCounters:
    """Counters since the start. They count blocks, except `evaluated`."""

    checked: int = 0  # blocks checked by a pull
    skipped: int = 0  # of them, blocks skipped unread
    evaluated: int = 0  # messages in memory that were evaluated
    false_positives: int = 0  # blocks with a positive filter that were read completely and had no matching message
    made: int = 0
    dropped: int = 0  # files that were damaged, or stale


def block_metrics(counts: BlockCounters, kept: Callable[[], int]) -> list[Callable[[], MetricFamily]]:
    """Return the metrics for `Metrics.register`.

    Args:
        counts: the counters, read at each scrape.
        kept: return the number of filters in memory.
    """

    def total(name: str, text: str, value: Callable[[], int]) -> Callable[[], MetricFamily]:
        return lambda: MetricFamily(f"gantrymq_filter_{name}_total", text, (), {(): value()}, counter=True)

    return [
        total("blocks_checked", "Blocks of a queue that an SQL92 pull had a filter of.", lambda: counts.checked),
        total("blocks_skipped", "Blocks that such a pull skipped without reading them.", lambda: counts.skipped),
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
