"""Percentiles of measured times."""

from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that is at least as large as *share* of *ordered*; 0.0 if it is empty.

    Args:
        ordered: ascending.
        share: 0.5 for the median, 1.0 for the maximum.
    """
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
