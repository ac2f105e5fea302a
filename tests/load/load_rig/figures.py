"""Percentiles of measured times."""

from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that *share* of *ordered* does not exceed; 0.0 where there is none.

    Args:
        ordered: ascending.
        share: 0.5 for the median, 1.0 for the greatest.
    """
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
