"""Divides a limit among queues: at most the limit in all, something for every queue in turn, the rest by backlog."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["divide_limit"]


def divide_limit(backlogs: Sequence[int], limit: int, turn: int = 0) -> list[int]:
    """Return how many offsets each queue gets.

    Args:
        backlogs: available offsets of each queue.
        limit: maximum for all queues together, 1 or more.
        turn: which queue is first if the limit does not reach all of them; the caller increments it.

    Returns:
        One number for each backlog; their sum is the limit, or the sum of the backlogs if that is less.
    """
    if sum(backlogs) <= limit:
        return list(backlogs)
    waiting = [number for number, backlog in enumerate(backlogs) if backlog]
    first = turn % len(waiting)
    order = waiting[first:] + waiting[:first]
    shares = [0] * len(backlogs)
    for number in order[:limit]:
        shares[number] = 1
    left = limit - sum(shares)
    rest = sum(backlogs) - len(waiting)
    if left > 0:
        for number in waiting:
            shares[number] += left * (backlogs[number] - 1) // rest
    for number in order:
        more = min(limit - sum(shares), backlogs[number] - shares[number])
        shares[number] += max(0, more) if left > 0 else 0
    return shares
